"""Strategies at the ends: terms that cancel, large trees, many rounds of either sign.

The oracles are exact fractions, sums over the nodes of small trees, and eigenvalues.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import Unsupported
from privplan.accountant.sensitivity.matrix import (
    bounds,
    directions,
    sensitivity_bounds,
    strategy_matrix,
)

from ..cases import for_each

SINGLE = ev.SingleParticipation()


def exact_square(steps, decays, scales):
    """Return the squared norm of the first column, in fractions."""
    column = [Fraction(1)]
    for power in range(steps - 1):
        terms = zip(decays, scales, strict=True)
        column.append(sum(Fraction(scale) * Fraction(decay) ** power for decay, scale in terms))
    return sum(entry**2 for entry in column)


@for_each(
    ("steps", "decays", "scales"),
    [
        (2, [0.5, 0.5, 0.5], [1.0, 1e17, -1e17]),
        (2, [0.5, 0.5, 0.5], [1e17, 1.0, -1e17]),
        (9, [0.9, 0.9, 0.3, 0.9], [0.1, 1e30, -0.2, -1e30]),
        (6, [0.7, math.nextafter(0.7, 1.0)], [1e16, -1e16]),
        (5, [0.0, 1.0], [1e100, -0.5]),
        (4, [0.9] * 40, [0.1, -0.1] * 20),
        (4, [0.5, 0.25], [0.0, 0.0]),
        (30, [0.9, 0.5], [0.3, 0.2]),
    ],
)
def test_buffers_that_cancel_are_added_up_exactly(steps, decays, scales):
    square = exact_square(steps, decays, scales)
    answer = sensitivity_bounds(ev.BufferedToeplitzStrategy(steps, decays, scales), SINGLE)
    assert Fraction(answer.bounds.lower) ** 2 <= square <= Fraction(answer.bounds.upper) ** 2
    assert answer.exact


@for_each("seed", range(20))
def test_random_buffers_of_either_sign_are_between_the_ends(seed):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(2, 6))
    decays = generator.uniform(0.0, 1.0, count).tolist()
    scales = (generator.standard_normal(count) * 10.0 ** generator.uniform(-3, 18, count)).tolist()
    square = exact_square(12, decays, scales)
    answer = sensitivity_bounds(ev.BufferedToeplitzStrategy(12, decays, scales), SINGLE).bounds
    assert Fraction(answer.lower) ** 2 <= square <= Fraction(answer.upper) ** 2


def test_too_many_terms_of_either_sign_are_refused():
    strategy = ev.BufferedToeplitzStrategy(600_000, [0.9, 0.8], [1.0, -1.0])
    with pytest.raises(Unsupported, match="terms of either sign"):
        sensitivity_bounds(strategy, SINGLE)
    plain = ev.BufferedToeplitzStrategy(600_000, [0.9, 0.8], [0.1, 0.1])
    assert sensitivity_bounds(plain, SINGLE).exact


@for_each(("steps", "fan_out"), [(1, 2), (8, 2), (13, 2), (9, 3), (40, 3), (50, 7)])
def test_a_single_round_is_in_one_node_of_each_level(steps, fan_out):
    strategy = ev.TreeStrategy(steps, fan_out)
    matrix = strategy_matrix(strategy)
    square = float((matrix * matrix).sum(axis=0).max())
    answer = sensitivity_bounds(strategy, SINGLE).bounds
    assert answer.lower**2 <= square * (1.0 + 1e-15)
    assert square <= answer.upper**2 * (1.0 + 1e-15)
    assert answer.upper - answer.lower <= 1e-12


@for_each(("steps", "levels"), [(4_096, 13), (100_000, 17)])
def test_large_trees_are_answered(steps, levels):
    strategy = ev.TreeStrategy(steps, 2)
    answer = sensitivity_bounds(strategy, SINGLE)
    assert answer.exact
    assert answer.bounds.lower <= math.sqrt(levels) <= answer.bounds.upper
    apart = sensitivity_bounds(strategy, ev.SeparatedParticipation(8, steps // 8)).bounds
    assert math.sqrt(8 * levels) <= apart.upper <= 8 * math.sqrt(levels)
    assert apart.lower >= 0.9 * apart.upper


@for_each("steps", [24, 40, 63])
@for_each("fan_out", [2, 3])
@for_each(("most", "separation"), [(2, 5), (4, 4), (3, 8), (5, 1)])
def test_counted_nodes_bound_what_the_matrix_says(steps, fan_out, most, separation, monkeypatch):
    strategy = ev.TreeStrategy(steps, fan_out)
    allowed = ev.SeparatedParticipation(most, separation)
    written = sensitivity_bounds(strategy, allowed).bounds
    monkeypatch.setattr(bounds, "MAX_TREE_STEPS", 0)
    sensitivity_bounds.cache_clear()
    counted = sensitivity_bounds(strategy, allowed)
    sensitivity_bounds.cache_clear()
    assert counted.source == bounds.TREE
    assert counted.bounds.lower <= written.upper * (1.0 + 1e-12)
    assert counted.bounds.upper >= written.lower * (1.0 - 1e-12)


def every_round(steps):
    return ev.SeparatedParticipation(steps, 1)


@for_each("steps", [129, 150])
def test_more_rounds_than_are_climbed_are_bounded_by_an_eigenvalue(steps):
    strategy = ev.ToeplitzStrategy(steps, [1.0, -0.9, 0.5, 0.4, -0.3])
    matrix = strategy_matrix(strategy)
    spectral = math.sqrt(steps * float(np.linalg.eigvalsh(matrix.T @ matrix)[-1]))
    answer = sensitivity_bounds(strategy, every_round(steps))
    assert answer.bounds.upper <= spectral * (1.0 + 1e-9)
    assert answer.bounds.lower >= 0.99 * answer.bounds.upper
    # Vectors in the plane, turned by one angle from round to round, are contributions like others.
    for angle in (0.5, 1.5, 2.0, 2.5):
        turned = np.exp(1j * angle * np.arange(steps))
        moved = float(np.linalg.norm(matrix @ turned))
        assert moved <= answer.bounds.upper


def test_too_many_patterns_to_refine_have_an_eigenvalue_too(monkeypatch):
    turned, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))
    strategy = ev.DenseStrategy(turned.tolist())
    monkeypatch.setattr(bounds, "MAX_REFINED", -1)
    sensitivity_bounds.cache_clear()
    answer = sensitivity_bounds(strategy, ev.SeparatedParticipation(3, 2)).bounds
    sensitivity_bounds.cache_clear()
    assert answer.upper == pytest.approx(math.sqrt(3.0), rel=1e-9)  # no column moves another


@for_each("seed", range(5))
def test_no_flip_of_one_sign_improves_on_those_that_are_kept(seed):
    matrix = np.random.default_rng(seed).standard_normal((30, 40))
    gram = matrix.T @ matrix
    signs = directions._signs(gram)
    kept = float(signs @ gram @ signs)
    for index in range(40):
        flipped = signs.copy()
        flipped[index] *= -1.0
        assert float(flipped @ gram @ flipped) <= kept * (1.0 + 1e-9)
