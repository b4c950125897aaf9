"""Poisson samples that are cut: searches for worse data sets, in the plane and with many units."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, laplace, norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.amplification.truncation import Cut, JoinDistribution
from privplan.accountant.engines.pld.grid.noise import GaussianNoise, LaplaceNoise
from privplan.accountant.engines.pld.pairs import truncated
from privplan.accountant.engines.pld.pairs.registry import pairs
from privplan.accountant.engines.pld.pairs.truncated import attained_plane_pairs

from ..cases import for_each

RELATIONS = ("add-remove", "replace-one", "zero-out")
ORDERS = np.exp(np.array([-2.5, -1.0, -0.3, -0.05, 0.0, 0.05, 0.3, 1.0, 2.5, 4.0]))
LAWS = {ev.Gaussian: norm, ev.Laplace: laplace}


def hockey_sticks(p, q):
    """The hockey sticks of two measures on the same outcomes."""
    return np.array([np.maximum(p - order * q, 0.0).sum() for order in ORDERS])


def curve_of(pair, points=20_001):
    """The hockey sticks of a pair, from its masses in fine bins of the loss."""
    total = np.zeros(ORDERS.size)
    if pair.continuous is not None:
        # A bin that straddles an order would hide some of what is beyond it.
        edges = np.union1d(np.linspace(*pair.continuous.loss_range(1e-16), points), np.log(ORDERS))
        total += hockey_sticks(*(np.exp(logs) for logs in pair.continuous.log_masses(edges)))
    if pair.atoms is not None:
        total += hockey_sticks(np.exp(pair.atoms.log_p), np.exp(pair.atoms.log_q))
    return total


def cells(release, centre, edges, across=None):
    """The masses of the cells of the plane under noise around a centre."""
    law = LAWS[type(release)]
    axes = (edges, edges if across is None else across)
    per_axis = [
        np.diff(law.cdf(np.concatenate(([-np.inf], ends, [np.inf])), c, release.noise_multiplier))
        for c, ends in zip(centre, axes, strict=True)
    ]
    return np.outer(*per_axis).ravel()


def others_under(relation, unit, grid):
    """What stands in the unit's place in the other data set; None where nothing does."""
    if relation == "add-remove":
        return [None]
    return [(0.0, 0.0)] if relation == "zero-out" else [value for value in grid if value != unit]


AXES = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
DIAGONALS = {ev.Gaussian: (-0.6, 0.8), ev.Laplace: (-0.4, 0.6)}


@for_each("relation", RELATIONS)
@for_each(
    ("release", "batch", "rate"),
    [
        (ev.Gaussian(0.9), 1, 0.3),
        (ev.Laplace(1.2), 2, 0.25),
        (ev.Gaussian(0.9), 3, 0.9),
        (ev.Gaussian(0.9), 2, 0.8),
    ],
)
def test_no_small_data_set_in_the_plane_is_worse(release, batch, rate, relation):
    """Every data set of four units on a grid, by enumerating who joins and who is cut."""
    mechanism = pairs(ev.TruncatedPoisson(rate, batch, 4, release), relation)
    bound, back = curve_of(mechanism.pair), curve_of(mechanism.pair.reverse())
    edges = np.linspace(-6.0, 6.0, 37)
    around = cache(lambda centre: cells(release, centre, edges))
    grid = (*AXES, DIAGONALS[type(release)])

    @cache
    def output(values):
        total = np.zeros((edges.size + 1) ** 2)
        for drawn in itertools.product((0, 1), repeat=len(values)):
            chosen = [v for v, here in zip(values, drawn, strict=True) if here]
            weight = math.prod(rate if here else 1.0 - rate for here in drawn)
            kept = list(itertools.combinations(chosen, min(batch, len(chosen))))
            for each in kept:
                centre = tuple(round(sum(x), 9) for x in zip((0.0, 0.0), *each, strict=True))
                total += weight / len(kept) * around(centre)
        return total

    for others in itertools.combinations_with_replacement(grid, 3):
        for unit in grid:
            p = output(tuple(sorted((unit, *others))))
            for law_q in others_under(relation, unit, grid):
                q = output(tuple(sorted(others if law_q is None else (law_q, *others))))
                assert (hockey_sticks(p, q) <= bound + 1e-5).all()
                assert (hockey_sticks(q, p) <= back + 1e-5).all()
    attained = curve_of(mechanism.lower_pair), curve_of(mechanism.lower_pair.reverse())
    assert (attained[0] <= bound + 1e-9).all()
    assert (attained[1] <= back + 1e-9).all()


def crowded(release, population, rate, batch, unit, law_q, point=(1.0, 0.0), axes=None):
    """Outputs of a unit among others who are all at one point, from scipy's binomials."""
    axes = axes or (np.arange(-8.0, batch + 8.0, 0.25),)
    around = cache(lambda *centre: cells(release, centre, *axes))
    total = {"with": 0.0, "other": 0.0}
    for joined in range(population):
        weight = binom.pmf(joined, population - 1, rate)
        if weight < 1e-15:
            continue
        beside = [min(joined, batch - 1) * x for x in point]
        drawn = rate * min(1.0, batch / (joined + 1))
        still = around(*(min(joined, batch) * x for x in point))
        for of, value in (("with", unit), ("other", law_q)):
            chance = 0.0 if value is None else drawn
            total[of] += weight * (1 - chance) * still
            if value is not None:
                moved = around(*(x + y for x, y in zip(beside, value, strict=True)))
                total[of] += weight * chance * moved
    return total["with"], total["other"]


@pytest.mark.quick(9)
@for_each("relation", RELATIONS)
@for_each(("release", "norm_of"), [(ev.Gaussian(0.7), 2), (ev.Laplace(0.8), 1)])
@for_each("batch", [2, 4, 8])
def test_no_other_design_is_worse(release, norm_of, batch, relation):
    """Forty units at one point, of any length, and a unit in any direction from there."""
    mechanism = pairs(ev.TruncatedPoisson(0.1, batch, 40, release), relation)
    bound, back = curve_of(mechanism.pair), curve_of(mechanism.pair.reverse())
    for towards, length in itertools.product((-0.5, 0.0, 0.4, 1.0), (0.5, 1.0)):
        unit = (-towards, (1.0 - abs(towards) ** norm_of) ** (1.0 / norm_of))
        across = (-unit[0], -unit[1])
        for law_q in others_under(relation, unit, (across, (1.0, 0.0))):
            p, q = crowded(release, 40, 0.1, batch, unit, law_q, (length, 0.0))
            result, back_result = hockey_sticks(p, q), hockey_sticks(q, p)
            assert (result <= bound * (1 + 1e-9) + 1e-12).all()
            assert (back_result <= back * (1 + 1e-9) + 1e-12).all()


@for_each(
    ("noise", "relation"),
    [
        (GaussianNoise(0.8), "add-remove"),
        (GaussianNoise(0.8), "replace-one"),
        (LaplaceNoise(0.9), "add-remove"),
        (LaplaceNoise(0.9), "zero-out"),
    ],
)
def test_designs_are_attained(noise, relation):
    """The pairs of the designs are those of data sets, on the same cells."""
    release = ev.Gaussian(0.8) if isinstance(noise, GaussianNoise) else ev.Laplace(0.9)
    result = attained_plane_pairs(noise, 40, 0.1, 4, relation)
    reach, width = noise.radius(truncated.PLANE_TAIL_MASS), noise.scale / truncated.CELLS_PER_BOUND
    parts = math.ceil(truncated.CELLS_PER_BOUND / noise.scale)
    axes = (
        np.arange(-12 * parts, 16 * parts) / parts,
        np.arange(-reach - 1.0 - width, reach + 1.0 + width, width)[1:-1],
    )
    designs = []
    for c in truncated.UNIT_OFFSETS:
        s = math.sqrt(1.0 - c * c) if isinstance(noise, GaussianNoise) else 1.0 - c
        other = {"add-remove": None, "zero-out": (0.0, 0.0), "replace-one": (c, -s)}[relation]
        designs.append(((-c, s), other))
    assert len(result) == len(designs)
    for pair, (unit, law_q) in zip(result, designs, strict=True):
        p, q = crowded(release, 40, 0.1, 4, unit, law_q, axes=axes)
        for shown, true in (
            (curve_of(pair), hockey_sticks(p, q)),
            (curve_of(pair.reverse()), hockey_sticks(q, p)),
        ):
            assert (shown <= true * (1 + 1e-9) + 1e-12).all()
            assert (shown >= true * 0.98 - 1e-6).all()


@for_each("relation", RELATIONS)
@for_each(("batch", "rate"), [(1, 0.25), (3, 0.5), (4, 0.25)])
def test_the_parts_are_those_of_exact_binomials(batch, rate, relation):
    """The pair beside one that is put together here, from fractions and quadrature."""
    population, sigma = 9, 0.8
    q = Fraction(rate)
    mass = [math.comb(8, k) * q**k * (1 - q) ** (8 - k) for k in range(9)]
    full = sum(mass[batch:])
    f = sum(mass[k] * q * Fraction(batch, k + 1) for k in range(batch, 9))
    cut = Cut.of(population, rate, batch)
    release = ev.Gaussian(sigma)
    beside = Fraction(cut.joined * truncated._edge_share(release, cut))
    assert 0 < beside < f
    x = np.linspace(-12.0, 14.0, 40_001)
    step = x[1] - x[0]

    def noise(centre):
        return norm.pdf(x, centre, sigma) * step

    edge, below = mass[batch - 1], sum(mass[: batch - 1])

    def fixed(order):
        """The hockey stick of the third part: (full - f) F and f2 moved, against Q's."""
        out, moved = float(full - f), float(f - beside)
        if relation == "add-remove":
            return np.maximum(
                out * noise(0) + moved * noise(2) - order * float(full) * noise(0), 0
            ).sum()
        if relation == "replace-one":
            p, law_q = out * noise(0) + moved * noise(2), (out + moved) * noise(0)
            law_p, two = (p, law_q) if order >= 1 else (law_q[::-1], p[::-1])
            if order < 1:
                law_p, two = law_q, p
            return np.maximum(law_p - order * two, 0).sum()
        if order >= 1:
            p = out * noise(-1) + moved * noise(1)
            return np.maximum(p - order * (out * noise(-1) + moved * noise(0)), 0).sum()
        p, law_q = (out + moved) * noise(0), out * noise(0) + moved * noise(1)
        return np.maximum(p - order * law_q, 0).sum()

    def poisson(order, outside, inside, other_mass):
        centre = {"add-remove": None, "zero-out": 0, "replace-one": -1}[relation]
        p = outside * noise(0) + inside * noise(1)
        law_q = other_mass * noise(0)
        if centre is not None:
            law_q = outside * noise(0) + inside * noise(centre)
        return np.maximum(p - order * law_q, 0).sum()

    exact = np.array(
        [
            poisson(order, float(below * (1 - q)), float(below * q), float(below))
            + poisson(order, float(edge * (1 - q)), float(edge * q + beside), float(edge))
            + fixed(order)
            for order in ORDERS
        ]
    )
    pair = pairs(ev.TruncatedPoisson(rate, batch, population, release), relation).pair
    assert curve_of(pair) == pytest.approx(exact, rel=2e-6, abs=1e-9)


@for_each(("cap", "lowest", "highest"), [(128, 5.7, 5.78), (280, 1.13, 1.94)])
def test_a_cap_costs_as_much_as_is_known(cap, lowest, highest):
    """Telling full samples apart gave 6.89 at 260, 4.78 at 280, 3.05 at 300 and 1.164 at 320."""
    event = ev.Repeat(2340, ev.TruncatedPoisson(256 / 60_000, cap, 60_000, ev.Gaussian(1.0)))
    result = account(event, delta=1e-5).epsilon
    assert lowest <= result.lower <= result.upper <= highest


@for_each(
    ("population", "rate", "batch", "relation"),
    [
        (100, 1 - 1e-9, 50, "zero-out"),
        (10, 0.999, 9, "add-remove"),
        pytest.param(60_000, 0.1, 5000, "add-remove", marks=pytest.mark.slow),
        pytest.param(60_000, 0.1, 6500, "replace-one", marks=pytest.mark.slow),
        (10**7, 1e-5, 1, "add-remove"),
        (3, 0.5, 1, "replace-one"),
        (10**15, 0.5, 10**14, "zero-out"),
    ],
)
def test_extreme_cuts_keep_their_ends_in_order(population, rate, batch, relation):
    for release in (ev.Gaussian(0.2), ev.Laplace(3.0)):
        event = ev.TruncatedPoisson(rate, batch, population, release)
        result = account(event, delta=1e-7, neighbours=relation).epsilon
        assert 0.0 <= result.lower <= result.upper < math.inf


@for_each(("population", "rate", "batch"), [(9, 0.3, 4), (60, 0.1, 2), (60, 0.1, 9)])
def test_the_numbers_that_join_are_binomial(population, rate, batch):
    joining = JoinDistribution.of(population, rate, batch)
    k = np.arange(joining.first, batch)
    assert joining.masses == pytest.approx(binom.pmf(k, population - 1, rate), rel=1e-10)
    assert joining.full == pytest.approx(binom.sf(batch - 1, population - 1, rate), rel=1e-9)
    rest = np.arange(batch, population)
    drawn = (binom.pmf(rest, population - 1, rate) * rate * batch / (rest + 1)).sum()
    assert joining.joined == pytest.approx(drawn, rel=1e-9)
    cut = Cut.of(population, rate, batch)
    assert cut.edge == pytest.approx(binom.pmf(batch - 1, population - 1, rate), rel=1e-10)
    assert cut.below == pytest.approx(binom.cdf(batch - 2, population - 1, rate), rel=1e-10)
    assert cut.joined == pytest.approx(drawn, rel=1e-9)


@for_each("relation", ["replace-one", "zero-out"])
@for_each("rate", [1e-200, 1e-170])
def test_rates_that_underflow_are_answered(rate, relation):
    event = ev.TruncatedPoisson(rate, 1, 10, ev.Gaussian(1.0))
    result = account(event, epsilon=0.5, neighbours=relation).delta
    assert 0.0 <= result.lower <= result.upper <= 1e-100


def test_the_lower_end_is_that_of_the_data_that_show_most_over_all_rounds():
    """One round shows more of a crowd at one point, a thousand rounds more of others at 0."""
    cut, rate, population = 75, 0.001, 60_000
    event = ev.Repeat(1000, ev.TruncatedPoisson(rate, cut, population, ev.Gaussian(1.0)))
    overall = Cut.of(population, rate, cut).overall
    hidden = ev.Repeat(1000, ev.Poisson(overall, ev.Gaussian(1.0)))
    result = account(event, delta=1e-5, engine="pld").epsilon
    assert result.lower >= 0.99 * account(hidden, delta=1e-5).epsilon.lower
