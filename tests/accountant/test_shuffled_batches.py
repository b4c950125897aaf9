"""Shuffled batches: known lower ends, and enumerated data sets between the ends."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.engines.pld.ask.claimed_batches import batch_warnings
from privplan.accountant.engines.pld.pairs.registry import pairs

from ..cases import for_each
from ..sweeps import sweep
from .sampling import ORDERS, curve_of, delta, epsilon, hockey_sticks


@for_each(
    ("sigma", "batches", "target", "known"), [(0.5, 10_000, 1e-6, 10.994), (1.0, 1000, 1e-5, 2.88)]
)
def test_shuffled_batches_reach_the_known_lower_ends(sigma, batches, target, known):
    found = epsilon(ev.ShuffledBatches(batches, ev.Gaussian(sigma)), target, "zero-out")
    once = epsilon(ev.Gaussian(sigma), target, "zero-out")
    assert known <= found.lower <= found.upper == once.upper


@for_each(("sigma", "eps", "printed"), sweep([(0.5, 1.953, 0.1445), (0.4, 4.0, 0.2261)], quick=1))
def test_shuffled_batches_fail_with_the_known_probability(sigma, eps, printed):
    """The largest of all batches is above C: the best C, from the normal distribution."""
    batches, most = 10_000, np.linspace(-1.0, 6.0, 200_001)
    rest = (batches - 1) * norm.logcdf(most / sigma)
    present, absent = (-np.expm1(rest + norm.logcdf((most - c) / sigma)) for c in (2.0, 1.0))
    exact = float((present - math.exp(eps) * absent).max())
    assert exact == pytest.approx(printed, abs=1e-4)
    found = delta(ev.ShuffledBatches(batches, ev.Gaussian(sigma)), eps, "zero-out")
    assert exact * (1.0 - 5e-4) <= found.lower <= exact * (1.0 + 1e-6)


@for_each("relation", ["zero-out", "replace-one"])
def test_small_shuffled_data_sets_lie_between_the_ends(relation):
    """Two units, two batches of one: every data set is below the upper end, some at the lower."""
    sigma, grid = 0.8, (-1.0, 0.0, 1.0)
    x, cell = np.linspace(-6.0, 6.0, 201, retstep=True)

    def output(one, two):
        a, b = (norm.pdf((x - v) / sigma) / sigma for v in (one, two))
        return (a[:, None] * b + b[:, None] * a) / 2 * cell**2

    mechanism = pairs(ev.ShuffledBatches(2, ev.Gaussian(sigma)), relation)
    upper, lower = curve_of(mechanism.pair), curve_of(mechanism.lower_pair)
    worst = np.zeros(ORDERS.size)
    for unit, other in itertools.product(grid, repeat=2):
        for changed in (0.0,) if relation == "zero-out" else grid:
            p, q = output(unit, other), output(changed, other)
            for ordered in ((p, q), (q, p)):
                worst = np.maximum(worst, hockey_sticks(*ordered, 1.0))
    assert (worst <= upper + 1e-3).all()
    assert (lower <= worst + 1e-3).all()
    assert (lower > 0.3 * worst).all()


def test_shuffled_batches_compose_over_epochs():
    one = epsilon(ev.ShuffledBatches(1000, ev.Gaussian(1.0)), 1e-5, "zero-out")
    ten = epsilon(ev.Repeat(10, ev.ShuffledBatches(1000, ev.Gaussian(1.0))), 1e-5, "zero-out")
    assert one.lower < ten.lower < ten.upper
    assert ten.upper == epsilon(ev.Repeat(10, ev.Gaussian(1.0)), 1e-5, "zero-out").upper


def test_shuffled_batches_carry_the_warning_that_they_are_no_poisson_samples():
    event = ev.Repeat(1, ev.ShuffledBatches(10_000, ev.Gaussian(0.5)))
    (warning,) = batch_warnings(event, "zero-out", delta=1e-6, lower=10.99)
    assert "would be 1.954" in warning  # 1.9531, rounded up
    assert "is false: epsilon is at least 10.99" in warning
    (unproven,) = batch_warnings(event, "zero-out", epsilon=1.953)
    assert "delta would be 1.0" in unproven
    assert "is not proven" in unproven
    (bare,) = batch_warnings(
        ev.Compose([ev.ShuffledBatches(2, ev.ZCDP(1.0))]), "zero-out", delta=0.1
    )
    assert "would be" not in bare
    assert batch_warnings(ev.Repeat(3, ev.Poisson(0.1, ev.Gaussian(1.0))), "zero-out") == ()
