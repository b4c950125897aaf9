"""What DISCO as published claims and promises, what goes with it, and that norms stay secret."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gate
from privplan.accountant.randomness import Streams
from privplan.fl.disco import published
from privplan.fl.disco.published import PublishedDisco, radii
from privplan.fl.disco.published_noise import published_claim, published_multiplier
from privplan.fl.disco.settings import DiscoSettings
from privplan.fl.log.hash_chain import LOG
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, Checkpoint
from privplan.fl.settings.schema import SecuritySettings

from ..cases import for_each
from . import disco_published_runs
from .configured import read
from .disco_published_runs import SEED, TABLE, moving
from .extras import needs


@pytest.fixture
def built(tiny: Any, made_of: Any) -> Callable[..., PublishedDisco]:
    """Return what makes the system for given updates; see `disco_published_runs.built`."""
    return partial(disco_published_runs.built, tiny, made_of)


# --- what is claimed, and promised --------------------------------------------------------------


def test_the_published_formula_both_ways() -> None:
    z = published_multiplier(10.0, None, 20, 1e-5)
    assert z == pytest.approx(2.0 * math.sqrt(2.0 * math.log(1.25 * 20 / 1e-5)) / 0.5, rel=1e-15)
    assert z == pytest.approx(21.7, abs=0.05)
    assert published_claim(z, 20, 1e-5) == pytest.approx(10.0, rel=1e-15)
    assert published_multiplier(None, 3.0, 20, 1e-5) == 3.0
    for epsilon, noise in ((None, None), (1.0, 1.0)):
        with pytest.raises(InvalidInput, match="an epsilon or a noise multiplier, and not both"):
            published_multiplier(epsilon, noise, 20, 1e-5)


@pytest.mark.parametrize("epsilon", [0.5, 8.123456789, 1000.0])
def test_an_epsilon_is_the_claim_and_makes_the_noise(epsilon: float, built: Any) -> None:
    opening = built(moving(), epsilon=epsilon).opening()
    assert opening.as_published
    assert opening.claim.epsilon == epsilon
    assert (opening.claim.observer, opening.claim.unit) == ("peer", "silo")


@for_each(("epsilon", "delta"), [(1e-9, 1e-5), (10.0, 1e-320)])
def test_an_epsilon_that_needs_too_much_noise_is_refused_by_its_name(
    epsilon: float, delta: float
) -> None:
    with pytest.raises(InvalidInput, match=r"`epsilon` = .* at `delta` = .* needs noise of"):
        published_multiplier(epsilon, None, 3, delta)


def test_a_noise_multiplier_claims_the_epsilon_of_its_formula(built: Any) -> None:
    system = built(moving(), epsilon=None, noise_multiplier=21.7)
    wanted = 2.0 * math.sqrt(2.0 * math.log(1.25 * 5 / 1e-5)) * 5 / 21.7
    assert wanted <= system.opening().claim.epsilon <= wanted * 1.00001
    assert system.mechanism(system.promise.noise_multiplier).share_std == pytest.approx(21.7 * 0.25)


def test_nothing_is_promised_before_anybody(built: Any, run: Any) -> None:
    system = built(moving())
    plan = system.plan()
    assert set(plan.guarantees) == {"model", "peer", "coordinator"}
    assert all(math.isinf(one.epsilon.upper) for one in plan.guarantees.values())
    assert all(one.epsilon.lower == 0.0 for one in plan.guarantees.values())
    _, log = run(system, seed=SEED)
    for intent in log.intents:
        assert set(intent.views) == {"peer", "coordinator"}
        for event in (intent.event, *intent.views.values()):
            assert isinstance(event, ev.NoGuarantee)
            assert "the peer's own update" in event.reason


# --- what goes with it --------------------------------------------------------------------------

BESIDE = {"disco": {"noise": '"as_published"'}, "security": {"aggregation": '"plain"'}}


@for_each(
    ("tables", "words"),
    [
        ({"privacy": {"epsilon": "8.0"}}, r"gives `epsilon` and `noise_multiplier`"),
        (
            {"privacy": {"unit": '"record"'}, "disco": {"divisor": "500"}},
            r'unit = "record" in \[privacy\] and noise = "as_published"',
        ),
        ({"disco": {"clip": '"previous"'}}, r'clip = "previous" and noise = "as_published"'),
        ({"disco": {"clip": '"quantile"'}}, r'clip = "quantile" and noise = "as_published"'),
        ({"disco": {"clip_by": '"model"'}}, r'clip_by = "model" and noise = "as_published"'),
        ({"security": {"colluders": "1"}}, r"gives `colluders` in \[security\]"),
        ({"disco": {"time_frames": '["1-2"]'}}, r"gives `time_frames` in \[disco\] with noise"),
        ({"disco": {"divisor": "500"}}, r"gives `divisor` in \[disco\]"),
        ({"security": {"dropouts": "1", "aggregation": '"masked"'}}, r"gives `dropouts`"),
    ],
    ids=lambda given: None if isinstance(given, dict) else given.replace("\\", "")[:30],
)
def test_what_the_program_does_not_have_is_refused(tables: Any, words: str) -> None:
    keys = {name: {**BESIDE.get(name, {}), **tables.get(name, {})} for name in {*BESIDE, *tables}}
    with pytest.raises(InvalidInput, match=words):
        read("disco", **keys)


def test_a_radius_for_each_tensor_may_be_written_out() -> None:
    keys = {**BESIDE, "disco": {**BESIDE["disco"], "clip_by": '"tensor"', "clip": '"fixed"'}}
    assert read("disco", **keys).as_published
    assert read("disco", **BESIDE).as_published
    assert not read("disco").as_published


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unit": "record"}, "never looks at a single record"),
        ({"neighbours": "add-remove"}, "accounted under replace-one"),
        ({"noise_multiplier": 5.0}, "an epsilon or a noise multiplier"),
        ({"table": DiscoSettings(noise="as_published", clip="previous")}, 'has clip = "previous"'),
        ({"table": DiscoSettings(noise="as_published", min_participants=5)}, "has silos = 4"),
        (
            {"table": replace(TABLE, time_frames=("1-2", "1-2", "1-2", "1-2"))},
            "`time_frames` are given",
        ),
        ({"observer": "server"}, "server"),
    ],
    ids=lambda given: None if isinstance(given, dict) else given[:20],
)
def test_settings_made_by_hand_are_refused_too(changes: Any, words: str, built: Any) -> None:
    with pytest.raises(InvalidInput, match=words):
        built(moving(), **changes).plan()


def test_colluders_and_a_tiny_clip_are_refused(tiny: Any, made_of: Any) -> None:
    common = {"unit": "silo", "neighbours": "replace-one", "observer": "peer"}
    setup = made_of("disco", tiny(silos=4), **common)
    for changed, words in (
        ({"security": SecuritySettings(aggregation="plain", colluders=1)}, "gives `colluders`"),
        ({"training": replace(setup.training, clip=1e-13)}, "`clip` is 1e-13"),
    ):
        with pytest.raises(InvalidInput, match=words):
            PublishedDisco(replace(setup, **changed), TABLE)


# --- norms are a peer's secret ------------------------------------------------------------------


def test_a_round_that_follows_none_made_here_is_refused(built: Any, log: Any) -> None:
    """Nothing is drawn: the intent is not even written."""
    system, kept = built(moving()), log()
    gate = Gate(None, kept, Streams.seeded(1))
    for number in (2, 5):
        with pytest.raises(InvalidInput, match=f"Round {number} does not follow round 0"):
            system.round(number, system.initial(), gate)
    assert not kept.records
    first = system.round(1, system.initial(), gate)
    with pytest.raises(InvalidInput, match="Round 3 does not follow round 1"):
        system.round(3, first.parameters, gate)


def test_a_second_run_of_one_system_begins_without_norms(built: Any, run: Any) -> None:
    system = built(moving())
    first, _ = run(system, seed=SEED)
    second, _ = run(system, seed=SEED)
    assert np.array_equal(first, second)


needs_runs = needs("torch", "sklearn")

SMALL = {
    "run": {"system": "disco", "rounds": 4},
    "data": {"name": "breast-cancer", "silos": 5},
    "privacy": {"epsilon": 10.0},
    "disco": {"noise": "as_published"},
    "security": {"aggregation": "plain"},
}


class Stop(Exception):
    """What a test raises."""


def cut_off(folder: Path, *, after: int = 1) -> None:
    """Make a run that is cut off after so many rounds."""
    made: list[int] = []

    def stop(*_: Any) -> None:
        made.append(1)
        if len(made) == after:
            raise Stop

    with pytest.raises(Stop):
        pp.run({**SMALL, "log": {"save_models": True}}, folder, report=stop)


@needs_runs
def test_a_run_that_was_cut_off_cannot_go_on(tmp_path: Any) -> None:
    cut_off(tmp_path / "run")
    before = (tmp_path / "run" / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="cannot be resumed") as refused:
        pp.resume(tmp_path / "run")
    assert "norms of its last updates, which are its secret" in str(refused.value)
    assert "Begin it anew" in str(refused.value)
    assert (tmp_path / "run" / LOG).read_bytes() == before


@needs_runs
def test_a_run_that_drew_nothing_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No norm was made yet, so none is missing."""

    def failing(*_: Any, **__: Any) -> Any:
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(PublishedDisco, "round", failing)
        with pytest.raises(Stop):
            pp.run(SMALL, tmp_path / "run")
    assert pp.resume(tmp_path / "run").result.rounds == 4


@needs_runs
def test_norms_and_radii_stand_in_no_file_but_the_sidecar(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    public: set[float] = set()

    def noted(norms: Any, clip: float) -> Any:
        public.add(clip)  # which a radius has at most
        found = radii(norms, clip)
        seen.extend((norms[-1], found))
        return found

    monkeypatch.setattr(published, "radii", noted)
    cut_off(tmp_path / "run", after=4)
    values = np.unique(np.concatenate([one.ravel() for one in seen]))
    assert len(values) >= 40
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"log.jsonl", "sealed.jsonl", CHECKPOINT_FILE} <= {path.name for path in files}
    assert Checkpoint.read(tmp_path / "run" / CHECKPOINT_FILE).state == {}
    for path in files:
        if path.name == "sealed.jsonl":
            continue
        content = path.read_bytes()
        for value in values.tolist():
            if value in public:
                continue
            assert np.float64(value).tobytes() not in content, path.name
            assert repr(value).encode() not in content, path.name
