"""Upper pmfs lie above the true hockey stick, lower pmfs below it, at every order.

The oracles are closed forms and sums that share no code with the engine.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism as dp
from scipy.optimize import brentq
from scipy.stats import laplace, norm

from privplan.accountant import events as ev
from privplan.accountant.engines.pld.grid.loss_grid import Grid, GridTooFine, LossPmf
from privplan.accountant.engines.pld.grid.loss_pmfs import lower_pmf, upper_pmf
from privplan.accountant.engines.pld.grid.lower_hull import convex_minorant, hockey_stick, shortfall
from privplan.accountant.engines.pld.grid.pair import Pair
from privplan.accountant.engines.pld.grid.pair_parts import AtomPair
from privplan.accountant.engines.pld.pairs.registry import pairs

from ...cases import for_each

TAIL = 1e-14


def _gaussian(sigma, rate, add):
    kind = dp.AdjacencyType.ADD if add else dp.AdjacencyType.REMOVE
    loss = dp.GaussianPrivacyLoss(sigma, sampling_prob=rate, adjacency_type=kind)
    return lambda e: float(loss.get_delta_for_epsilon(e))


def _laplace(scale, rate, add):
    kind = dp.AdjacencyType.ADD if add else dp.AdjacencyType.REMOVE
    loss = dp.LaplacePrivacyLoss(scale, sampling_prob=rate, adjacency_type=kind)
    return lambda e: float(loss.get_delta_for_epsilon(e))


def _opposite(noise, rate):
    """Centres +1 against -1 under sampling: the threshold by bisection, then the two tails."""

    def loss(x):
        p = (1 - rate) * noise.pdf(x) + rate * noise.pdf(x - 1)
        q = (1 - rate) * noise.pdf(x) + rate * noise.pdf(x + 1)
        return math.log(p) - math.log(q)

    def above(x, centre):
        return (1 - rate) * noise.sf(x) + rate * noise.sf(x - centre)

    def delta(e):
        reach = 9.0
        if loss(reach) <= e:
            return 0.0
        if loss(-reach) >= e:
            return 1 - math.exp(e)
        x = brentq(lambda x: loss(x) - e, -reach, reach, xtol=1e-15, rtol=1e-14)
        return max(above(x, 1) - math.exp(e) * above(x, -1), 0.0)

    return delta


def _discrete(weight, reach, rate, add, opposite=False):
    x = np.arange(-4000, 4001)
    base = weight(x)
    total = base.sum()
    absent, plus, minus = base / total, weight(x - reach) / total, weight(x + reach) / total
    p = (1 - rate) * absent + rate * plus
    q = (1 - rate) * absent + rate * minus if opposite else absent
    if add:
        p, q = q, p
    return lambda e: float(np.maximum(p - math.exp(e) * q, 0.0).sum())


def _response(epsilon, categories):
    p = np.array([math.exp(epsilon), 1.0, categories - 2.0]) / (math.exp(epsilon) + categories - 1)
    q = p[[1, 0, 2]]
    return lambda e: float(np.maximum(p - math.exp(e) * q, 0.0).sum())


def _normal(scale):
    return lambda x: np.exp(-(x**2) / (2 * scale**2))


def _geometric(scale):
    return lambda x: np.exp(-np.abs(x) / scale)


AR, RO = "add-remove", "replace-one"
NORMAL = ev.Poisson(0.1, ev.DiscreteGaussian(0.7, 3))
GEOMETRIC = ev.Poisson(0.2, ev.DiscreteLaplace(0.6, 5))
CASES = [
    (ev.Gaussian(1.0), AR, False, _gaussian(1.0, 1.0, False)),
    (ev.Gaussian(0.2), AR, False, _gaussian(0.2, 1.0, False)),
    (ev.Gaussian(3.0), RO, False, _gaussian(1.5, 1.0, False)),
    (ev.Poisson(0.01, ev.Gaussian(1.0)), AR, False, _gaussian(1.0, 0.01, False)),
    (ev.Poisson(0.01, ev.Gaussian(1.0)), AR, True, _gaussian(1.0, 0.01, True)),
    (ev.Poisson(0.3, ev.Gaussian(0.4)), "zero-out", False, _gaussian(0.4, 0.3, False)),
    (ev.Poisson(0.3, ev.Gaussian(0.4)), "zero-out", True, _gaussian(0.4, 0.3, True)),
    (ev.Poisson(0.999, ev.Gaussian(2.0)), AR, False, _gaussian(2.0, 0.999, False)),
    (ev.Poisson(0.999, ev.Gaussian(2.0)), AR, True, _gaussian(2.0, 0.999, True)),
    (ev.Poisson(0.2, ev.Gaussian(0.8)), RO, False, _opposite(norm(scale=0.8), 0.2)),
    (ev.Laplace(0.8), AR, False, _laplace(0.8, 1.0, False)),
    (ev.Laplace(3.0), RO, False, _laplace(1.5, 1.0, False)),
    (ev.Poisson(0.1, ev.Laplace(0.5)), AR, False, _laplace(0.5, 0.1, False)),
    (ev.Poisson(0.1, ev.Laplace(0.5)), AR, True, _laplace(0.5, 0.1, True)),
    (ev.Poisson(0.1, ev.Laplace(0.5)), RO, False, _opposite(laplace(scale=0.5), 0.1)),
    (NORMAL, AR, False, _discrete(_normal(2.1), 3, 0.1, False)),
    (NORMAL, AR, True, _discrete(_normal(2.1), 3, 0.1, True)),
    (ev.DiscreteGaussian(1.0, 2), RO, False, _discrete(_normal(2.0), 4, 1.0, False)),
    (GEOMETRIC, AR, True, _discrete(_geometric(3.0), 5, 0.2, True)),
    (GEOMETRIC, RO, False, _discrete(_geometric(3.0), 5, 0.2, False, opposite=True)),
    (ev.RandomizedResponse(1.3, 7), RO, False, _response(1.3, 7)),
    (ev.Pure(0.7), AR, False, _response(0.7, 2)),
]


def _hockey(pmf, epsilon):
    above = pmf.losses > epsilon
    gains = -np.expm1(epsilon - pmf.losses[above])
    return pmf.infinite_mass + float((pmf.masses[above] * gains).sum())


@for_each(("event", "relation", "add", "oracle"), CASES)
@for_each("width", [0.3, 0.03, pytest.param(0.004, marks=pytest.mark.slow)])
def test_laws_lie_on_their_side_at_every_order(event, relation, add, oracle, width):
    mechanism = pairs(event, relation)
    pair = mechanism.pair.reverse() if add else mechanism.pair
    low, high = pair.loss_range(1e-9)
    offset = pair.grid_atoms[0] if pair.grid_atoms else 0.0
    upper = upper_pmf(pair, Grid(width, offset), TAIL)
    lower = lower_pmf(pair, Grid(width, offset), TAIL)
    assert lower.masses.min() >= 0.0
    assert lower.masses.sum() <= 1.0 + 1e-12
    worst = 0.0
    for epsilon in np.concatenate([np.linspace(low - 0.1, high + 0.1, 43), upper.losses[::13]]):
        truth = oracle(float(epsilon))
        # 1e-11: what the oracles themselves get wrong.
        assert _hockey(upper, epsilon) >= truth - 1e-11
        assert _hockey(lower, epsilon) <= truth + 1e-11
        worst = max(worst, _hockey(upper, epsilon) - truth)
    assert worst <= width  # and a bound that says nothing would fail here


def test_both_laws_close_in_quadratically():
    pair = pairs(ev.Poisson(0.2, ev.Gaussian(0.8)), AR).pair
    exact = _gaussian(0.8, 0.2, False)
    epsilons = np.linspace(-0.15, 2.5, 40)
    gaps = []
    for width in (0.01, 0.005, 0.0025):
        upper = upper_pmf(pair, Grid(width, pair.grid_atoms[0]), TAIL)
        lower = lower_pmf(pair, Grid(width, pair.grid_atoms[0]), TAIL)
        above = sum(_hockey(upper, e) - exact(e) for e in epsilons)
        gaps.append((above, sum(exact(e) - _hockey(lower, e) for e in epsilons)))
    for coarse, fine in itertools.pairwise(gaps):
        for before, after in zip(coarse, fine, strict=True):
            assert 2.5 < before / after < 6.0


def test_heavy_atoms_on_the_grid_cost_nothing():
    pair = pairs(ev.RandomizedResponse(1.0, 5), RO).pair
    grid = Grid(1.0 / 16, pair.grid_atoms[0])
    upper, lower = upper_pmf(pair, grid, TAIL), lower_pmf(pair, grid, TAIL)
    for epsilon in np.linspace(-1.5, 1.2, 50):
        truth = _response(1.0, 5)(epsilon)
        assert _hockey(upper, epsilon) == pytest.approx(truth, abs=1e-11)
        assert _hockey(lower, epsilon) == pytest.approx(truth, abs=1e-8)


def test_hockey_stick_and_shortfall_are_their_sums():
    rng = np.random.default_rng(3)
    masses = rng.uniform(size=700) * rng.integers(0, 2, size=700)
    for width in (0.01, 1.3):  # the second needs several blocks
        index = np.arange(masses.size)
        above, below = hockey_stick(masses, width), shortfall(masses, width)
        for j in (0, 1, 2, 230, 231, 500, 698, 699):
            steps = width * (index - j)
            expected = (masses * -np.expm1(-np.maximum(steps, 0.0))).sum()
            assert above[j] == pytest.approx(expected, rel=1e-10, abs=1e-12)
            expected = (masses * np.expm1(np.minimum(-np.minimum(steps, 0.0), 300.0))).sum()
            if expected < 1e90:
                assert below[j] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_convex_minorant_against_the_definition():
    """Against the convex hull of the points (alpha_j, y_j), by brute force."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        size, width = int(rng.integers(3, 12)), 0.3
        alphas = np.exp(width * np.arange(size))
        masses = rng.normal(0.4, 1.0, size=size)
        masses[-1] = 30.0  # the last kink stays, as in the engine
        kinks = masses / alphas

        def value(alpha, q=kinks, a=alphas):
            return float((q * np.maximum(a - alpha, 0.0)).sum())

        points = [(0.0, value(0.0))] + [(float(a), value(a)) for a in alphas]
        minorant = convex_minorant(masses.copy(), width)
        assert minorant.min() >= 0.0
        for alpha in np.linspace(0.05, alphas[-1], 30):
            hull = min(
                y1 + (y2 - y1) * (alpha - x1) / (x2 - x1)
                for x1, y1 in points
                for x2, y2 in points
                if x1 <= alpha <= x2 and x1 < x2
            )
            mine = float((minorant / alphas * np.maximum(alphas - alpha, 0.0)).sum())
            assert mine == pytest.approx(hull, rel=1e-9, abs=1e-9)


def test_a_grid_that_is_too_fine_is_refused():
    pair = pairs(ev.Gaussian(0.001), AR).pair
    with pytest.raises(GridTooFine):
        upper_pmf(pair, Grid(1e-6), TAIL)


def _random_outcomes(rng):
    """Log P and log Q of adversarial outcomes: on and beside grid points, crowded, far apart."""
    width = float(rng.choice([1.5, 0.5, 0.1, 0.01]))
    scale = width * float(rng.choice([0.1, 1.0, 10.0, 100.0]))
    size = int(rng.choice([1, 2, 3, 8, 40]))
    losses = rng.normal(size=size) * scale
    style = int(rng.integers(4))
    if style == 1:
        losses = np.round(losses / width) * width
    elif style == 2:
        losses = np.round(losses / width) * width
        losses += rng.normal(size=size) * width * 10.0 ** rng.uniform(-14, -1)
    elif style == 3:
        losses = scale * (1 - 10.0 ** rng.uniform(-6, 0, size=size)) * rng.choice([-1, 1])
    log_p = -float(rng.choice([0, 5, 30, 200, 400])) * rng.random(size)
    log_p -= np.logaddexp.reduce(log_p)
    log_q = log_p - losses
    return log_p, log_q - max(np.logaddexp.reduce(log_q), 0.0), width


def test_laws_of_adversarial_outcomes_stay_on_their_side():
    """Tiny masses beside heavy ones, atoms next to grid points, coarse grids: 700 cases."""
    rng = np.random.default_rng(11)
    told = 0
    for _ in range(700):
        log_p, log_q, width = _random_outcomes(rng)
        atoms = AtomPair(log_p, log_q, 0.0, bool(rng.integers(2)))
        pair = Pair.of_outcomes(atoms)
        tail = 10.0 ** -float(rng.choice([8, 30, 250]))
        upper = upper_pmf(pair, Grid(width), tail)
        lower = lower_pmf(pair, Grid(width), tail)
        told += bool(lower.masses.any())
        for epsilon in np.concatenate((atoms.losses, upper.losses[:50] - 1e-9)):
            gains = -np.expm1(np.minimum(epsilon - atoms.losses, 0.0))
            truth = float((atoms.masses * gains).sum())
            assert _hockey(upper, epsilon - upper.slack) >= truth * (1 - 1e-11)
            assert _hockey(lower, epsilon + lower.slack) <= truth * (1 + 1e-11)
    assert told > 140


@for_each("bad", [-1e-5, math.nan, math.inf])
def test_a_law_holds_masses_only(bad: float) -> None:
    """At noise 1e-8 the grid is finer than the losses' digits, and masses came out below 0."""
    with pytest.raises(FloatingPointError):
        LossPmf(Grid(0.1, 0.0), 0, np.array([0.5, bad]), 0.0, 0.0)
