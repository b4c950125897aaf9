"""Random contributions: integrated directly, on the line and in the plane, and their laws."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.arrays import FloatArray
from privplan.accountant.composition import Composition
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.events.contributions import distribution, several
from privplan.accountant.sensitivity.silos import unit_in_silos

from ..cases import for_each

Amounts = dict[float, float]
RELATIONS = ("add-remove", "zero-out", "replace-one")
CASES = [
    ev.GaussianMixture(1.0, [1.0, 2.5], [0.25, 0.5]),
    ev.GaussianMixture(2.0, [0.3, 1.0, 4.0], [0.2, 0.1, 0.01]),
    ev.GaussianMixture(0.7, [0.5, 1.0], [0.4, 0.6]),
]


def log_ratio(amounts: Amounts, noise: float, x: FloatArray | float) -> FloatArray:
    """Return log sum_i w_i N(c_i)(x) / N(0)(x)."""
    terms = [math.log(w) + c * (np.asarray(x) - c / 2.0) / noise**2 for c, w in amounts.items()]
    return np.asarray(logsumexp(terms, axis=0))


def stick(event: ev.GaussianMixture, epsilon: float, neighbours: str, reverse: bool) -> float:
    """Return the hockey stick of the pair on the line, by where its likelihood ratio is crossed."""
    amounts, noise = distribution(event), event.noise_multiplier
    mirrored = neighbours == "replace-one"

    def loss(x: float) -> float:
        other = log_ratio(amounts, noise, -x) if mirrored else 0.0
        return float(log_ratio(amounts, noise, x) - other)

    def tail(x: float, sign: float) -> float:
        return sum(w * float(norm.sf((x - sign * c) / noise)) for c, w in amounts.items())

    level = -epsilon if reverse else epsilon
    if not loss(-60.0) < level:
        return 0.0 if reverse else 1.0 - math.exp(epsilon)
    x = brentq(lambda y: loss(y) - level, -60.0, 60.0)
    up, down = tail(x, 1.0), tail(x, -1.0) if mirrored else float(norm.sf(x / noise))
    if reverse:
        return (1.0 - down) - math.exp(epsilon) * (1.0 - up)
    return up - math.exp(epsilon) * down


@for_each("neighbours", RELATIONS)
@for_each("event", CASES)
@for_each("epsilon", [0.1, 3.0])
def test_one_release_has_the_delta_of_its_pair(
    event: ev.GaussianMixture, epsilon: float, neighbours: str
) -> None:
    truth = max(stick(event, epsilon, neighbours, reverse) for reverse in (False, True))
    delta = pp.account(event, epsilon=epsilon, neighbours=neighbours, engine="pld").delta
    assert delta.lower <= truth * (1.0 + 1e-9)
    assert truth <= delta.upper * (1.0 + 1e-9)
    assert delta.upper - delta.lower <= 2e-3 * truth + 1e-12


@functools.cache
def delta_of(event: ev.GaussianMixture, epsilon: float, neighbours: str) -> float:
    return pp.account(event, epsilon=epsilon, neighbours=neighbours, engine="pld").delta.upper


@for_each("seed", range(10))
def test_no_directions_of_vectors_exceed_the_line(seed: int) -> None:
    """P = sum_i w_i N(v_i) in the plane with |v_i| <= c_i, others moving B, too: on a grid."""
    random = np.random.default_rng([7, seed])
    event = CASES[seed % 2]
    amounts, noise = distribution(event), event.noise_multiplier
    span = np.linspace(-9.0, 9.0, 241)
    cell = (span[1] - span[0]) ** 2
    x, y = np.meshgrid(span, span)

    def density(centre: FloatArray) -> FloatArray:
        squares = (x - centre[0]) ** 2 + (y - centre[1]) ** 2
        return np.asarray(np.exp(-squares / (2.0 * noise**2)) / (2.0 * math.pi * noise**2))

    def unit(moved: bool) -> FloatArray:
        total = np.zeros_like(x)
        for amount, weight in amounts.items():
            # Each amount may come in several directions, and shorter.
            for _ in range(2):
                angle, length = random.uniform(0.0, 2.0 * math.pi), amount * random.uniform(0.8, 1)
                centre = length * np.array([math.cos(angle), math.sin(angle)]) * moved
                total += 0.5 * weight * density(centre)
        return total

    for neighbours in ("add-remove", "replace-one"):
        p, q = unit(True), unit(neighbours == "replace-one")
        for epsilon in (0.0, 0.5, 2.0):
            seen = max(
                float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * cell)
                for a, b in ((p, q), (q, p))
            )
            assert seen <= delta_of(event, epsilon, neighbours) + 1e-6


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("event", CASES)
def test_renyi_curves(event: ev.GaussianMixture, neighbours: str) -> None:
    amounts, noise = distribution(event), event.noise_multiplier
    x = np.linspace(-80.0, 120.0, 100_001)
    base = norm.logpdf(x / noise) - math.log(noise)
    up = log_ratio(amounts, noise, x) + base
    down = log_ratio(amounts, noise, -x) + base if neighbours == "replace-one" else base
    ours = curve(event, neighbours)  # type: ignore[arg-type]
    orders = np.array([1.5, 2.0, 4.3, 9.0])
    for order, value in zip(orders, ours.at(orders), strict=True):
        truth = max(
            float(logsumexp(order * a + (1.0 - order) * b + math.log(x[1] - x[0]))) / (order - 1.0)
            for a, b in ((up, down), (down, up))
        )
        assert truth * (1.0 - 1e-9) <= value <= truth * (1.0 + 1e-6)


def test_high_orders_of_renyi_curves_are_those_of_a_seen_amount() -> None:
    event = CASES[0]
    order = np.array([1e6])
    largest = 2.5**2 / 2.0 * 1e6
    assert float(curve(event, "add-remove").at(order)[0]) == pytest.approx(largest, rel=1e-5)


def test_engines_agree() -> None:
    run = ev.Repeat(20, ev.GaussianMixture(4.0, [1.0, 3.0], [0.1, 0.05]))
    for neighbours in RELATIONS:
        pld, rdp = (
            pp.account(run, delta=1e-6, neighbours=neighbours, engine=engine).epsilon
            for engine in ("pld", "rdp")
        )
        assert pld.lower <= pld.upper <= rdp.upper <= 1.8 * pld.upper


def test_simpler_events() -> None:
    assert Composition.of(ev.GaussianMixture(2.0, [4.0], [1.0]))[0].event == ev.Gaussian(0.5)
    sampled = Composition.of(ev.GaussianMixture(2.0, [0.0, 4.0], [0.5, 0.25]))[0].event
    assert sampled == ev.Poisson(0.25, ev.Gaussian(0.5))
    assert Composition.of(ev.GaussianMixture(2.0, [0.0], [1.0])) == ()
    assert Composition.of(ev.Poisson(0.0, CASES[0])) == ()
    # All there is: what rounding leaves of 1 is not a probability of nothing.
    whole = ev.GaussianMixture(1.0, [1.0, 2.0, 3.0], [0.1, 0.2, 0.7])
    assert min(distribution(whole)) == 1.0


def test_binomial_amounts_are_a_group() -> None:
    weights = [math.comb(3, j) * 0.2**j * 0.8 ** (3 - j) for j in range(4)]
    mixture = ev.GaussianMixture(1.5, [0.0, 1.0, 2.0, 3.0], weights)
    group = ev.Group(3, ev.Poisson(0.2, ev.Gaussian(1.5)))
    for neighbours in RELATIONS:
        ours, theirs = (
            pp.account(ev.Repeat(7, event), delta=1e-6, neighbours=neighbours, engine="pld").epsilon
            for event in (mixture, group)
        )
        assert ours.upper == pytest.approx(theirs.upper, rel=1e-6)
        assert ours.lower == pytest.approx(theirs.lower, rel=1e-4)


def test_a_sample_of_a_mixture_is_a_mixture() -> None:
    (leaf,) = Composition.of(ev.Poisson(0.5, ev.GaussianMixture(1.0, [1.0, 2.0], [0.5, 0.25])))
    assert leaf.event == ev.GaussianMixture(1.0, [1.0, 2.0], [0.25, 0.125])
    tiny = Composition.of(ev.Poisson(1e-200, ev.GaussianMixture(1.0, [1.0, 2.0], [1e-200, 0.5])))[
        0
    ].event
    assert isinstance(tiny, ev.GaussianMixture)
    assert min(tiny.probabilities) > 0.0
    assert pp.account(tiny, delta=1e-9).epsilon.upper == 0.0


def test_more_contributed_more_often_loses_more() -> None:
    def upper(contributions: list[float], probabilities: list[float]) -> float:
        event = ev.GaussianMixture(1.0, contributions, probabilities)
        return pp.account(event, delta=1e-6).epsilon.upper

    base = upper([1.0, 2.0], [0.3, 0.1])
    assert base < upper([1.0, 2.0], [0.3, 0.2]) < upper([1.0, 2.5], [0.3, 0.2])
    assert upper([1.0, 2.0], [0.4, 0.1]) > base


def test_several_records_add_up() -> None:
    each = ev.GaussianMixture(1.0, [1.0, 3.0], [0.5, 0.25])
    sums: dict[float, float] = {}
    for drawn in itertools.product(distribution(each).items(), repeat=3):
        total = sum(amount for amount, _ in drawn)
        sums[total] = sums.get(total, 0.0) + math.prod(share for _, share in drawn)
    together = distribution(several(3, each))
    assert together == pytest.approx(sums, rel=1e-12)
    (leaf,) = Composition.of(ev.Group(3, each))
    assert isinstance(leaf.event, ev.GaussianMixture)
    assert distribution(leaf.event) == pytest.approx(sums, rel=1e-12)


@for_each(
    "event",
    [
        ev.GaussianMixture(1.0, [1e-8, 1.0], [0.5, 0.25]),
        ev.GaussianMixture(1e6, [1.0, 2.0], [0.5, 0.25]),
        ev.GaussianMixture(1.0, [1.0, 100.0], [0.5, 1e-7]),
        ev.GaussianMixture(0.05, [1.0, 1.0 + 1e-12], [0.5, 0.25]),
        ev.GaussianMixture(1.0, [1.0, 2.0], [1e-120, 1e-3]),
        ev.GaussianMixture(1.0, [1.0, 2.0], [0.5, 0.5 - 1e-9]),
    ],
)
def test_extreme_mixtures_have_bounds(event: ev.GaussianMixture) -> None:
    for neighbours in RELATIONS:
        bounds = pp.account(event, delta=1e-6, neighbours=neighbours, engine="pld").epsilon
        assert 0.0 <= bounds.lower <= bounds.upper < math.inf
        if event.noise_multiplier == 1.0 and max(event.contributions) < 50.0:
            truth = max(stick(event, bounds.upper, neighbours, way) for way in (False, True))
            assert truth <= 1e-6 * (1.0 + 1e-9)


@for_each("neighbours", RELATIONS)
def test_a_unit_in_several_silos(neighbours: str) -> None:
    """Every set of silos that may join, one by one."""
    contributions, rates = (0.5, 1.0, 0.25), (0.9, 0.3, 0.5)
    event = unit_in_silos(1.0, contributions, rates)
    subsets: list[tuple[float, float]] = []
    for joined in itertools.product((False, True), repeat=3):
        moved = sum(c for c, j in zip(contributions, joined, strict=True) if j)
        share = math.prod(q if j else 1.0 - q for q, j in zip(rates, joined, strict=True))
        subsets.append((moved, share))
    x = np.linspace(-12.0, 12.0, 200_001)
    width = x[1] - x[0]
    p = sum(share * norm.pdf(x - moved) for moved, share in subsets)
    q = norm.pdf(x)
    if neighbours == "replace-one":
        q = sum(share * norm.pdf(x + moved) for moved, share in subsets)
    for epsilon in (0.2, 1.0, 2.5):
        truth = max(
            float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * width)
            for a, b in ((p, q), (q, p))
        )
        delta = pp.account(event, epsilon=epsilon, neighbours=neighbours, engine="pld").delta
        assert delta.lower - 1e-7 <= truth <= delta.upper + 1e-7
        assert delta.upper <= truth * 1.01 + 1e-7


def test_equal_silos_are_a_group() -> None:
    event = unit_in_silos(2.0, [0.5] * 4, [0.3] * 4)
    assert event == unit_in_silos(2.0, np.full(4, 0.5), np.full(4, 0.3))
    group = ev.Group(4, ev.Poisson(0.3, ev.Gaussian(4.0)))
    ours, theirs = (pp.account(each, delta=1e-5).epsilon for each in (event, group))
    assert ours.upper == pytest.approx(theirs.upper, rel=1e-6)


def test_silos_that_always_join_add_up_and_others_do_not() -> None:
    (leaf,) = Composition.of(unit_in_silos(2.0, [1.0, 0.5, 7.0], [1.0, 1.0, 0.0]))
    assert leaf.event == ev.Gaussian(2.0 / 1.5)
    assert Composition.of(unit_in_silos(2.0, [0.0, 7.0], [1.0, 0.0])) == ()


def test_silos_that_do_not_fit() -> None:
    with pytest.raises(InvalidInput, match="as many"):
        unit_in_silos(1.0, [1.0], [0.5, 0.5])
    with pytest.raises(InvalidInput, match=r"rates\[0\]"):
        unit_in_silos(1.0, [1.0], [1.5])
    primes = [math.sqrt(n) for n in range(2, 30)]
    with pytest.raises(Unsupported, match="different amounts"):
        unit_in_silos(1.0, primes, [0.5] * len(primes))
