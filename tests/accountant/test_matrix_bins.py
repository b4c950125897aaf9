"""Balls in bins with correlated noise: quadrature, enumeration, comparison, adaptive contributions.

The oracles are written here: the losses of single samples beside those of another library's tests,
integrals over the space that the columns span, sums over all tuples of bins.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.amplification.bin_moments import (
    log_negative_moments,
    log_power_moments,
    log_ring_moments,
)
from privplan.accountant.amplification.bins import bin_columns, bin_comparisons
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.sensitivity.matrix import strategy_matrix

from ..cases import for_each
from ..sweeps import sweep

SMALL = [
    (ev.ToeplitzStrategy(4, [1.0]), 2, 1.0),
    (ev.ToeplitzStrategy(4, [1.0, 0.5]), 2, 1.5),
    (ev.ToeplitzStrategy(2, [1.0, 0.5]), 2, 0.8),
    (ev.ToeplitzStrategy(6, [1.0, 0.5, 0.25]), 3, 2.0),
    (ev.ToeplitzStrategy(3, [1.0, 0.5]), 3, 1.0),
    (ev.BufferedToeplitzStrategy(6, [0.9], [0.4]), 3, 2.5),
    (ev.TreeStrategy(4, 2), 2, 2.0),
    (ev.DenseStrategy([[1.0, 0.0], [-1.0, 1.0]]), 2, 1.5),
]


def run(strategy, bins, noise):
    return ev.MatrixGaussian(noise, strategy, ev.BallsInBins(bins))


def plain_columns(strategy, bins):
    """Return the mean of every bin, added up round by round."""
    matrix = strategy_matrix(strategy)
    means = np.zeros((matrix.shape[0], bins))
    for step in range(matrix.shape[1]):
        means[:, step % bins] += matrix[:, step]
    return means


def log_ratio(means, noise, samples):
    """Return log P/Q at samples (one a row), noise with this deviation."""
    exponents = (samples @ means - 0.5 * (means * means).sum(axis=0)) / noise**2
    return np.logaddexp.reduce(exponents, axis=1) - math.log(means.shape[1])


def quadrature(means, noise, points):
    """Return cells of the space that the means span: their ratios and their masses under Q."""
    left, values, _ = np.linalg.svd(means / noise, full_matrices=False)
    rank = int((values > 1e-9).sum())
    turned = left[:, :rank].T @ means / noise
    grids, masses = [], np.ones(1)
    for row in turned:
        edges = np.linspace(min(row.min(), 0.0) - 6.5, max(row.max(), 0.0) + 6.5, points + 1)
        grids.append(0.5 * (edges[1:] + edges[:-1]))
        masses = np.multiply.outer(masses, np.diff(norm.cdf(edges)))
    at = np.stack([grid.ravel() for grid in np.meshgrid(*grids, indexing="ij")], axis=1)
    return np.exp(log_ratio(turned, 1.0, at)), masses.ravel()


def sticks(ratios, masses, epsilon):
    order = math.exp(epsilon)
    forward = float((masses * np.maximum(ratios - order, 0.0)).sum())
    return max(forward, float((masses * np.maximum(1.0 - order * ratios, 0.0)).sum()))


@for_each(
    ("coefficients", "sample", "loss"),
    [
        ([1.0], [1.0, 0.0, 1.0, 0.0], 0.4337808304830272),
        ([1.0, 0.5], [1.0, 0.5, 1.0, 0.5], 0.9052974004451105),
        ([1.0, 0.5], [0.0, 1.0, 0.5, 1.0], 0.7802974004451104),
        ([1.0, 1.0, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0], 1.5799760835798948),
    ],
)
def test_the_pair_has_the_losses_that_jax_privacy_publishes(coefficients, sample, loss):
    matrix = strategy_matrix(ev.ToeplitzStrategy(4, coefficients))
    found = log_ratio(bin_columns(matrix, 2), 1.0, np.array([sample]))
    assert found[0] == pytest.approx(loss, abs=1e-12)


@for_each(("strategy", "bins", "noise"), SMALL)
def test_what_is_attained_by_quadrature_lies_between_the_ends(strategy, bins, noise):
    ratios, masses = quadrature(plain_columns(strategy, bins), noise, 400 if bins == 2 else 70)
    truth = sticks(ratios, masses, 0.7)
    found = pp.account(run(strategy, bins, noise), epsilon=0.7).delta
    assert found.lower <= truth * 1.01
    assert truth * 0.99 <= found.upper


@for_each(("strategy", "bins", "noise"), SMALL)
def test_renyi_curves_lie_above_sums_over_all_tuples_of_bins(strategy, bins, noise):
    means = plain_columns(strategy, bins) / noise
    gram = means.T @ means
    found = curve(run(strategy, bins, noise), "add-remove").at(np.array([2.0, 3.0, 4.0, 5.0]))
    for order, bound in zip((2, 3, 4, 5), found.tolist(), strict=True):
        moment = 0.0
        for chosen in itertools.product(range(bins), repeat=order):
            moment += math.exp(sum(gram[i, k] for i, k in itertools.combinations(chosen, 2)))
        forward = math.log(moment / bins**order) / (order - 1)
        assert forward <= bound * (1.0 + 1e-9)
    # The other direction, at real orders, by quadrature.
    ratios, masses = quadrature(means, 1.0, 300 if bins == 2 else 90)
    orders = np.array([1.5, 2.0, 4.5])
    for order, bound in zip(orders, curve_at(strategy, bins, noise, orders), strict=True):
        backward = math.log(float((masses * ratios ** (1.0 - order)).sum())) / (order - 1.0)
        assert backward <= bound * (1.0 + 1e-3)


def curve_at(strategy, bins, noise, orders):
    return curve(run(strategy, bins, noise), "add-remove").at(orders).tolist()


def test_orthogonal_columns_are_random_allocation():
    # Two passes over five bins: each bin's columns have the norm sqrt(2).
    found = pp.account(run(ev.ToeplitzStrategy(10, [1.0]), 5, 2.0), delta=1e-6).epsilon
    event = ev.RandomAllocation(5, 1, ev.Gaussian(2.0 / math.sqrt(2.0)))
    known = pp.account(event, delta=1e-6).epsilon
    assert found.lower <= known.upper
    assert known.lower <= found.upper
    assert found.upper - found.lower < 1e-3 * found.upper


@for_each("relation", ["add-remove", "zero-out", "replace-one"])
def test_one_bin_is_a_gaussian_of_the_whole_sensitivity(relation):
    # All rounds together: the rows of C add up to 1, 1.5, 1.5.
    found = pp.account(
        run(ev.ToeplitzStrategy(3, [1.0, 0.5]), 1, 3.0), delta=1e-5, neighbours=relation
    )
    exact = pp.account(
        ev.Gaussian(3.0 / math.sqrt(1.0 + 2 * 1.5**2)), delta=1e-5, neighbours=relation
    )
    assert found.epsilon.upper == pytest.approx(exact.epsilon.upper, rel=1e-3)
    assert found.epsilon.upper >= exact.epsilon.lower


@for_each(
    ("engine", "relation"),
    [("pld", "add-remove"), ("pld", "replace-one"), ("rdp", "add-remove")],
)
def test_more_noise_and_more_bins_cost_less(engine, relation):
    def epsilon(noise, bins):
        event = run(ev.ToeplitzStrategy(12, [1.0, 0.5]), bins, noise)
        return pp.account(event, delta=1e-5, engine=engine, neighbours=relation).epsilon.upper

    assert epsilon(1.0, 4) > epsilon(2.0, 4) > epsilon(2.0, 12)
    assert epsilon(2.0, 1) > epsilon(2.0, 4)


def test_replaced_units_lie_between_the_ends():
    strategy, noise = ev.ToeplitzStrategy(2, [1.0, 0.5]), 1.5
    means = plain_columns(strategy, 2) / noise
    edges = np.linspace(-8.0, 8.0, 601)
    grid = 0.5 * (edges[1:] + edges[:-1])
    at = np.stack([each.ravel() for each in np.meshgrid(grid, grid, indexing="ij")], axis=1)
    masses = np.multiply.outer(*[np.diff(norm.cdf(edges))] * 2).ravel()
    up, down = np.exp(log_ratio(means, 1.0, at)), np.exp(log_ratio(-means, 1.0, at))
    for epsilon in (0.5, 1.5):
        truth = float((masses * np.maximum(up - math.exp(epsilon) * down, 0.0)).sum())
        found = pp.account(run(strategy, 2, noise), epsilon=epsilon, neighbours="replace-one")
        assert found.delta.lower <= truth * 1.01
        assert truth * 0.99 <= found.delta.upper


@for_each("seed", sweep(range(6), quick=3))
def test_no_adaptive_contribution_of_any_sign_exceeds_the_pair(seed):
    """Two rounds: the second contribution depends on the first noised value, as it likes."""
    generator = np.random.default_rng(seed)
    corner, noise = generator.uniform(-1.0, 1.0), 1.3
    matrix = np.array([[1.0, 0.0], [corner, 1.0]])
    first = generator.uniform(-1.0, 1.0)
    edges = np.linspace(-7.0, 7.0, 701)
    y = 0.5 * (edges[1:] + edges[:-1])
    mass = np.diff(norm.cdf(edges))
    # One rule for the second contribution for each first value: random signs and sizes.
    second = generator.choice([-1.0, 1.0], y.size) * generator.uniform(0.5, 1.0, y.size)
    means = (first / noise, corner * first / noise)
    in_first = np.exp(means[0] * y - means[0] ** 2 / 2)[:, None] * np.exp(
        means[1] * y - means[1] ** 2 / 2
    )
    in_second = np.exp(np.outer(second / noise, y) - (second[:, None] / noise) ** 2 / 2)
    ratios = (0.5 * (in_first + in_second)).ravel()
    masses = np.multiply.outer(mass, mass).ravel()
    event = run(ev.DenseStrategy(matrix.tolist()), 2, noise)
    for epsilon in (0.2, 1.0):
        attained = sticks(ratios, masses, epsilon)
        assert attained * 0.999 <= pp.account(event, epsilon=epsilon).delta.upper


def test_comparisons_bound_the_gram_matrix_entry_by_entry():
    strategy, bins, noise = ev.ToeplitzStrategy(23, [1.0, 0.6, 0.3]), 10, 2.0
    means = plain_columns(strategy, bins) / noise
    gram = means.T @ means
    compared = bin_comparisons(run(strategy, bins, noise))
    for each in compared.above[1:]:
        for turn in range(bins):
            chosen = [(turn + place * bins // each.bins) % bins for place in range(each.bins)]
            part = gram[np.ix_(chosen, chosen)]
            assert (part <= each.shared + each.hidden * np.eye(each.bins)).all()
    assert compared.below
    assert {each.share == 1.0 for each in compared.below} == {True, False}
    for each in compared.below:
        size = round(each.share * bins / each.bins)
        blocks = [np.arange(start, start + size) for start in range(0, bins - size + 1, size)]
        heavy = [b for b in blocks if (gram[np.ix_(b, b)] >= each.shared + each.hidden).all()]
        assert len(heavy) >= each.bins
        assert each.share <= each.bins * size / bins
        assert each.shared <= gram.min()
        assert each.shared == 0.0 or each.share == 1.0


@for_each(("bins", "near"), [(4, 0.3), (5, 0.6), (6, 0.1)])
def test_moments_of_a_circle_are_sums_over_all_tuples_of_its_bins(bins, near):
    distance = np.abs(np.arange(bins)[:, None] - np.arange(bins))
    gram = 0.9 * (distance == 0) + near * ((distance == 1) | (distance == bins - 1))
    found = log_ring_moments(bins, 0.9, near)
    for order in (2, 3, 4, 5):
        moment = sum(
            math.exp(sum(gram[i, k] for i, k in itertools.combinations(chosen, 2)))
            for chosen in itertools.product(range(bins), repeat=order)
        )
        exact = math.log(moment / bins**order)
        assert exact <= found[order] <= exact + 1e-9


@for_each(("bins", "hidden"), [(1, 0.5), (2, 1.0), (3, 0.7), (40, 2.0)])
def test_moments_of_a_mean_are_what_sums_and_quadrature_say(bins, hidden):
    orders = np.arange(2.0, 6.0)
    found = log_power_moments(bins, hidden)[2:6]
    for order, moment in zip(orders, found, strict=True):
        # By how often the draws meet: partitions of the draws into bins.
        exact = 0.0
        for blocks in set_partitions(int(order)):
            ways = math.perm(bins, len(blocks)) / float(bins) ** order
            exact += ways * math.exp(sum(math.comb(size, 2) for size in blocks) * hidden)
        assert math.log(exact) <= moment <= math.log(exact) + 1e-8
    powers = np.array([0.3, 1.0, 3.5])
    backward = log_negative_moments(bins, hidden, powers)
    assert (backward <= 0.5 * powers * (powers + 1.0) * hidden + 1e-9).all()
    assert (backward >= 0.5 * powers * (powers + 1.0) * hidden / bins * 0.2).all()
    if bins <= 3:
        edges = np.linspace(-8.0, 8.0, 1201 if bins < 3 else 151)
        ratio = np.exp(math.sqrt(hidden) * 0.5 * (edges[1:] + edges[:-1]) - hidden / 2)
        grids = np.meshgrid(*[ratio] * bins, indexing="ij")
        mass = np.diff(norm.cdf(edges))
        masses = math.prod(np.meshgrid(*[mass] * bins, indexing="ij"))
        for power, bound in zip(powers, backward, strict=True):
            exact = math.log(float((masses * (sum(grids) / bins) ** -power).sum()))
            assert exact * (1.0 - 2e-3) <= bound <= exact * 1.01 + 1e-4


def set_partitions(size):
    """Return the block sizes of every partition of a set."""
    partitions = [[]]
    for _ in range(size):
        grown = []
        for blocks in partitions:
            grown.append([*blocks, 1])
            for index in range(len(blocks)):
                grown.append([*blocks[:index], blocks[index] + 1, *blocks[index + 1 :]])
        partitions = grown
    return partitions


def test_records_of_one_unit_draw_bins_of_their_own():
    """No data sets are known that attain anything for them together."""
    single = run(ev.ToeplitzStrategy(8, [1.0, 0.5]), 4, 2.0)
    alone = pp.account(single, delta=1e-6, engine="rdp").epsilon
    group = pp.account(ev.Group(2, single), delta=1e-6, engine="rdp").epsilon
    assert group.upper > 2.0 * alone.upper
    assert group.lower == 0.0


def test_the_derivation_names_the_pair_and_what_it_rests_on():
    event = run(ev.ToeplitzStrategy(40, [1.0, 0.5]), 20, 2.0)
    found = pp.account(event, delta=1e-6, engine="pld")
    step = found.derivation[0]
    assert "1 of 20 bins" in step.statement
    assert "2410.06266" in step.source
    assert any("independent and secret" in condition for condition in step.conditions)
