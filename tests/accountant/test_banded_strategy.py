"""The strategy of correlated noise: its coefficients, and what it gains, beside dense matrices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.errors import InvalidInput
from privplan.accountant.plan.banded_strategy import (
    banded_coefficients,
    error_ratio,
    error_ratio_to_everybody,
)
from privplan.accountant.records import Block
from privplan.accountant.sensitivity.matrix import sensitivity_bounds

from ..cases import for_each


def dense(rounds: int, bands: int) -> np.ndarray:
    """Return C with the coefficients binom(2k, k) / 4^k of (1 - x)^(-1/2), cut to 2^-8."""
    matrix = np.zeros((rounds, rounds))
    for row, column in itertools.product(range(rounds), repeat=2):
        lag = row - column
        if 0 <= lag < bands:
            matrix[row, column] = math.floor(math.comb(2 * lag, lag) / 4**lag * 256) / 256
    return matrix


@for_each("bands", [1, 2, 10, 40])
def test_coefficients_are_central_binomials_on_the_grid(bands: int) -> None:
    assert list(banded_coefficients(bands)) == dense(bands, bands)[:, 0].tolist()


@for_each(("rounds", "bands", "cohorts"), [(12, 3, 4), (12, 4, 4), (9, 2, 5), (6, 3, 1), (5, 5, 5)])
def test_the_ratio_of_errors_is_that_of_dense_matrices(
    rounds: int, bands: int, cohorts: int
) -> None:
    matrix, sums = dense(rounds, bands), np.tril(np.ones((rounds, rounds)))
    # Contributions of the first cohort, each with either sign.
    places = range(0, rounds, cohorts)
    sensitivity = max(
        np.linalg.norm(sum(sign * matrix[:, at] for sign, at in zip(signs, places, strict=True)))
        for signs in itertools.product((-1.0, 1.0), repeat=len(places))
    )
    banded = sensitivity * np.linalg.norm(sums @ np.linalg.inv(matrix))
    independent = math.sqrt(len(places)) * np.linalg.norm(sums)
    assert error_ratio(rounds, bands, cohorts) == pytest.approx(banded / independent, rel=1e-12)


def of_blocks(rounds: int, blocks: int, bands: int, cohorts: int) -> tuple[float, float]:
    """Return epsilon's share of one round's noise, and the error of the sums, of dense matrices."""
    length = rounds // blocks
    matrix, sums = np.zeros((rounds, rounds)), np.tril(np.ones((rounds, rounds)))
    for first in range(0, rounds, length):
        matrix[first : first + length, first : first + length] = dense(length, bands)
    # As it is accounted: in each block by itself, from its first round on.
    column = dense(length, bands)[:, range(0, length, cohorts)].sum(axis=1)
    sensitivity = math.sqrt(blocks) * float(np.linalg.norm(column))
    return sensitivity, float(np.linalg.norm(sums @ np.linalg.inv(matrix)))


@for_each(
    ("rounds", "blocks", "bands", "cohorts", "expected"),
    [
        (10, 2, 3, 4, 0.858),
        (10, 2, 5, 30, 1.10),
        (50, 10, 5, 10, 1.01),
        (50, 10, 5, 50, 2.27),
        (50, 25, 2, 25, 3.14),
        (100, 10, 10, 100, 1.84),
        (50, 5, 10, 10, 0.60),
    ],
)
def test_several_blocks_are_compared_with_all_rounds_of_the_run(
    rounds: int, blocks: int, bands: int, cohorts: int, expected: float
) -> None:
    """A unit pays in every block, and in independent rounds only where it takes part."""
    sensitivity, error = of_blocks(rounds, blocks, bands, cohorts)
    alone = math.sqrt(math.ceil(rounds / cohorts)) * np.linalg.norm(np.tril(np.ones((rounds,) * 2)))
    ratio = error_ratio(rounds, bands, cohorts, blocks)
    assert ratio == pytest.approx(sensitivity * error / alone, rel=1e-12)
    assert ratio == pytest.approx(expected, abs=0.0051)


@for_each(("rounds", "blocks", "bands", "cohorts"), [(50, 5, 10, 10), (12, 1, 3, 5)])
def test_the_ratio_to_everybody_is_that_of_means_over_users(
    rounds: int, blocks: int, bands: int, cohorts: int
) -> None:
    """By the noise of one epsilon, in models that divide by everybody, or by a cohort."""
    sensitivity, error = of_blocks(rounds, blocks, bands, cohorts)
    users = 60
    banded = sensitivity * error / (users / cohorts)
    everybody = math.sqrt(rounds) * np.linalg.norm(np.tril(np.ones((rounds, rounds)))) / users
    ratio = error_ratio_to_everybody(rounds, bands, cohorts, blocks)
    assert ratio == pytest.approx(banded / everybody, rel=1e-12)


@for_each("bands", [2, 3, 5, 10])
def test_nothing_is_gained_where_everybody_takes_part_in_every_round(bands: int) -> None:
    assert error_ratio(50, bands, 1) > 1.0
    assert error_ratio(50, bands, bands) < 1.0


def test_one_band_is_independent_noise() -> None:
    assert error_ratio(50, 1, 10) == pytest.approx(1.0, rel=1e-12)
    alone = account(ev.Repeat(5, ev.Gaussian(3.0)), delta=1e-5).epsilon.upper
    block = Block(1, 50, (1.0,), 10).event(3.0)
    assert account(block, delta=1e-5).epsilon.upper == pytest.approx(alone, rel=1e-6)


def test_the_sum_of_all_rounds_is_never_less_noisy_than_in_independent_rounds() -> None:
    """Everybody in every round: T contributions move it by T, whatever C; C = I attains that."""
    rounds = 8
    for bands in range(1, rounds + 1):
        matrix = dense(rounds, bands)
        ones = np.ones(rounds)
        deviation = np.linalg.norm(ones @ np.linalg.inv(matrix)) * np.linalg.norm(matrix @ ones)
        assert deviation >= rounds - 1e-9


def test_the_sensitivity_of_a_block_is_known_exactly() -> None:
    event = Block(1, 50, banded_coefficients(10), 10).event(1.0)
    found = sensitivity_bounds(event.strategy, event.participation)
    # Five columns that do not overlap; the last of them may be the first of the block's last ten.
    expected = math.sqrt(5 * sum(value**2 for value in banded_coefficients(10)))
    assert found.exact
    assert found.bounds.upper == pytest.approx(expected, rel=1e-12)
    assert found.bounds.upper >= expected


@for_each(
    ("given", "named"),
    [
        ((5, 6, 6), "bands"),
        ((0, 1, 1), "rounds"),
        ((20_000, 1, 1), "10,000"),
        ((9, 2, 2, 2), "`rounds`"),
    ],
)
def test_what_has_no_ratio_is_refused(given: tuple[int, ...], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        error_ratio(*given)


def test_bands_whose_coefficients_vanish_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`bands` must be at most"):
        banded_coefficients(30_000)
