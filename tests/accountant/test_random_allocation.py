"""Random allocation: quadrature, both ends, and no contribution is worse."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.engines.pld.pairs.registry import pairs

from ..cases import for_each
from ..sweeps import sweep
from .sampling import RELATIONS, curve_of, delta, epsilon, hockey_sticks, ratios


@for_each("sigma", [0.8, 1.5])
def test_one_of_two_steps_is_what_quadrature_says(sigma):
    plain, up, down = ratios(sigma, 801)
    cells = plain[:, None] * plain
    mean_up, mean_down = (up[:, None] + up) / 2, (down[:, None] + down) / 2
    event = ev.RandomAllocation(2, 1, ev.Gaussian(sigma))
    for eps in (0.1, 1.0, 2.0):
        order = math.exp(eps)
        exact = max(
            (cells * np.maximum(mean_up - order, 0.0)).sum(),
            (cells * np.maximum(1.0 - order * mean_up, 0.0)).sum(),
        )
        found = delta(event, eps)
        assert found.lower == pytest.approx(exact, rel=2e-3)
        assert found.upper == pytest.approx(exact, rel=2e-3)
        replaced = (cells * np.maximum(mean_up - order * mean_down, 0.0)).sum()
        found = delta(event, eps, "replace-one")
        assert 0.5 * replaced < found.lower <= replaced * 1.002
        assert replaced * 0.998 <= found.upper


@for_each(("steps", "chosen"), [(3, 2), (4, 2), (4, 3)])
def test_several_of_few_steps_lie_between_the_ends(steps, chosen):
    plain, up, down = ratios(1.0, 61 if steps == 3 else 33)
    sets = list(itertools.combinations(range(steps), chosen))

    def mean(values):
        grids = np.meshgrid(*[values] * steps, indexing="ij")
        return sum(math.prod(grids[j] for j in each) for each in sets) / len(sets)

    cells = math.prod(np.meshgrid(*[plain] * steps, indexing="ij"))
    p, q = mean(up), mean(down)
    event = ev.RandomAllocation(steps, chosen, ev.Gaussian(1.0))
    for eps in (0.2, 1.0):
        order = math.exp(eps)
        forward = (cells * np.maximum(p - order, 0.0)).sum()
        backward = (cells * np.maximum(1.0 - order * p, 0.0)).sum()
        found = delta(event, eps)
        assert found.lower <= max(forward, backward) * 1.01
        assert found.upper >= max(forward, backward) * 0.99
        replaced = (cells * np.maximum(p - order * q, 0.0)).sum()
        found = delta(event, eps, "replace-one")
        assert found.lower <= replaced * 1.01
        assert found.upper >= replaced * 0.99


def test_no_contribution_is_worse_in_random_allocation_not_even_an_adaptive_one():
    """Two steps; what the unit adds in the second depends on the first release."""
    rng = np.random.default_rng(3)
    sigma = 0.9
    x, cell = np.linspace(-7.0, 7.0, 281, retstep=True)
    plain = norm.pdf(x / sigma) / sigma
    cells = plain[:, None] * plain * cell**2

    def ratio(move):
        return np.exp((2 * x * move - move**2) / (2 * sigma**2))

    def mean(first, below, above):
        second = np.where(x[:, None] < 0.0, ratio(below), ratio(above))
        return (ratio(first)[:, None] + second) / 2

    for relation in RELATIONS:
        bound = curve_of(pairs(ev.RandomAllocation(2, 1, ev.Gaussian(sigma)), relation).pair)
        for _ in range(20):
            moves = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=(2, 3))
            p = cells * mean(*moves[0])
            q = cells * (mean(*moves[1]) if relation == "replace-one" else 1.0)
            assert (hockey_sticks(p, q, 1.0) <= bound + 2e-3).all()


@for_each(
    ("sigma", "steps", "chosen", "epochs", "target", "low", "high"),
    sweep(
        [
            # The lower and upper ends of PLD_accounting 2.0 (M. Shenfeld), run once.
            (1.0, 1000, 1, 1, 1e-6, 0.1686527, 0.1756865),
            (0.5, 100, 1, 1, 1e-6, 6.3826176, 6.4060876),
            (1.0, 10, 1, 1, 1e-6, 2.6317604, 2.6697767),
            (1.0, 100, 1, 10, 1e-5, 1.6644107, 1.7398247),
            (1.0, 100, 5, 1, 1e-5, 2.9579716, 3.0337133),
            (2.0, 50, 7, 1, 1e-5, 2.0798945, 2.1601512),
        ],
        quick=2,
    ),
)
def test_random_allocation_agrees_with_pld_accounting(
    sigma, steps, chosen, epochs, target, low, high
):
    event = ev.Repeat(epochs, ev.RandomAllocation(steps, chosen, ev.Gaussian(sigma)))
    found = epsilon(event, target)
    assert low <= found.upper <= high
    assert found.lower <= high
    if chosen == 1:
        assert found.gap < 2e-3 * found.upper


@for_each(
    ("release", "relation"),
    [
        (ev.Gaussian(1.0), "add-remove"),
        (ev.Laplace(0.7), "replace-one"),
    ],
)
def test_laws_of_random_allocation(release, relation):
    def upper(steps, chosen):
        return epsilon(ev.RandomAllocation(steps, chosen, release), 1e-5, relation).upper

    once = epsilon(release, 1e-5, relation).upper
    assert upper(1, 1) == once
    assert upper(200, 1) < upper(20, 1) < upper(2, 1) < once * (1 + 5e-4)  # the engine's width
    assert upper(20, 1) < upper(20, 2) < epsilon(ev.Repeat(2, release), 1e-5, relation).upper
    assert upper(3, 3) == epsilon(ev.Repeat(3, release), 1e-5, relation).upper


def test_what_is_hidden_among_unusual_steps_gains_nothing_and_is_still_a_bound():
    for release in (ev.Gaussian(0.01), ev.Laplace(1e-3), ev.DiscreteGaussian(1.0, 1), ev.Pure(0.3)):
        found = epsilon(ev.RandomAllocation(50, 4, release), 1e-5)
        plain = epsilon(ev.Repeat(4, release), 1e-5)
        assert (found.lower, found.upper) == (0.0, pytest.approx(plain.upper, rel=1e-3))


def test_huge_numbers_of_steps_are_bounded():
    few = epsilon(ev.RandomAllocation(10**7, 1, ev.Gaussian(2.0)), 1e-6)
    many = epsilon(ev.RandomAllocation(10**15, 1, ev.Gaussian(2.0)), 1e-6)
    assert 0.0 < few.lower <= few.upper < 1e-3
    assert many.lower == 0.0
    assert many.upper == pytest.approx(few.upper)
