"""Phases: what a system lists is what is planned, numbered, made, cut off and taken up."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import PlannedPhase
from privplan.audit.verify import verify
from privplan.fl.declarations.packages import built_in
from privplan.fl.frame.phases import (
    Phase,
    PhaseOutcome,
    SingleRelease,
    checked_phases,
    last_round,
    rounds_by_phase,
)
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.state import State
from privplan.fl.log import LogWriter
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.preparation import prepare
from privplan.fl.running.resumption import require_resumable
from privplan.fl.running.session import execute

from ..cases import for_each
from .extras import needs
from .small_runs import of

runs = needs("sklearn")


def planned(name: str, rounds: int) -> PlannedPhase:
    event = ev.Gaussian(2.0)
    return PlannedPhase(name, 2.0, event, rounds, {"model": event})


def makes(*_: object) -> Any:
    raise NotImplementedError


def once(name: str) -> Phase:
    own = SingleRelease("a clip", State(clip=()), makes, makes, lambda arrays: PhaseOutcome(arrays))
    return Phase(planned(name, 1), 0, once=own)


def test_rounds_are_numbered_through_the_run_and_shared_out_in_order() -> None:
    own = (once("clip"), Phase(planned("a", 2), 1, makes), Phase(planned("b", 3), 3, makes))
    plans = [one.plan for one in own]
    assert checked_phases(own, plans) == own
    assert [one.last for one in own] == [0, 2, 5]
    assert last_round(own) == 5
    assert last_round(own[:1]) == 0
    plans = [planned("a", 2), planned("b", 3)]
    assert [rounds_by_phase(plans, made) for made in (0, 1, 3, 9)] == [
        [0, 0],
        [1, 0],
        [2, 1],
        [2, 3],
    ]


@for_each(
    ("firsts", "what"),
    [((1, 2), "'b' is 2; it must be 3"), ((0, 0), "must be 2"), ((1, 1), "must be 3")],
)
def test_two_phases_never_share_a_number(firsts: tuple[int, int], what: str) -> None:
    own = [Phase(planned("a", 2), firsts[0], makes), Phase(planned("b", 2), firsts[1], makes)]
    with pytest.raises(InvalidInput, match=what):
        checked_phases(own, [one.plan for one in own])


def test_phases_are_those_of_the_plan_and_make_models_or_one_release() -> None:
    own = [Phase(planned("a", 2), 1, makes)]
    for plans in ([], [planned("b", 2)], [planned("a", 2), planned("b", 1)]):
        with pytest.raises(InvalidInput, match="The phases are 'a', and the plan has"):
            checked_phases(own, plans)
    own = once("clip").once
    for given in ({}, {"make": makes, "once": own}):
        with pytest.raises(InvalidInput, match="must say what one round of it does"):
            Phase(planned("a", 1), 1, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="one release"):
        Phase(planned("a", 2), 1, once=own)


@runs
@pytest.mark.parametrize(
    ("system", "declared"),
    [
        *(("stages", ("warm",)), ("stages", ("release", "warm"))),
        *(("stages", ("warm", "release", "cool")), ("means", ("train",))),
        ("means", lambda read: ("a",) * read("run", "rounds")),
    ],
)
def test_a_system_has_the_phases_that_it_declares(
    system: str, declared: Any, conducting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(built_in()[system], phases=declared)
    monkeypatch.setitem(built_in(), system, own)
    names = ", ".join(declared if isinstance(declared, tuple) else conducting.ROUNDS * ["a"])
    said = rf"{system} \(package numpy\) declares the phases {names}, and has"
    with pytest.raises(InvalidInput, match=said):
        prepare(conducting.settings_of(system))


@runs
def test_a_system_may_declare_its_phases_by_what_it_is_asked_for(
    conducting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(
        built_in()["means"],
        phases=lambda read: ("release",) if read("run", "rounds") == conducting.ROUNDS else (),
    )
    monkeypatch.setitem(built_in(), "means", own)
    assert prepare(conducting.settings_of("means")).rounds == conducting.ROUNDS


class Stop(Exception):
    """What a test raises."""


@contextmanager
def cut_off(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    """Raise between the two intents of a round."""
    import means

    def stop(number: int) -> None:
        if number == at:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(means.Doubled, "between", staticmethod(stop))
        with pytest.raises(Stop):
            yield


@runs
@pytest.mark.parametrize("after", [1, 2, 3])
def test_two_phases_are_cut_off_anywhere_and_go_on(
    after: int, conducting: Any, tmp_path: Path
) -> None:
    prepared = prepare(conducting.settings_of("stages"))
    assert prepared.rounds == conducting.ROUNDS

    def stop(measured: Any, of_rounds: int) -> None:
        assert of_rounds == conducting.ROUNDS
        if measured.round == after:
            raise Stop

    with LogWriter.create(tmp_path) as writer, pytest.raises(Stop):
        execute(prepared, tmp_path, writer, report=stop)
    assert Checkpoint.read(tmp_path / CHECKPOINT_FILE).round == after
    result = conducting.resumed("stages", tmp_path)
    intents = of(tmp_path, records.RoundIntent)
    assert [(one.phase, one.round) for one in intents] == [
        ("warm", 1),
        ("warm", 2),
        ("release", 3),
        ("release", 4),
    ]
    assert [one.event for one in intents] == 2 * [ev.Gaussian(4.0)] + 2 * [ev.Gaussian(2.0)]
    parameters, _ = conducting_uninterrupted(conducting, after)
    assert result.parameters.tobytes() == parameters.tobytes()
    (close,) = of(tmp_path, records.RunClose)
    assert close.rounds == 4
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert [one["round"] for one in metrics["rounds"]] == [1, 2, 3, 4]
    spent = metrics["rounds"][-1]["epsilon_so_far"]["model"]
    assert spent == pytest.approx(metrics["guarantees"]["model"]["epsilon"])


def conducting_uninterrupted(conducting: Any, cut: int) -> tuple[Any, Any]:
    """Return where one process ends that draws as the run that was cut off after a round."""
    from privplan.accountant.randomness import Streams

    prepared = prepare(conducting.settings_of("stages"))
    odometer = Odometer.for_plan(prepared.plan)
    streams = [Streams.seeded(conducting.SEED, segment) for segment in (0, 1)]
    gates = [Gate(odometer, conducting.Forgets(), one) for one in streams]
    parameters, state = prepared.system.initial(), prepared.system.initial_state()
    for phase in prepared.system.phases:
        assert phase.make is not None
        for number in range(phase.first, phase.last + 1):
            moved = phase.make(number, parameters, gates[number > cut], state)
            parameters, state = moved.parameters, moved.state
    return parameters, state


@runs
def test_a_rehearsal_makes_the_rounds_of_all_phases(conducting: Any) -> None:
    prepared = prepare(conducting.settings_of("stages"))
    gate = Gate(Odometer.for_plan(prepared.plan), conducting.Forgets(), prepared.streams)
    rounds = list(simulated_rounds(prepared.system, gate))
    assert [number for number, _, _ in rounds] == [1, 2, 3, 4]
    for (_, _, before), (_, model, _) in itertools.pairwise(rounds):
        assert model is before.parameters
    again = Gate(Odometer.for_plan(prepared.plan), conducting.Forgets(), prepared.streams)
    assert len(list(simulated_rounds(prepared.system, again, most=3))) == 3


@runs
def test_a_round_of_two_intents_counts_once(conducting: Any, tmp_path: Path) -> None:
    result = conducting.begun("doubled", tmp_path)
    assert [one.round for one in of(tmp_path, records.RoundIntent)] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert result.rounds == result.planned == 4
    (close,) = of(tmp_path, records.RunClose)
    assert close.rounds == 8  # releases, which is what the last line counts
    assert verify(tmp_path).complete


@runs
def test_a_round_that_is_cut_between_its_intents_is_spent_by_its_number(
    conducting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut_off(monkeypatch, 2):
        conducting.begun("doubled", tmp_path)
    assert Checkpoint.read(tmp_path / CHECKPOINT_FILE).round == 1
    with cut_off(monkeypatch, 3):
        conducting.resumed("doubled", tmp_path)
    result = conducting.resumed("doubled", tmp_path)
    assert [one.round for one in of(tmp_path, records.RoundIntent)] == [1, 1, 2, 3, 4, 4]
    assert (result.rounds, result.planned) == (2, 4)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert (metrics["released"], [one["round"] for one in metrics["rounds"]]) == (2, [1, 4])
    (close,) = of(tmp_path, records.RunClose)
    assert close.rounds == len(of(tmp_path, records.RoundRelease)) == 6
    assert verify(tmp_path).complete
    first, last = (one for one in of(tmp_path, records.RoundRelease) if one.model_out)
    intents = [one for one in of(tmp_path, records.RoundIntent) if one.model_in]
    assert intents[-1].model_in == first.model_out
    assert last.model_out == close.model


@runs
def test_other_streams_of_a_cut_round_are_refused_like_those_of_any(
    conducting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept model is that of the log's last release of a model, not of its last release."""
    with cut_off(monkeypatch, 3):
        conducting.begun("doubled", tmp_path)
    kept = Checkpoint.read(tmp_path / CHECKPOINT_FILE)
    progress = conducting.progress_of(tmp_path)
    own = prepare(conducting.settings_of("doubled"), segment=1)
    assert require_resumable(own, tmp_path, progress).round == kept.round == 2
    (tmp_path / CHECKPOINT_FILE).unlink()
    with pytest.raises(InvalidInput, match="last released model is missing"):
        require_resumable(own, tmp_path, progress)


@runs
def test_a_whole_model_names_its_parts(conducting: Any, tmp_path: Path) -> None:
    conducting.begun("stages", tmp_path)
    kept = Checkpoint.read(tmp_path / MODEL_FILE)
    assert kept.parts == (("mean", (30,)), ("count", ()))
    arrays = kept.arrays()
    assert arrays["mean"].tolist() == kept.parameters[:30].tolist()
    assert float(arrays["count"]) == kept.parameters[30]
