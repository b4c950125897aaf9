"""Runs with correlated noise as whole curves: Renyi divergences, zCDP, mu of Gaussian DP.

The oracles are closed forms of N(s, noise^2) against N(0, noise^2), with s written out here, and
for balls in bins the integral of the pair that dominates.
"""

import math

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.guarantee import Bounds
from privplan.accountant.sensitivity.matrix import sensitivity_bounds

from ..cases import for_each

SINGLE = ev.SingleParticipation()
RELATIONS = {"add-remove": 1.0, "zero-out": 1.0, "replace-one": 2.0}
HALVES = ev.ToeplitzStrategy(6, [1.0, 0.5])
ONES = ev.ToeplitzStrategy(6, [1.0] * 6)
BINS = ev.MatrixGaussian(4.0, ONES, ev.BallsInBins(2))
APART = ev.MatrixGaussian(  # three rounds that repel one another: bounds that are apart
    3.0,
    ev.DenseStrategy(np.random.default_rng(5).uniform(-1.0, 1.0, (9, 9)).tolist()),
    ev.SeparatedParticipation(4, 2),
)
ORDERS = np.array([1.5, 2.0, 4.0, 8.0])


def _ends(curve):
    """Return both ends of a curve at each of its orders."""
    rows = zip(curve.lower, curve.upper, curve.orders, strict=True)
    return [(Bounds(low, high), order) for low, high, order in rows]


@for_each("relation", RELATIONS)
def test_a_run_of_single_rounds_is_one_gaussian(relation):
    event = ev.MatrixGaussian(2.0, HALVES, SINGLE)
    mu = RELATIONS[relation] * math.sqrt(1.25) / 2.0
    answer = pp.gdp(event, neighbours=relation).mu
    assert answer.lower <= mu <= answer.upper <= mu * (1.0 + 1e-9)
    assert answer.lower >= mu * (1.0 - 1e-9)
    rho = pp.zcdp(event, neighbours=relation).rho
    assert rho.lower <= mu**2 / 2 <= rho.upper <= mu**2 / 2 * (1.0 + 1e-9)
    assert rho.lower >= mu**2 / 2 * (1.0 - 1e-9)
    curve = pp.rdp(event, orders=ORDERS, neighbours=relation)
    for divergence, order in _ends(curve):
        assert divergence.lower <= order * mu**2 / 2 <= divergence.upper


def test_a_repeated_run_has_as_many_squares():
    mu = math.sqrt(3.0 * 1.25) / 2.0
    event = ev.Repeat(3, ev.MatrixGaussian(2.0, HALVES, SINGLE))
    assert pp.gdp(event).mu.upper == pytest.approx(mu, rel=1e-9)
    assert pp.zcdp(event).rho.lower == pytest.approx(mu**2 / 2, rel=1e-9)


@for_each("relation", RELATIONS)
def test_ends_are_apart_where_the_sensitivity_is(relation, monkeypatch):
    from privplan.accountant.sensitivity.matrix import bounds

    monkeypatch.setattr(bounds, "MAX_REFINED", -1)
    bounds.sensitivity_bounds.cache_clear()
    known = sensitivity_bounds(APART.strategy, APART.participation).bounds
    assert known.lower < 0.99 * known.upper
    lower, upper = (RELATIONS[relation] * end / 3.0 for end in (known.lower, known.upper))
    curve = pp.rdp(APART, orders=ORDERS, neighbours=relation)
    for divergence, order in _ends(curve):
        assert divergence.lower == pytest.approx(order * lower**2 / 2, rel=1e-9)
        assert divergence.upper == pytest.approx(order * upper**2 / 2, rel=1e-9)
    rho, mu = pp.zcdp(APART, neighbours=relation).rho, pp.gdp(APART, neighbours=relation).mu
    assert rho.lower == pytest.approx(lower**2 / 2, rel=1e-9)
    assert rho.upper == pytest.approx(upper**2 / 2, rel=1e-9)
    assert mu.lower == pytest.approx(lower, rel=1e-9)
    assert mu.upper == pytest.approx(upper, rel=1e-9)
    bounds.sensitivity_bounds.cache_clear()


def test_hidden_bins_do_not_attain_a_known_one_under_replace_one():
    # The pair that dominates is integrated over the plane that both means span.
    curve = pp.rdp(BINS, orders=ORDERS, neighbours="replace-one")
    matrix = np.tril(np.ones((6, 6)))
    means = np.stack([matrix[:, first::2].sum(axis=1) for first in (0, 1)], axis=1) / 4.0
    left, _, _ = np.linalg.svd(means, full_matrices=False)
    turned = left.T @ means
    axis = np.linspace(-40.0, 40.0, 641)
    first, second = np.meshgrid(axis, axis, indexing="ij")

    def log_density(sign):
        each = [-0.5 * ((first - sign * a) ** 2 + (second - sign * b) ** 2) for a, b in turned.T]
        return np.logaddexp.reduce(each, axis=0) - math.log(4.0 * math.pi)

    p, q = log_density(1.0), log_density(-1.0)
    for divergence, order in _ends(curve):
        total = np.exp(order * p + (1.0 - order) * q).sum() * (axis[1] - axis[0]) ** 2
        assert divergence.lower <= math.log(total) / (order - 1.0) <= divergence.upper


@for_each("relation", ["add-remove", "replace-one"])
def test_a_known_bin_bounds_a_hidden_one(relation):
    known = RELATIONS[relation] * sensitivity_bounds(ONES, BINS.participation).bounds.upper / 4.0
    mu, rho = pp.gdp(BINS, neighbours=relation).mu, pp.zcdp(BINS, neighbours=relation).rho
    assert 0.0 < mu.lower <= mu.upper == pytest.approx(known, rel=1e-9)
    assert rho.upper == pytest.approx(known**2 / 2, rel=1e-9)
    assert rho.lower <= rho.upper
    group = ev.Group(2, BINS)
    assert pp.gdp(group, neighbours=relation).mu.upper == pytest.approx(2 * known, rel=1e-9)
    rho = pp.zcdp(group, neighbours=relation).rho
    assert rho.upper == pytest.approx(2 * known**2, rel=1e-9)


@for_each(
    ("event", "relation"),
    [
        (ev.Repeat(7, ev.Poisson(0.3, ev.Gaussian(4.0))), "replace-one"),
        (ev.Group(3, ev.Poisson(0.2, ev.Gaussian(5.0))), "add-remove"),
        (ev.Repeat(5, ev.MatrixGaussian(9.0, ONES, ev.EpochParticipation(2))), "replace-one"),
        (ev.Compose([ev.Gaussian(2.0), ev.MatrixGaussian(2.0, HALVES, SINGLE)]), "zero-out"),
        (BINS, "add-remove"),
        (BINS, "replace-one"),
    ],
)
def test_both_ways_to_mu_at_every_rate_agree(event, relation):
    mu, seen = pp.gdp(event, neighbours=relation).mu, pp.risk(event, neighbours=relation)
    assert mu.lower <= seen.mu_everywhere.upper * (1.0 + 1e-9)
    assert seen.mu_everywhere.lower <= mu.upper * (1.0 + 1e-9)
