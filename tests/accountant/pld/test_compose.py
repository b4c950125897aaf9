"""One tilted transform against direct convolution, and the safety of every error term."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from privplan.accountant.engines.pld.compose.rounds import RepeatedPmf, Rounds, _fold
from privplan.accountant.engines.pld.compose.transform import _fast_length, compose
from privplan.accountant.engines.pld.grid.loss_grid import Grid, LossPmf

from ...cases import for_each

WIDTH = 0.05


def _pmf(rng, size, first):
    masses = rng.uniform(size=size) ** 4
    return LossPmf(Grid(WIDTH, 0.01), first, 0.999 * masses / masses.sum(), 0.0, 0.0)


def _rounds(pmfs, counts):
    return Rounds(tuple(RepeatedPmf(pmf, n) for pmf, n in zip(pmfs, counts, strict=True)))


def _direct(pmfs, counts):
    masses, first, offset = np.array([1.0]), 0, 0.0
    for pmf, n in zip(pmfs, counts, strict=True):
        for _ in range(n):
            masses = np.convolve(masses, pmf.masses)
            first += pmf.first
            offset += pmf.grid.offset
    return offset + WIDTH * (first + np.arange(masses.size)), masses


@for_each("counts", [(1, 1), (7, 3), (30, 20)])
@for_each("tilt", [0.0, 0.5, 4.0, 40.0])
def test_bounds_close_around_direct_convolution(counts, tilt):
    rng = np.random.default_rng(5)
    pmfs = (_pmf(rng, 40, -15), _pmf(rng, 25, -3))
    losses, masses = _direct(pmfs, counts)
    composed = compose(_rounds(pmfs, counts), tilt)
    mean, variance = _rounds(pmfs, counts).mean_and_variance(tilt)
    for epsilon in mean + math.sqrt(variance) * np.linspace(-2, 2, 9):
        above = losses > epsilon
        if not above.any():
            continue
        exact = math.log((masses[above] * -np.expm1(epsilon - losses[above])).sum())
        upper, lower = composed.log_delta_upper(epsilon), composed.log_delta_lower(epsilon)
        # 1e-12: the direct sum is itself rounded.
        assert lower - 1e-12 <= exact <= upper + 1e-12
        assert upper - lower < 1e-7


def test_far_from_the_tilt_the_bounds_stay_bounds():
    rng = np.random.default_rng(6)
    pmfs = (_pmf(rng, 40, -15),)
    losses, masses = _direct(pmfs, (40,))
    composed = compose(_rounds(pmfs, (40,)), 6.0)
    for epsilon in np.linspace(losses[0] - 1, losses[-1] - WIDTH / 2, 60):
        above = losses > epsilon
        exact = (masses[above] * -np.expm1(epsilon - losses[above])).sum()
        assert composed.log_delta_upper(epsilon) >= math.log(exact) - 1e-9
        assert composed.log_delta_lower(epsilon) <= math.log(exact) + 1e-9


def test_deltas_far_below_double_precision_keep_their_digits():
    """A two-point pmf composes to a binomial, which is summed here in logs."""
    p, n = 0.3, 200
    pmf = LossPmf(Grid(WIDTH), -1, np.array([1 - p, 0.0, p]), 0.0, 0.0)
    k = np.arange(n + 1)
    log_masses = binom.logpmf(k, n, p)
    losses = WIDTH * (2 * k - n)
    for tilt in (30.0, 60.0):
        composed = compose(_rounds((pmf,), (n,)), tilt)
        epsilon, _ = _rounds((pmf,), (n,)).mean_and_variance(tilt)
        above = losses > epsilon
        terms = log_masses[above] + np.log(-np.expm1(epsilon - losses[above]))
        exact = terms.max() + math.log(np.exp(terms - terms.max()).sum())
        assert exact < math.log(1e-30)
        assert composed.log_delta_lower(epsilon) <= exact <= composed.log_delta_upper(epsilon)
        assert composed.log_delta_upper(epsilon) - composed.log_delta_lower(epsilon) < 1e-6


def test_slack_moves_both_ends_outwards():
    rng = np.random.default_rng(7)
    pmf = _pmf(rng, 40, -15)
    loose = LossPmf(pmf.grid, pmf.first, pmf.masses, 0.0, 1e-3)
    tight, slack = (compose(_rounds((each,), (10,)), 2.0) for each in (pmf, loose))
    assert slack.log_delta_upper(1.0) > tight.log_delta_upper(1.0)
    assert slack.log_delta_lower(1.0) < tight.log_delta_lower(1.0)
    assert slack.log_delta_upper(1.0 + 10e-3) == pytest.approx(tight.log_delta_upper(1.0), rel=1e-9)


def test_infinite_mass_of_many_rounds():
    pmf = LossPmf(Grid(WIDTH), 0, np.array([0.9]), 0.1, 0.0)
    assert _rounds((pmf,), (3,)).infinite_mass == pytest.approx(1 - 0.9**3)
    sure = LossPmf(Grid(WIDTH), 0, np.array([0.0]), 1.0, 0.0)
    assert _rounds((pmf, sure), (3, 1)).infinite_mass == 1.0


def test_folding_keeps_mass_at_its_place_on_the_circle():
    weights = np.arange(1.0, 12.0)
    folded = _fold(weights, 3, 4)
    expected = np.zeros(4)
    for index, weight in enumerate(weights):
        expected[(index - 3) % 4] += weight
    np.testing.assert_allclose(folded, expected)


def test_fast_lengths_are_even_smooth_and_no_shorter():
    for size in [2, 3, 5, 7, 11, 97, 1000, 4097, 123457]:
        length = _fast_length(size)
        assert size <= length <= 2 * size + 2
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        assert rest == 1
        assert length % 2 == 0
