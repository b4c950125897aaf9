"""Sensitivities over many rounds: quick bounds, with exact values where those are known."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.sensitivity.matrix import bounds, sensitivity_bounds
from privplan.accountant.sensitivity.matrix.participations import SeparatedRounds
from privplan.accountant.sensitivity.matrix.separated import (
    even_sum,
    largest_sum,
    shifted_sums,
    sum_of_stretches,
)

from ..cases import for_each


@for_each("count", [1, 2, 3, 6, 7, 50])
@for_each("apart", [1, 2, 5])
def test_shifted_sums_are_sums_of_shifts(count: int, apart: int) -> None:
    values = np.random.default_rng(count).random(37)
    plain = np.zeros(37)
    for shift in range(0, count * apart, apart):
        plain[shift:] += values[: max(37 - shift, 0)] if shift < 37 else 0.0
    assert shifted_sums(values, count, apart) == pytest.approx(plain, rel=1e-14)


def _heaviest(weights: np.ndarray, links: dict[int, np.ndarray], rounds: SeparatedRounds) -> float:
    """Return the largest sum over all patterns, each by itself."""
    best = 0.0
    for pattern in rounds.patterns():
        total = sum(float(weights[each]) for each in pattern)
        for earlier, later in itertools.combinations(pattern.tolist(), 2):
            if later - earlier in links:
                total += float(links[later - earlier][earlier])
        best = max(best, total)
    return best


@for_each("seed", range(12))
def test_quick_sums_lie_on_both_sides_of_the_worst_pattern(seed: int) -> None:
    rng = np.random.default_rng(seed)
    apart = int(rng.integers(1, 4))
    rounds = SeparatedRounds(11, int(rng.integers(2, 12 // apart + 1)), apart)
    weights = rng.random(11)
    links = {lag: rng.random(11 - lag) for lag in range(apart, 2 * apart)}
    if seed % 3 == 0:
        links = {}
    worst = _heaviest(weights, links, rounds)
    assert largest_sum(weights, links, rounds) == pytest.approx(worst)
    assert even_sum(weights, links, rounds) <= worst * (1.0 + 1e-12)
    assert sum_of_stretches(weights, links, rounds) >= worst * (1.0 - 1e-12)


@for_each("seed", range(8))
def test_quick_bounds_hold_the_exact_sensitivity(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(100 + seed)
    apart = int(rng.integers(2, 5))
    bands = int(rng.integers(3, 2 * apart + 1))
    strategy = ev.ToeplitzStrategy(40, (1.0, -0.3, *rng.uniform(-1.0, 1.0, bands - 2).tolist()))
    participation = ev.SeparatedParticipation(int(rng.integers(2, 9)), apart)
    exact = sensitivity_bounds(strategy, participation)
    monkeypatch.setattr(bounds, "MAX_CHAIN_STEPS", 0.0)
    sensitivity_bounds.cache_clear()
    quick = sensitivity_bounds(strategy, participation)
    sensitivity_bounds.cache_clear()
    assert quick.source == bounds.STRETCHES
    assert quick.bounds.lower <= exact.bounds.upper
    assert quick.bounds.upper >= exact.bounds.lower
    assert quick.bounds.upper <= 1.5 * exact.bounds.upper


@for_each(
    ("coefficients", "steps", "most", "apart"),
    [
        ((1.0, 0.5, 0.7), 100_000, 10_000, 10),
        ((1.0, 2.0, 3.0), 2**20, 2**18, 3),
        ((1.0, *(0.5, 0.7) * 7), 200_020, 20_000, 10),
        ((1.0, -0.5, 0.7, -0.9, 0.8), 400_000, 100_000, 3),
    ],
)
def test_a_long_toeplitz_run_is_that_of_rounds_evenly_apart(
    coefficients: tuple[float, ...], steps: int, most: int, apart: int
) -> None:
    # Away from the end all columns are alike, so with k rounds k |c|^2 and k - 1 times the largest
    # 2 |sum_l c_l c_(l + lag)| is attained, and nothing is more.
    exact = [Fraction(each) for each in coefficients]
    weight = sum(each * each for each in exact)
    links = [
        2 * abs(sum(a * b for a, b in zip(exact, exact[lag:], strict=False)))
        for lag in range(apart, len(exact))
    ]
    square = most * weight + (most - 1) * max(links, default=Fraction(0))
    answer = sensitivity_bounds(
        ev.ToeplitzStrategy(steps, coefficients), ev.SeparatedParticipation(most, apart)
    )
    assert Fraction(answer.bounds.lower) ** 2 <= square * (1 + Fraction(1, 10**12))
    assert Fraction(answer.bounds.upper) ** 2 >= square * (1 - Fraction(1, 10**12))
    assert answer.bounds.upper <= 1.001 * math.sqrt(square)
    assert answer.exact


@for_each(
    ("strategy", "participation", "square"),
    [
        # Every round of 1, 1/2: a column of 1, 3/2, 3/2, ...
        (
            ev.ToeplitzStrategy(2**22, (1.0, 0.5)),
            ev.EpochParticipation(2**22),
            1 + Fraction(9, 4) * (2**22 - 1),
        ),
        (
            ev.ToeplitzStrategy(2**20, (1.0, 0.5)),
            ev.SeparatedParticipation(2**18, 4),
            Fraction(5, 4) * 2**18,
        ),
        # Ones: row t holds t + 1 of them, at most 1,000.
        (
            ev.ToeplitzStrategy(3_000, (1.0,) * 3_000),
            ev.SeparatedParticipation(1_000, 1),
            Fraction(sum(min(t + 1, 1_000) ** 2 for t in range(3_000))),
        ),
    ],
)
def test_decreasing_coefficients_are_exact_however_many_rounds(
    strategy: ev.Strategy, participation: ev.Participation, square: Fraction
) -> None:
    answer = sensitivity_bounds(strategy, participation)
    assert answer.exact
    assert Fraction(answer.bounds.lower) ** 2 <= square <= Fraction(answer.bounds.upper) ** 2


def test_a_long_decaying_buffer_in_every_round_is_its_closed_form() -> None:
    # c_0 = 1 and c_m = r^(m-1) / 2: partial sums 1 + (1 - r^t) / (2 (1 - r)).
    decay, steps = 0.99999, 2**20
    rows = 1.0 - 0.5 * np.expm1(np.arange(steps) * math.log(decay)) / (1.0 - decay)
    answer = sensitivity_bounds(
        ev.BufferedToeplitzStrategy(steps, (decay,), (0.5,)), ev.SeparatedParticipation(steps, 1)
    )
    assert answer.exact
    assert answer.bounds.upper == pytest.approx(math.sqrt((rows * rows).sum()), rel=1e-10)


def test_signs_over_many_rounds_are_bounded_without_every_pattern() -> None:
    answer = sensitivity_bounds(
        ev.ToeplitzStrategy(1_500, (1.0, *(0.5, -0.7) * 7)), ev.SeparatedParticipation(400, 2)
    )
    assert answer.source in (bounds.ROW_SUMS, bounds.SPECTRUM)
    # Rounds 0, 2, 4, ..., with the sign of each, by a matrix that the test writes down.
    matrix = np.zeros((1_500, 1_500))
    for lag, value in enumerate((1.0, *(0.5, -0.7) * 7)):
        matrix += np.diag(np.full(1_500 - lag, value), -lag)
    attained = max(
        float(np.linalg.norm(matrix[:, 0:800:2].sum(axis=1))),
        float(np.linalg.norm(matrix[:, 0:1200:3] @ np.where(np.arange(400) % 2, -1.0, 1.0))),
    )
    assert attained <= answer.bounds.upper
    assert answer.bounds.lower <= answer.bounds.upper
