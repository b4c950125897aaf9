"""State beside the model: stated, checked, bound to the model in the log, and never made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.plan import PlannedPhase
from privplan.accountant.records import RoundRelease
from privplan.audit.edits.stored_model import StoredModel
from privplan.fl.data.moments import Moments
from privplan.fl.frame import private_system
from privplan.fl.frame.phases import Phase, SingleRelease
from privplan.fl.frame.state import MAX_STATE_ARRAYS, State, declared_state, state_digest
from privplan.fl.log import LogWriter, read
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.first_state import first_state
from privplan.fl.running.preparation import prepare
from privplan.fl.running.prepared_run import PreparedRun
from privplan.fl.running.session import execute
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .extras import needs

runs = needs("torch", "sklearn", "cryptography")


# -- what a state is ----------------------------------------------------------------------------


def test_a_state_gives_its_arrays_as_they_were_stated() -> None:
    state = State(velocity=(2,), steps=())
    arrays = state.checked({"steps": np.float64(3.0), "velocity": np.array([1.0, 2.0])}, "toy")
    assert list(arrays) == ["velocity", "steps"]
    with pytest.raises(ValueError, match="read-only"):
        arrays["velocity"][0] = 5.0
    assert not State()
    assert State().checked({}, "toy") == {}


@for_each(
    ("arrays", "what"),
    [
        (None, "must be arrays by name"),
        ({}, "`velocity` .* is missing"),
        ({"velocity": [1.0, 2.0]}, "`velocity` .* must be float64"),
        ({"velocity": np.zeros(2, np.float32)}, "must be float64; it is float32"),
        ({"velocity": np.zeros(3)}, r"must have shape \(2,\); it has \(3,\)"),
        ({"velocity": np.zeros(2), "speed": np.zeros(2)}, "'speed' that it never said"),
        ({"velocity": np.array([0.0, np.nan])}, "`velocity` .* is not finite"),
        ({"velocity": np.array([0.0, np.inf])}, "`velocity` .* is not finite"),
    ],
)
def test_other_arrays_are_refused(arrays: object, what: str) -> None:
    with pytest.raises(InvalidInput, match=what) as caught:
        State(velocity=(2,)).checked(arrays, "toy (package toys)")
    assert "toy (package toys)" in caught.value.what
    assert caught.value.next_step


@for_each(
    "shapes",
    [
        *({"velocity": 3}, {"velocity": (0,)}, {"velocity": (True,)}, {"velocity": (2.0,)}),
        *({"parameters": (2,)}, {"about": (2,)}, {"file": (2,)}, {"allow_pickle": (2,)}),
        *({"parameters.npy": (2,)}, {"a\0b": (2,)}, {"\ud800": (2,)}, {"": (2,)}),
        *({"a" * 65: (2,)}, {f"array{number}": (1,) for number in range(MAX_STATE_ARRAYS + 1)}),
    ],
)
def test_other_shapes_are_refused(shapes: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        State(**shapes)


@for_each("name", ["velocity", "arr_0", "self_", "A" * 64, "normalisation"])
def test_what_is_kept_under_a_name_comes_back_from_the_file(name: str, tmp_path: Path) -> None:
    arrays = State(**{name: (3,)}).checked({name: np.arange(3.0)}, "toy")
    Checkpoint("run", 1, "toy", np.zeros(2), state=arrays).write(tmp_path / MODEL_FILE)
    kept = Checkpoint.read(tmp_path / MODEL_FILE).state
    assert {key: value.tolist() for key, value in kept.items()} == {name: [0.0, 1.0, 2.0]}


@runs
@for_each("name", Moments.names())
def test_a_state_takes_no_name_of_moments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of its model would be read as one whose moments are not whole: never again."""
    tables = """
    run = {system = "uldp-avg", rounds = 1}
    data = {name = "breast-cancer", users = 20, silos = 3}
    privacy = {noise_multiplier = 5.0, delta = 1e-3}
    """
    prepared = prepare(parse(tables.encode(), "run.toml"))
    monkeypatch.setattr(type(prepared.system), "state", State(**{name: (3,)}))
    with pytest.raises(InvalidInput, match=f"has an array `{name}`"):
        first_state(prepared)


def test_a_class_states_for_itself_alone() -> None:
    class Plain:
        state = State()

    class More(Plain):
        pass

    class Odd:
        state = "nothing"

    assert declared_state(Plain()) == State()
    assert declared_state(More()) is None
    assert declared_state(Odd()) is None
    assert declared_state(object()) is None


def test_a_digest_tells_states_apart() -> None:
    base = {"a": np.array([1.0, 2.0]), "b": np.zeros((1, 2))}
    others: list[dict[str, Any]] = [
        *({"a": base["a"]}, {**base, "a": np.array([1.0, np.nextafter(2.0, 3.0)])}),
        *({**base, "b": np.zeros((2, 1))}, {"a": base["b"].ravel(), "b": base["a"][None]}),
        {"c": base["a"], "b": base["b"]},
    ]
    digests = {state_digest(each) for each in (base, *others)}
    assert len(digests) == 1 + len(others)
    assert state_digest({}) is None
    assert state_digest(dict(reversed(base.items()))) == state_digest(base)


# -- in a run -----------------------------------------------------------------------------------


def releases(folder: Path) -> list[RoundRelease]:
    return [line.record for line in read(folder) if isinstance(line.record, RoundRelease)]


class Stop(Exception):
    """What a test raises."""


def stopped(conducting: Any, system: str, folder: Path, after: int) -> None:
    """Begin a run that stops after so many rounds were kept and measured."""

    def stop(measured: Any, _: int) -> None:
        if measured.round == after:
            raise Stop

    prepared = prepare(conducting.settings_of(system))
    with LogWriter.create(folder) as writer, pytest.raises(Stop):
        execute(prepared, folder, writer, report=stop)


@runs
def test_each_release_names_the_state_and_stateless_ones_none(
    conducting: Any, tmp_path: Path
) -> None:
    conducting.begun("server-momentum", tmp_path / "momentum")
    lines = releases(tmp_path / "momentum")
    assert len({line.state_out for line in lines}) == len(lines) == conducting.ROUNDS
    assert (
        state_digest(Checkpoint.read(tmp_path / "momentum" / MODEL_FILE).state)
        == lines[-1].state_out
    )
    conducting.begun("uldp-avg", tmp_path / "plain")
    assert "state_out" not in (tmp_path / "plain" / "log.jsonl").read_text()


@runs
def test_a_stale_or_altered_state_is_refused(conducting: Any, tmp_path: Path) -> None:
    stopped(conducting, "server-momentum", tmp_path / "one", 1)
    stopped(conducting, "server-momentum", tmp_path / "own", 2)
    path = tmp_path / "own" / CHECKPOINT_FILE
    kept, earlier = Checkpoint.read(path), Checkpoint.read(tmp_path / "one" / CHECKPOINT_FILE)
    velocity = kept.state["velocity"]
    wrong: list[tuple[dict[str, Any], str]] = [
        (dict(earlier.state), r"`velocity`\) is not the one that the log released"),
        ({"velocity": 0.0 * velocity}, "is not the one that the log released"),
        ({"velocity": np.nextafter(velocity, 9.0)}, "is not the one that the log released"),
        ({}, "`velocity` in the state of server-momentum .* is missing"),
        ({"velocity": velocity[:-1]}, "`velocity` .* must have shape"),
        ({"velocity": velocity.astype(np.float32)}, "`velocity` .* must be float64"),
        ({"velocity": np.full_like(velocity, np.nan)}, "`velocity` .* is not finite"),
        ({"velocity": velocity, "more": velocity}, "'more' that it never said"),
    ]
    for state, what in wrong:
        replace(kept, state=state).write(path)
        with pytest.raises(InvalidInput, match=what) as caught:
            conducting.resumed("server-momentum", tmp_path / "own")
        assert "server-momentum (package numpy)" in caught.value.what
    path.unlink()
    with pytest.raises(InvalidInput, match="last released model is missing"):
        conducting.resumed("server-momentum", tmp_path / "own")
    kept.write(path)
    conducting.resumed("server-momentum", tmp_path / "own")


@runs
def test_a_round_that_was_released_and_not_kept_goes_on_from_the_state_before(
    conducting: Any, tmp_path: Path
) -> None:
    stopped(conducting, "server-momentum", tmp_path, 2)
    before = (tmp_path / CHECKPOINT_FILE).read_bytes()
    prepared_file = Checkpoint.read(tmp_path / CHECKPOINT_FILE)

    def lost(measured: Any, _: int) -> None:
        if measured.round == 3:
            raise Stop

    from privplan.fl.running.preparation import randomness
    from privplan.fl.running.resumption import prepare_resumption

    settings = conducting.settings_of("server-momentum")
    prepared = prepare_resumption(settings, conducting.progress_of(tmp_path))
    writer, progress = LogWriter.resume(tmp_path, randomness=randomness(settings))
    with writer, pytest.raises(Stop):
        execute(prepared, tmp_path, writer, progress=progress, report=lost)
    (tmp_path / CHECKPOINT_FILE).write_bytes(before)  # as if round 3 had never been kept
    conducting.resumed("server-momentum", tmp_path)
    last = releases(tmp_path)[-1]
    assert [line.round for line in releases(tmp_path)] == [1, 2, 3, 4]
    kept = Checkpoint.read(tmp_path / MODEL_FILE)
    assert state_digest(kept.state) == last.state_out
    assert state_digest(prepared_file.state) == releases(tmp_path)[1].state_out
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert (metrics["released"], metrics["planned"]) == (4, 4)


@runs
def test_a_state_that_is_not_finite_ends_the_run_before_the_checkpoint(
    conducting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import momenta

    step = momenta.Momentum.server_step

    def diverging(self: Any, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        moved, after = step(self, parameters, noisy, state, number)
        return moved, {"velocity": after["velocity"] * (np.inf if number == 2 else 1.0)}

    monkeypatch.setattr(momenta.Momentum, "server_step", diverging)
    with pytest.raises(InvalidInput, match=r"`velocity` in the state of server-momentum .* finite"):
        conducting.begun("server-momentum", tmp_path)
    assert Checkpoint.read(tmp_path / CHECKPOINT_FILE).round == 1
    assert [line.round for line in releases(tmp_path)] == [1]
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["reason"] == "error"


@runs
def test_a_state_returned_by_a_system_that_states_none_is_refused(
    conducting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import momenta

    monkeypatch.setattr(momenta.Hidden, "server_step", lambda _, x, *__: (x + 1.0, {"velocity": x}))
    with pytest.raises(InvalidInput, match=r"hidden-momentum \(package numpy\) .* never said"):
        conducting.begun("hidden-momentum", tmp_path)


@runs
def test_a_class_that_inherits_a_state_must_state_its_own(
    conducting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import momenta

    class Silent(momenta.Momentum):
        pass

    monkeypatch.setattr(momenta, "momentum", momenta.maker(Silent))
    with pytest.raises(InvalidInput, match=r"keeps what another class states: velocity") as caught:
        prepare(conducting.settings_of("server-momentum"))
    assert "`state` into Silent" in caught.value.next_step


@runs
def test_a_state_and_a_phase_have_no_name_in_common(
    conducting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import momenta

    # What the system declares says no to moments; here it is about their names.
    monkeypatch.setattr(private_system, "require_declared", lambda _: None)
    monkeypatch.setattr(momenta.FedProx, "state", State(normalisation_mean=(30,)))
    settings = conducting.settings_of("fedprox", normalisation_noise=3.0)
    private = replace(settings, data=replace(settings.data, normalisation="private"))
    with pytest.raises(InvalidInput, match="`normalisation_mean`, and so has a phase"):
        prepare(private)


@runs
@pytest.mark.parametrize(
    ("kept", "results", "what"),
    [
        (1, (8, 8), "are 17 arrays; at most 8 can be kept"),
        (1, (8,), "are 9 arrays"),
        (8, (1,), "are 9 arrays"),
        (0, (2, 2, 2, 3), "are 9 arrays"),
    ],
)
def test_phases_that_leave_more_than_an_audit_reads_are_refused_before_a_round(
    kept: int, results: tuple[int, ...], what: str, conducting: Any
) -> None:
    prepared = with_results(conducting, kept, results)
    with pytest.raises(InvalidInput, match=what) as caught:
        first_state(prepared)
    assert "several of them into one" in caught.value.next_step
    assert "numpy" in caught.value.what


@runs
@pytest.mark.parametrize(("kept", "results"), [(0, (8,)), (3, (2, 3)), (8, ())])
def test_as_many_as_an_audit_reads_are_kept(
    kept: int, results: tuple[int, ...], conducting: Any, tmp_path: Path
) -> None:
    """A file of them all, with the five arrays of moments, is read with its state."""
    prepared = with_results(conducting, kept, results)
    state = first_state(prepared)
    once = [phase.once.state for phase in prepared.system.phases if phase.once is not None]
    every = {**state, **{name: np.zeros(()) for each in once for name in each.shapes}}
    moments = {name: np.zeros(3) for name in Moments.names()}
    model = Checkpoint("run", 1, "mlp", np.zeros(3), state={**every, **moments})
    model.write(tmp_path / "model.npz")
    stored = StoredModel.read(tmp_path / "model.npz")
    digest = state_digest(every)
    assert digest is not None
    assert stored.holds_state({digest})


@runs
def test_two_phases_leave_no_array_of_one_name(conducting: Any) -> None:
    prepared = with_results(conducting, 0, (1, 1), "a{array}")
    with pytest.raises(InvalidInput, match=r"Two phases of .* release an array `a0`"):
        first_state(prepared)


def with_results(
    conducting: Any, kept: int, results: tuple[int, ...], name: str = "a{phase}_{array}"
) -> PreparedRun:
    """Return a run with so many arrays of state, whose phases leave so many each."""
    event = ev.Gaussian(2.0)
    phases = []
    for phase, count in enumerate(results):
        shapes: Any = {name.format(phase=phase, array=array): () for array in range(count)}
        plan = PlannedPhase(f"clip-{phase}", 2.0, event, 1, {"model": event})
        once = SingleRelease("clips", State(**shapes), never, never, never)
        phases.append(Phase(plan, phase, once=once))
    shapes = {f"kept{array}": () for array in range(kept)}

    class Results:
        name = "stages"
        state = State(**shapes)

        def __init__(self) -> None:
            self.phases = tuple(phases)

        def initial_state(self) -> Any:
            return self.state.zeros()

    system: Any = Results()
    return replace(prepare(conducting.settings_of("stages")), system=system)


def never(*_: object) -> Any:
    raise NotImplementedError


# -- the package that brings a system -----------------------------------------------------------


@runs
def test_another_version_of_the_package_is_refused_by_name_and_both_versions(
    conducting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.accountant import records
    from privplan.fl.running import resumption

    monkeypatch.setattr(conducting, "PACKAGE", "pytest")
    conducting.enter()
    stopped(conducting, "server-momentum", tmp_path, 1)
    opened = next(iter(read(tmp_path))).record
    assert isinstance(opened, records.RunOpen)
    assert opened.code["pytest"] == pytest.__version__
    monkeypatch.setattr(resumption, "versions", lambda package: {package: "0.0.1"})
    with pytest.raises(InvalidInput, match=f"pytest {pytest.__version__}; here is pytest 0.0.1"):
        conducting.resumed("server-momentum", tmp_path)
    monkeypatch.setattr(resumption, "versions", lambda _: {})
    with pytest.raises(InvalidInput, match="here is pytest of no stated version"):
        conducting.resumed("server-momentum", tmp_path)
    monkeypatch.undo()


@runs
def test_the_code_of_a_built_in_system_names_what_it_did(tmp_path: Path, conducting: Any) -> None:
    conducting.begun("uldp-avg", tmp_path)
    opened: Any = next(iter(read(tmp_path))).record
    assert set(opened.code) == {"python", "privplan", "numpy", "scipy", "torch", "cryptography"} & (
        set(opened.code) | {"python", "numpy", "scipy", "torch"}
    )
