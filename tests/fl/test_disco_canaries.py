"""Canaries of DISCO's peers: what an observer sees of them is what is claimed, and no less."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.attack.tiers import canary_count
from privplan.audit.canaries import rehearse
from privplan.fl.canaries import PUBLIC_DATASETS
from privplan.fl.disco import canaries
from privplan.fl.disco.canaries import CanaryTraining
from privplan.fl.disco.updates import clipped_by_tensor
from privplan.fl.running.run_and_resume import run

from ..cases import for_each
from ..chance import limits
from .disco_runs import configuration, settings
from .extras import needs

pytestmark = needs("cryptography")

FRAMES = ("1-4", "1-2", "1-4", "3-4", "1-4")


@pytest.fixture
def one_by_its_protocol(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the sums of one run of a rehearsal go through their protocol: they are all the same."""
    monkeypatch.setattr(canaries, "MAX_PROTOCOL_WORK", 0)
    return


def standard(values: Any) -> None:
    """Say whether numbers are standard normal by mean and square; at most 1 in 10^6 in 40 looks."""
    low, high = limits(stats.norm(scale=math.sqrt(values.size)), looks=40)
    assert low < values.sum() < high
    low, high = limits(stats.chi2(values.size), looks=40)
    assert low < np.square(values).sum() < high


def noise_of(found: Any) -> Any:
    """Return what was seen less what the units moved it by."""
    return found.observations - np.where(found.coins, found.shift, -found.shift)


WHAT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "shared": ("shared", "shares", {}),
    "told": ("shared", "shares", {"colluders": 1}),
    "local by shares, previous": ("local", "shares", {"clip": "previous"}),
    "local masked, by tensor": ("local", "masked", {"clip_by": "tensor"}),
    "local in the clear": ("local", "plain", {}),
    "quantile": ("shared", "shares", {"clip": "quantile"}),
    "quantile in the clear, by tensor": (
        "local",
        "plain",
        {"clip": "quantile", "clip_by": "tensor"},
    ),
    "records": ("shared", "shares", {"unit": "record"}),
    "records in the clear, by tensor": ("local", "plain", {"unit": "record", "clip_by": "tensor"}),
}


def multiplier_of(noise: str, aggregation: str, observer: str, colluders: int) -> float:
    """Return the noise before an observer, in clips, of 5 peers with noise 3 in all: by hand."""
    if observer == "peer":
        return 3.0 * math.sqrt((4 - colluders if noise == "shared" else 1) / 5)
    return 3.0 / math.sqrt(5.0) if (observer, aggregation) == ("coordinator", "plain") else 3.0


@pytest.mark.quick(9)
@pytest.mark.parametrize("observer", ["peer", "model", "coordinator"])
@pytest.mark.parametrize("name", list(WHAT))
@pytest.mark.usefixtures("one_by_its_protocol")
def test_a_unit_is_seen_as_far_as_is_claimed(name: str, observer: str) -> None:
    noise, aggregation, more = WHAT[name]
    own = settings(noise, aggregation, silos=5, rounds=2, **more)
    found = rehearse(own, canaries=60, observer=observer, seed=3)
    looks = 2 if more.get("clip") == "quantile" else 1
    assert found.observations.shape == (2 * looks, 60)
    standard(noise_of(found))
    expected = multiplier_of(noise, aggregation, observer, more.get("colluders", 0))
    assert found.shift * math.sqrt(looks) == pytest.approx(1.0 / expected, rel=1e-9)
    # What is claimed of a round, by its event: as much as the canaries move what is seen.
    assert isinstance(found.event, ev.Repeat)
    event = found.event.event
    parts = event.events if isinstance(event, ev.Compose) else (event,)
    squares = sum(part.noise_multiplier**-2 for part in parts if isinstance(part, ev.Gaussian))
    assert found.shift * math.sqrt(looks) == pytest.approx(math.sqrt(squares), rel=1e-9)


@pytest.mark.usefixtures("one_by_its_protocol")
def test_messages_are_told_apart_where_they_are_seen() -> None:
    for noise, aggregation, observer, groups in (
        ("shared", "shares", "peer", {-1}),
        ("local", "shares", "peer", {1, 2, 3, 4}),
        ("local", "plain", "coordinator", {0, 1, 2, 3, 4}),
        ("local", "plain", "model", {-1}),
    ):
        own = settings(noise, aggregation, silos=5, rounds=1)
        found = rehearse(own, canaries=20, observer=observer, seed=1)
        assert set(found.groups.tolist()) == groups


def _rounds(frame: str) -> tuple[int, int]:
    first, last = map(int, frame.split("-"))
    return first, last


@for_each("clip", ["fixed", "quantile"])
@pytest.mark.usefixtures("one_by_its_protocol")
def test_rounds_that_a_peer_misses_show_nothing_of_it(clip: str) -> None:
    """A shared sum of 4 of 5 peers at a time; three of five peers are there in all 4 rounds."""
    own = settings(silos=5, rounds=4, time_frames=FRAMES, clip=clip)
    found = rehearse(own, canaries=25, observer="model", seed=1)
    missed = found.observations == 0.0
    looks = 2 if clip == "quantile" else 1
    places = np.arange(25) % 5
    for peer, (first, last) in enumerate(map(_rounds, FRAMES)):
        there = np.repeat([first <= number <= last for number in range(1, 5)], looks)
        assert (missed[:, places == peer] == ~there[:, None]).all()
    standard(noise_of(found)[~missed])


def test_a_seed_repeats_all_and_every_run_has_noise_of_its_own() -> None:
    own = settings("local", "plain", silos=3, rounds=2)
    first, second, other = (
        rehearse(own, canaries=9, observer="peer", seed=seed) for seed in (5, 5, 6)
    )
    assert (first.observations == second.observations).all()
    assert not (first.observations == other.observations).any()
    assert len(np.unique(first.observations)) == first.observations.size
    assert not rehearse(own, canaries=4, observer="peer").seeded


def test_sums_are_the_same_by_their_protocol_and_in_the_clear() -> None:
    own = settings(silos=3, rounds=2)
    seen = []
    for most in (0, 10**12):
        with mock.patch.object(canaries, "MAX_PROTOCOL_WORK", most):
            seen.append(rehearse(own, canaries=12, observer="peer", seed=2))
    assert (seen[0].observations == seen[1].observations).all()
    assert any("1 run by the protocol" in note for note in seen[0].note)
    assert not any("by the protocol" in note for note in seen[1].note)


@for_each("tensors", [1, 2])
def test_rows_are_ten_clips_long_or_just_unclipped(tensors: int) -> None:
    training = CanaryTraining(np.array([1]), silos=3, tensors=tensors, short=True)
    training.clip = 0.5
    for pull, norm in ((1.0, 5.0), (-1.0, 0.5)):
        training.pulls = np.array([pull])
        rows = training.silo_deltas(np.zeros(tensors), 2)
        assert np.linalg.norm(rows, axis=1) == pytest.approx([0.0, norm, 0.0])
        assert norm == 5.0 or np.linalg.norm(rows[1]) <= 0.5
        # Whatever is clipped together, the clipped row is C long, in the direction of the canary.
        clipped = clipped_by_tensor(rows, [1] * tensors, 0.5 / math.sqrt(tensors))
        assert training.along(clipped[1]) == pytest.approx([0.5 * pull])
        assert training.record_gradients(rows, np.array([0]), 2) == pytest.approx(-rows[1:2])


def test_what_is_not_rehearsed_is_refused() -> None:
    own = settings("as_published", "shares")
    with pytest.raises(Unsupported, match="as published"):
        rehearse(own, canaries=10, observer="peer")
    with pytest.raises(InvalidInput, match="observer"):
        rehearse(settings(), canaries=10, observer="server")
    assert own.data.name in PUBLIC_DATASETS
    with pytest.raises(InvalidInput, match="Nobody trains with"):
        rehearse(settings(), canaries=10, observer="peer", real=True)


def test_an_observer_that_a_carrier_does_not_name_stays_refused() -> None:
    """Peers of other systems are seen by carriers that know servers and silos alone."""
    from privplan.fl.canaries import REHEARSABLE_OBSERVERS, require_observer
    from privplan.fl.disco.canaries import OBSERVERS

    assert "peer" not in REHEARSABLE_OBSERVERS
    plan = mock.Mock(guarantees={"model": None, "peer": None})
    with pytest.raises(Unsupported, match="not rehearsed"):
        require_observer(plan, "peer")
    require_observer(plan, "peer", OBSERVERS)


def test_the_usual_number_of_canaries_is_affordable() -> None:
    for more in ({}, {"clip": "quantile"}, {"unit": "record"}):
        own = settings(silos=20, rounds=20, **more)
        assert 250 <= canary_count(own, 20, rounds=None, requested=None) <= 1_000
    with pytest.raises(InvalidInput, match="too many"):
        canary_count(settings(silos=1_000, rounds=1_000), 1_000, rounds=None, requested=None)


def test_work_grows_with_peers_canaries_and_releases() -> None:
    few, many = settings(silos=5, rounds=20), settings(silos=50, rounds=20)
    work = canaries.work
    assert work(few, 5, 100) < work(few, 5, 1_000) < work(many, 50, 10_000)
    quantile = settings("local", "plain", silos=5, rounds=20, clip="quantile")
    assert work(quantile, 5, 100) > 10 * work(settings("local", "plain"), 5, 100)


@needs("sklearn", "torch")
@for_each(
    "table",
    [{}, pytest.param({"clip": '"quantile"'}, marks=pytest.mark.slow)],
    ids=["fixed", "quantile"],
)
@pytest.mark.usefixtures("one_by_its_protocol")
def test_a_run_is_attacked_by_every_tier_that_reads_no_record(
    table: dict[str, str], tmp_path: Path
) -> None:
    # With a seed: of honest runs with other noise, one in twenty is called unusual.
    run(configuration(disco=table, run={"rounds": "2"}), tmp_path / "run")
    report = attack(tmp_path / "run", AttackRequest(canaries=100, seed=1))
    assert {each.tier for each in report.measurements} == {"claim", "robust", "residual"}
    assert (report.skipped, report.verdict) == ((), "not-contradicted")
    assert report.observer == "peer"
    claim = next(each for each in report.measurements if each.tier == "claim")
    assert (claim.unit, claim.neighbours) == ("silo", "replace-one")
    # For another observer that the log promises something to.
    other = attack(
        tmp_path / "run",
        AttackRequest(canaries=100, seed=1, observer="coordinator", tiers=("robust",)),
    )
    assert other.measurements[0].observer == "coordinator"
