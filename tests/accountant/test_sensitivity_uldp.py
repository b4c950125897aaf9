"""Uldp-FL: who moves what, by small federations; observers; published and exact numbers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity import uldp
from privplan.accountant.sensitivity.silos import weight_sum
from privplan.accountant.sensitivity.uldp import (
    insider_release,
    naive_release,
    naive_sensitivity,
    naive_sensitivity_as_published,
    weighted_release,
    worst_weights,
)

from ..cases import for_each

CLIP, SILOS, SIGMA = 0.1, 5, 5.0
UNIFORM = np.full((1, SILOS), 1 / SILOS)


def epsilon(run: uldp.Release, engine: str | None = None) -> float:
    found = pp.account(run.event, delta=1e-5, neighbours=run.neighbours, engine=engine)
    return found.epsilon.upper


def clipped(delta: np.ndarray) -> np.ndarray:
    norm = float(np.linalg.norm(delta))
    return delta * min(1.0, CLIP / norm) if norm > 0.0 else delta


def naive_sum(pulls: np.ndarray, rate: float = 1.0) -> np.ndarray:
    """One round of ULDP-NAIVE before noise: users pull linearly (loss -z.x), silos clip the sum."""
    return sum((clipped(rate * silo.sum(axis=0)) for silo in pulls), np.zeros(pulls.shape[-1]))


def test_a_user_swings_every_silo_across_the_ball() -> None:
    """Others pull by -M in each silo, the user by +2M: removal moves the sum by 2 C |S|."""
    m = np.array([3.0, 4.0])
    pulls = np.stack([np.stack([2 * m, -m])] * SILOS)  # silo, user, coordinate
    gap = float(np.linalg.norm(naive_sum(pulls) - naive_sum(pulls[:, 1:])))
    assert gap == pytest.approx(naive_sensitivity(CLIP, SILOS).l2)
    assert gap == pytest.approx(2 * naive_sensitivity_as_published(CLIP, SILOS))
    alone = np.stack([np.stack([2 * m])] * SILOS)
    gap = float(np.linalg.norm(naive_sum(alone) - naive_sum(alone[:, 1:])))
    assert gap == pytest.approx(naive_sensitivity_as_published(CLIP, SILOS))


@for_each("neighbours", ["add-remove", "replace-one"])
def test_no_user_moves_naive_by_more(neighbours: str) -> None:
    rng = np.random.default_rng(0)
    bound = naive_sensitivity(CLIP, SILOS, neighbours).l2
    for _ in range(300):
        pulls = rng.normal(size=(SILOS, 3, 2)) * rng.exponential(size=(SILOS, 3, 1))
        other = pulls.copy()
        other[:, 0] = 0.0 if neighbours == "add-remove" else rng.normal(size=(SILOS, 2))
        gap = float(np.linalg.norm(naive_sum(pulls) - naive_sum(other)))
        assert gap <= bound * (1 + 1e-12)


def test_published_and_exact_epsilons_at_noise_5_and_100_rounds() -> None:
    claimed = weighted_release(SIGMA, rounds=100, weights=UNIFORM)
    assert epsilon(claimed, "rdp") == pytest.approx(10.73, abs=0.01)
    assert epsilon(claimed) == pytest.approx(10.00, abs=0.005)
    naive = naive_release(SIGMA, rounds=100, silos=SILOS)
    assert epsilon(naive) == pytest.approx(24.38, abs=0.005)
    assert epsilon(naive, "rdp") == pytest.approx(25.93, abs=0.015)
    for run in (
        naive_release(SIGMA, rounds=100, silos=SILOS, neighbours="replace-one"),
        weighted_release(SIGMA, rounds=100, weights=UNIFORM, neighbours="replace-one"),
    ):
        assert epsilon(run) == pytest.approx(24.38, abs=0.005)


@for_each(("rate", "exact"), [(0.1, 0.758), (0.3, 2.53), (0.5, 4.49), (0.7, 6.59)])
def test_sampled_users_but_not_for_the_server_that_draws(rate: float, exact: float) -> None:
    run = weighted_release(SIGMA, rounds=100, weights=UNIFORM, rate=rate)
    assert epsilon(run) == pytest.approx(exact, abs=0.006)
    server = weighted_release(SIGMA, rounds=100, weights=UNIFORM, rate=rate, knows_sample=True)
    assert epsilon(server) == pytest.approx(10.00, abs=0.005)
    assert "knows the sample" in server.observer


@for_each(
    ("silos", "weighting", "exact"),
    [(5, "uniform", 8.72), (2, "uniform", 6.57), (5, "records", 11.48), (2, "records", 15.46)],
)
def test_insider_silo(silos: int, weighting: str, exact: float) -> None:
    run = insider_release(SIGMA, rounds=100, silos=silos, weighting=weighting, holds_user=False)
    assert epsilon(run) == pytest.approx(exact, abs=0.006)
    weights = worst_weights(silos) if weighting == "records" else np.full((1, silos), 1 / silos)
    others = weighted_release(SIGMA, rounds=100, weights=weights, seen=range(1, silos))
    assert epsilon(others) == pytest.approx(exact, abs=0.006)


def weighted_sum(deltas: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """One user's part of AVG-w: clipped deltas, weighted by its shares of records."""
    if counts.sum() == 0:
        return np.zeros(deltas.shape[1])
    shares = counts / counts.sum()
    return sum(
        (w * clipped(delta) for w, delta in zip(shares, deltas, strict=True)),
        np.zeros(deltas.shape[1]),
    )


@for_each("weighting", ["uniform", "records"])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_no_records_elsewhere_move_the_sum_by_more(weighting: str, neighbours: str) -> None:
    rng = np.random.default_rng(3)
    run = insider_release(
        1.0, rounds=1, silos=3, weighting=weighting, hidden_weights=True, neighbours=neighbours
    )
    assert isinstance(run.event, ev.Gaussian)
    reach = 2 if neighbours == "replace-one" else 1
    allowed = reach / run.event.noise_multiplier * math.sqrt(2 / 3) * CLIP
    most = 0.0
    for _ in range(2000):
        deltas = rng.choice([-9.0, 9.0], (3, 1)) * (1.0, 0.0) + rng.normal(size=(3, 2))
        other = deltas.copy()
        counts = np.floor(rng.exponential(size=3) * 20)
        counts[0] = rng.integers(0, 2)
        left = counts * np.array([1, 0, 0])
        if neighbours == "replace-one":
            other[1:] = -deltas[1:]
            left = np.array([counts[0], *np.floor(rng.exponential(size=2) * 20)])
        if weighting == "records":
            gap = weighted_sum(deltas, counts) - weighted_sum(other, left)
        else:
            present, kept = np.ones(3), np.array([1.0, left[1] > 0, left[2] > 0])
            gap = sum(
                (
                    a * clipped(x) / 3 - b * clipped(y) / 3
                    for a, b, x, y in zip(present, kept, deltas, other, strict=True)
                ),
                np.zeros(2),
            )
        most = max(most, float(np.linalg.norm(gap)))
    assert 0.9 * allowed < most <= allowed * (1 + 1e-12)


@for_each("together", [True, False])
@for_each("seen", [(0, 1, 2), (1,), (0, 2)])
def test_observers_against_the_formula_and_the_worst_deltas(
    seen: tuple[int, ...], together: bool
) -> None:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet([1.0, 1.0, 1.0], size=8)
    run = weighted_release(SIGMA, rounds=1, weights=weights, seen=seen, together=together)
    assert isinstance(run.event, ev.Gaussian)
    part = weights[:, list(seen)]
    if together:
        mu = math.sqrt(3) * part.sum(axis=1).max() / (SIGMA * math.sqrt(len(seen)))
    else:
        mu = math.sqrt(3 * np.square(part).sum(axis=1).max()) / SIGMA
    assert 1 / run.event.noise_multiplier == pytest.approx(mu, rel=1e-12)
    direction = np.array([0.6, 0.8])
    std = SIGMA * CLIP / math.sqrt(3)
    worst = 0.0
    for row, signs in itertools.product(part, itertools.product((-1, 1), repeat=len(seen))):
        sent = np.array([w * sign * CLIP * direction for w, sign in zip(row, signs, strict=True)])
        if together:
            worst = max(worst, float(np.linalg.norm(sent.sum(axis=0))) / (std * len(seen) ** 0.5))
        else:
            worst = max(worst, float(np.linalg.norm(sent)) / std)
    assert worst == pytest.approx(mu, rel=1e-12)
    assert worst <= 1 / run.event.noise_multiplier * (1 + 1e-14)


def test_worst_weights_cover_every_user() -> None:
    rng = np.random.default_rng(5)
    every = rng.dirichlet([0.3] * 4, size=500)
    for seen in ((0, 1, 2, 3), (1, 2), (3,)):
        for together in (True, False):
            some, worst = (
                weighted_release(2.0, rounds=1, weights=w, seen=seen, together=together).event
                for w in (every, worst_weights(4))
            )
            assert isinstance(some, ev.Gaussian)
            assert isinstance(worst, ev.Gaussian)
            assert some.noise_multiplier >= worst.noise_multiplier * (1 - 1e-14)


def test_sums_of_weights_are_rounded_up() -> None:
    rng = np.random.default_rng(8)
    for silos in (1, 2, 3, 10, 200):
        table = rng.dirichlet([0.5] * silos, size=40) * rng.uniform(0.1, 0.999, size=(40, 1))
        exact = max(sum(map(Fraction, row.tolist())) for row in table)
        got = Fraction(weight_sum(table))
        assert exact <= got <= exact * (1 + Fraction(1, 2**50))
    swallowed = [0.5] + [2.0**-54] * 100  # each addition rounds back to .5
    assert reduce(add, swallowed) == 0.5
    assert Fraction(weight_sum([swallowed])) >= Fraction(1, 2) + 100 * Fraction(1, 2**54)
    assert weight_sum([[0.25] * 4]) == 1.0
    assert 1.0 <= weight_sum([[0.1] * 10]) < 1.0 + 1e-15


def test_weights_above_one_name_the_row_and_nothing_else() -> None:
    with pytest.raises(InvalidInput, match=r"user 2 .*sum to more than 1") as refused:
        weight_sum([[0.5, 0.5], [0.0, 1.0], [0.625, 0.5]])
    assert "0.625" not in str(refused.value)
    assert "1.125" not in str(refused.value)
    with pytest.raises(InvalidInput, match="user 1"):
        weight_sum([[0.5, 0.5], [-0.1, 0.5]])
    with pytest.raises(InvalidInput, match="user 0"):
        weight_sum([[math.nan, 0.5]])
    with pytest.raises(InvalidInput, match="table"):
        weight_sum([0.5, 0.5])
    with pytest.raises(InvalidInput, match="table"):
        weight_sum("half")
    with pytest.raises(InvalidInput, match="sum to more than 1"):
        weighted_release(1.0, rounds=1, weights=[[1.0, 1e-12]])
    assert weight_sum(np.full((3, 3), 1 / 3)) >= Fraction(1 / 3) * 3


def test_many_users_are_checked_quickly() -> None:
    import time

    table = np.random.default_rng(0).dirichlet([1.0] * 10, size=200_000)
    start = time.process_time()
    weight_sum(table)
    assert time.process_time() - start < 1.0


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="seen"):
        weighted_release(1.0, rounds=1, weights=UNIFORM, seen=[5])
    with pytest.raises(InvalidInput, match="seen"):
        weighted_release(1.0, rounds=1, weights=UNIFORM, seen=[])
    with pytest.raises(InvalidInput, match="seen"):
        weighted_release(1.0, rounds=1, weights=UNIFORM, seen=[1, 1])
    with pytest.raises(InvalidInput, match="No user has a weight"):
        weighted_release(1.0, rounds=1, weights=[[1.0, 0.0]], seen=[1])
    with pytest.raises(InvalidInput, match="seen"):
        naive_release(1.0, rounds=1, silos=2, seen=3)
    with pytest.raises(Unsupported, match="single silo"):
        insider_release(1.0, rounds=1, silos=1)
    with pytest.raises(InvalidInput, match="noise_multiplier"):
        naive_release(0.0, rounds=1, silos=2)
