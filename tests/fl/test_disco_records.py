"""Single records and whole peers as units: exchanging one moves a sum by two clips, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.fl.disco import updates

from .conftest import Plain, make_federation
from .disco_runs import built, gate_of, models_of, settings
from .extras import needs

pytestmark = needs("cryptography")


def sums(system: Any, totals: list[Any], start: Any = None) -> Any:
    """Return the integers of each peer in a first round, before noise: (peers, D)."""
    totals.clear()
    gate, _, _ = gate_of(system)
    system.round(1, system.initial() if start is None else start, gate)
    (found,) = totals
    return np.array(found)


def with_federation(own: Any, federation: Any) -> Any:
    system = built(own)
    system.setup = replace(
        system.setup, federation=federation, local=Plain(federation, own.training)
    )
    return system


def exchanged(federation: Any, chosen: Any, scale: float) -> Any:
    """Return a federation whose chosen records are others, with the opposite labels."""
    features, labels = federation.features.copy(), federation.labels.copy()
    rng = np.random.default_rng(9)
    features[chosen] = scale * rng.normal(size=features[chosen].shape)
    labels[chosen] = 1 - labels[chosen]
    return replace(federation, features=features, labels=labels)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("clip_by", ["model", "tensor"])
@pytest.mark.parametrize("unit", ["silo", "record"])
def test_exchanging_a_unit_moves_the_sum_by_two_clips_at_most(
    unit: str, clip_by: str, scale: float, totals: list[Any]
) -> None:
    own = settings(unit=unit, clip_by=clip_by)
    federation = make_federation(silos=3)
    before = sums(with_federation(own, federation), totals)
    system = with_federation(own, federation)
    grid = system.mechanism(system.promise.noise_multiplier).grid
    most = 2.0 * own.training.clip / grid
    units = [np.flatnonzero(federation.silo == silo) for silo in range(3)]
    if unit == "record":
        units = [np.array([record]) for record in range(0, len(federation.silo), 9)]
    farthest = 0.0
    for chosen in units:
        after = sums(with_federation(own, exchanged(federation, chosen, scale)), totals)
        moved = [sum(int(step) ** 2 for step in row) for row in after - before]
        (whose,) = set(federation.silo[chosen].tolist())
        assert all(square == 0 for peer, square in enumerate(moved) if peer != whose)
        assert 0 < moved[whose] <= most * most
        farthest = max(farthest, moved[whose] ** 0.5)
    if scale == 20.0:
        assert farthest > 0.5 * most  # long gradients are clipped, and the clip is what holds


def test_blocks_of_records_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    own = settings(unit="record", clip_by="tensor")
    whole, log = models_of(built(own))
    monkeypatch.setattr(updates, "_MAX_BLOCK_NUMBERS", 12)  # three records of four numbers
    parts, other = models_of(built(own))
    for one, another in zip(whole, parts, strict=True):
        assert np.array_equal(one[0], another[0])
    counted = ("terms", "clipped", "not_finite", "norm_largest")
    for one, another in zip(log.sealed, other.sealed, strict=True):
        assert [one[item] for item in counted] == [another[item] for item in counted]


def test_a_peer_without_records_adds_its_noise_and_nothing_else(totals: list[Any]) -> None:
    federation = make_federation(silos=3)
    moved = np.where(federation.silo == 1, 0, federation.silo)
    emptied = replace(federation, silo=moved, empty_silos=True)
    for unit in ("record", "silo"):
        system = with_federation(settings(unit=unit), emptied)
        found = sums(system, totals)
        assert not found[1].any()
        assert found[0].any()
        assert found[2].any()
        _, log = models_of(with_federation(settings(unit=unit, rounds=1), emptied))
        (intent,) = log.intents
        assert intent.noise.shares == 3


def test_what_is_published_says_nothing_of_how_many_records_there_are() -> None:
    """The lines of two federations of other sizes differ in digests alone."""
    lines = []
    for size in (40, 57):
        federation = make_federation(silos=3, records=size)
        system = with_federation(settings(unit="record", rounds=2), federation)
        _, log = models_of(system)
        (first, second) = log.releases
        assert first.normaliser == second.normaliser == records.Normaliser("constant", 40.0)
        assert {one.contribution.unit for one in log.intents} == {"record"}
        assert sum(log.sealed[0]["terms"]) == size  # it is for the trusted auditor alone
        said = ("contribution", "noise", "sensitivity", "sampling", "weights", "event")
        lines.append([[getattr(one, name) for name in said] for one in log.intents])
    assert lines[0] == lines[1]


def test_a_record_has_one_gradient_at_the_shared_model(totals: list[Any]) -> None:
    """Steps and epochs of local training change nothing where records are the unit."""
    start = np.linspace(-1.0, 1.0, 4)
    usual = sums(built(settings(unit="record")), totals, start)
    other = {"local_rate": 0.01, "local_epochs": 9}
    assert np.array_equal(
        sums(built(settings(unit="record", training=other)), totals, start), usual
    )
    elsewhere = sums(built(settings(unit="record")), totals, -start)
    assert not np.array_equal(elsewhere, usual)
