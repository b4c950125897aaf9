"""The clip that moves: from released values alone, towards the median of the norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.fl.disco import clip_rules
from privplan.fl.disco import system as disco_system

from ..cases import for_each
from .disco_runs import Disco, InTensors, built, models_of, settings
from .extras import needs

pytestmark = needs("cryptography")


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that collects the noisy sums of a run, in units: what every peer sees."""
    seen, honest = [], disco_system.noisy_sum

    def noted(by: Any, number: int, mechanism: Any, *rest: Any, **named: Any) -> Any:
        found = honest(by, number, mechanism, *rest, **named)
        seen.append(mechanism.units(found.total))
        return found

    monkeypatch.setattr(disco_system, "noisy_sum", noted)
    return seen


def bounds(log: Any, phase: str = "train") -> list[float]:
    return [one.contribution.bound for one in log.intents if one.phase == phase]


# --- the noisy mean of the round before ----------------------------------------------------------


def from_mean(first: float, total: Any, peers: int, share_std: float) -> float:
    """Return the next clip by the formula of the page, of a released sum of so many peers."""
    mean = total / peers
    std = share_std / math.sqrt(peers)
    square = float(mean @ mean) - len(mean) * std * std
    return min(first, max(1.5 * math.sqrt(max(square, 0.0)), first / 20.0))


@pytest.mark.parametrize("noise", [0.02, 3.0], ids=["little noise", "much noise"])
@pytest.mark.parametrize("clip_by", ["model", "tensor"])
def test_the_course_of_clips_follows_from_what_was_released(
    clip_by: str, noise: float, arrived: list[Any]
) -> None:
    own = settings(
        clip="previous",
        clip_by=clip_by,
        rounds=6,
        privacy={"noise_multiplier": noise},
        training={"clip": 2.0},
    )
    system = built(own, local=InTensors)
    kept, log = models_of(system)
    sources = [one.contribution.source for one in log.intents]
    assert sources == ["public", *["models"] * 5]
    # From the sums that every peer sees, bit for bit: a second reader has the same clip.
    expected = [2.0]
    for total, clip in zip(arrived, bounds(log), strict=True):
        std = system.sum_mechanism(noise, clip, 1).std / 3.0
        expected.append(clip_rules.from_noisy_mean(2.0, total / 3.0, std))
    assert [float(state["clip"][0]) for _, state in kept] == expected
    assert bounds(log) == expected[:-1]
    # By the formula, and from the models alone: up to the rounding of a difference of models.
    for number, (total, clip) in enumerate(zip(arrived, bounds(log), strict=True)):
        share_std = noise * clip / math.sqrt(3.0)
        following = expected[number + 1]
        assert following == pytest.approx(from_mean(2.0, total, 3, share_std), rel=1e-9)
        moved = (kept[number + 1][0] - kept[number][0]) / own.training.global_rate
        assert following == pytest.approx(from_mean(2.0, moved * 3, 3, share_std), rel=1e-6)
    if noise < 1.0:
        assert len(set(expected)) == len(expected)  # it moved, and the comparison says something


def test_the_clip_stays_between_a_twentieth_and_the_first() -> None:
    still, huge = np.zeros(4), np.full(4, 1e9)
    assert clip_rules.from_noisy_mean(0.3, still, 0.1) == 0.3 * 0.05
    assert clip_rules.from_noisy_mean(0.3, huge, 0.1) == 0.3
    rng = np.random.default_rng(1)
    for _ in range(300):
        mean = rng.normal(size=5) * 10.0 ** rng.uniform(-9, 9)
        found = clip_rules.from_noisy_mean(0.3, mean, 10.0 ** rng.uniform(-9, 9))
        assert 0.3 * 0.05 <= found <= 0.3


def test_the_estimate_takes_the_noise_off() -> None:
    """Of a mean of norm 1 under noise of norm 3, 1.5 times about 1 remains, with 10^5 numbers."""
    size, std = 100_000, 3.0 / math.sqrt(100_000)
    rng = np.random.default_rng(5)
    mean = np.full(size, 1.0 / math.sqrt(size)) + rng.normal(0.0, std, size)
    assert np.linalg.norm(mean) > 3.0
    # |mean|^2 has deviation (2 size std^4 + 4 std^2)^(1/2) = .044; six of them.
    found = clip_rules.from_noisy_mean(10.0, mean, std) / 1.5
    assert abs(found**2 - 1.0) < 6 * 0.044


# --- a quantile of the norms ----------------------------------------------------------------------


@for_each("noise", [0.013, 1.0, 3.0, 6.909, 1e3, 1 / 3])
def test_count_and_sum_are_worth_no_more_than_the_round(noise: float) -> None:
    """z_c^-2 + z_u^-2 <= z^-2 in fractions, and hardly less."""
    count = Fraction(clip_rules.count_multiplier(noise))
    update = Fraction(clip_rules.update_multiplier(noise))
    spent, whole = 1 / count**2 + 1 / update**2, 1 / Fraction(noise) ** 2
    assert spent <= whole
    assert spent >= whole * (1 - Fraction(1, 10**14))
    assert abs(1 / count**2 / whole - Fraction(1, 10)) < Fraction(1, 10**14)


@for_each("observer", ["model", "peer", "coordinator"])
def test_a_quantile_run_proves_what_a_fixed_clip_does(observer: str) -> None:
    fixed, quantile = (
        built(settings(clip=rule), rows=np.zeros((3, 2))) for rule in ("fixed", "quantile")
    )
    epsilons = [one.promise.plan.guarantees[observer].epsilon.upper for one in (fixed, quantile)]
    assert epsilons[1] == pytest.approx(epsilons[0], rel=1e-9)
    seen = quantile.views(3.0)[observer]
    assert isinstance(seen, ev.Compose)
    assert len(seen.events) == 2


def peers_with(norms: Any) -> Any:
    """Return an update of each norm, (peers, 3), in different directions."""
    rows = np.random.default_rng(3).normal(size=(len(norms), 3))
    return rows / np.linalg.norm(rows, axis=1)[:, None] * np.asarray(norms)[:, None]


SPREAD = [0.4, 0.7, 1.0, 1.5, 4.0]


def course(first: float, rounds: int = 35) -> tuple[Disco, list[float], Any]:
    """Return the clips of a run whose norms are `SPREAD`, with little noise."""
    own = settings(
        "local",
        "plain",
        clip="quantile",
        silos=5,
        rounds=rounds,
        privacy={"noise_multiplier": 0.1},
        training={"clip": first},
    )
    system = built(own, rows=peers_with(SPREAD))
    kept, log = models_of(system)
    return system, [float(state["clip"][0]) for _, state in kept], log


@for_each("first", [0.4, 2.5])
def test_the_clip_goes_to_the_median_of_the_norms(first: float) -> None:
    _, clips, log = course(first)
    assert clips[:-1] == bounds(log)
    # A step is at most e^(.1); noise of deviation .16 in a count of 5 moves it by e^(.006).
    assert abs(math.log(clips[-1])) < 0.15
    assert all(abs(math.log(clip)) < 0.25 for clip in clips[-6:])
    steps = [math.log(after / before) for before, after in pairwise(clips)]
    assert all(abs(step) <= 0.1 + 1e-12 for step in steps)
    assert {one.contribution.source for one in log.intents if one.round == 1} == {"public"}
    later = [one for one in log.intents if one.round > 1 and one.phase == "train"]
    assert {one.contribution.source for one in later} == {"released"}


@for_each("first", [0.5, 2.0])
def test_with_the_wrong_sign_it_would_run_off(first: float, monkeypatch: Any) -> None:
    """The control of the test above: b_i of the clipped updates instead."""
    honest = clip_rules.count_terms
    monkeypatch.setattr(clip_rules, "count_terms", lambda *values: -honest(*values))
    _, clips, _ = course(first, rounds=22)
    assert abs(math.log(clips[-1])) > 2.0
    assert (clips[-1] > 1.0) == (first > 1.0)


def test_the_clip_follows_its_formula_from_the_counts(arrived: list[Any]) -> None:
    _, clips, log = course(0.3, rounds=5)
    counts = arrived[::2]
    assert [len(one) for one in arrived] == [1, 3] * 5
    expected = 0.3
    for count, found in zip(counts, clips[1:], strict=True):
        unclipped = min(max(float(count[0]) / 5 + 0.5, 0.0), 1.0)
        expected *= math.exp(-0.2 * (unclipped - 0.5))
        assert found == pytest.approx(expected, rel=1e-12)
    assert [one.phase for one in log.intents] == ["clip", "train"] * 5


def test_clips_apart_by_tensor_count_whole_updates() -> None:
    """The norm that is counted is the trained one: of shortened tensors none would be too long."""
    wrong = []
    for scope in ("model", "tensor"):
        own = settings(
            clip="quantile",
            clip_by=scope,
            silos=3,
            rounds=1,
            privacy={"noise_multiplier": 0.05},
            training={"clip": 1e-4},
        )
        kept, _ = models_of(built(own, local=InTensors))
        wrong.append(float(kept[-1][1]["clip"][0]) / 1e-4)
    assert wrong[0] == wrong[1] > 1.05  # every update is longer: the clip must grow


BAD: dict[str, Callable[[Any], Any]] = {
    "nan": lambda row: row * np.nan,
    "infinite": lambda row: row + np.array([np.inf, 0.0, 0.0]),
    "minus infinite": lambda row: row - np.array([0.0, np.inf, 0.0]),
}


@pytest.mark.parametrize("clip_by", ["model", "tensor"])
@pytest.mark.parametrize("bad", list(BAD))
def test_an_update_without_a_number_is_above_the_clip_and_zero_in_the_sum(
    bad: str, clip_by: str, arrived: list[Any]
) -> None:
    rows = peers_with([0.01, 0.01, 0.01])
    long_row, bad_row, zero_row = rows.copy(), rows.copy(), rows.copy()
    long_row[1] *= 1e6
    bad_row[1], zero_row[1] = BAD[bad](rows[1]), 0.0

    def seen(given: Any) -> list[Any]:
        arrived.clear()
        models_of(built(settings(clip="quantile", clip_by=clip_by, rounds=1), rows=given), seed=2)
        return [one.copy() for one in arrived]

    spoilt, counted_long, zero, whole = map(seen, (bad_row, long_row, zero_row, rows))
    assert np.array_equal(spoilt[0], counted_long[0])
    assert not np.array_equal(spoilt[0], whole[0])
    assert np.array_equal(spoilt[1], zero[1])
    assert not np.array_equal(spoilt[1], whole[1])


def test_sealed_norms_are_those_before_the_clip() -> None:
    """Also where tensors were shortened apart: how many were clipped is what an auditor reads."""
    for scope in ("model", "tensor"):
        _, log = models_of(built(settings(clip_by=scope, rounds=1), local=InTensors))
        _, loose = models_of(
            built(settings(clip_by=scope, rounds=1, training={"clip": 50.0}), local=InTensors)
        )
        (tight,), (wide,) = log.sealed, loose.sealed
        assert tight["norm_largest"] == pytest.approx(wide["norm_largest"], rel=1e-12)
        assert wide["clipped"] == 0
        assert int(str(tight["clipped"])) > 0
