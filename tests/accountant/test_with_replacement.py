"""Draws with replacement: every data set of few units, vectors, a published bound, and laws."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, laplace, norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.amplification.occurrences import OccurrenceCounts, presence
from privplan.accountant.arrays import FloatArray
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.compose.directions import participation
from privplan.accountant.errors import Unsupported
from privplan.accountant.guarantee import Bounds

from ..cases import for_each

RELATIONS = ("add-remove", "zero-out", "replace-one")
X = np.linspace(-14.0, 14.0, 5_601)
WIDTH = float(X[1] - X[0])
VALUES = (-1.0, 0.0, 1.0)

Units = tuple[float, ...]


@cache
def density(noise: str, centre: float) -> FloatArray:
    return np.asarray((norm if noise == "gaussian" else laplace).pdf(X - centre))


@cache
def output(units: Units, batch: int, noise: str) -> FloatArray:
    """Return the density on `X` of the noisy sum of draws, by every sequence of draws."""
    sums = Counter(sum(drawn) for drawn in itertools.product(units, repeat=batch))
    total = len(units) ** batch
    return np.asarray(sum(n / total * density(noise, centre) for centre, n in sums.items()))


def neighbouring(others: Units, neighbours: str) -> Iterator[tuple[Units, Units]]:
    for value in VALUES:
        with_it = (*others, value)
        if neighbours == "add-remove":
            yield with_it, others
        elif neighbours == "zero-out":
            yield with_it, (*others, 0.0)
        else:
            yield from ((with_it, (*others, other)) for other in VALUES)


def sticks(p: FloatArray, q: FloatArray, epsilons: Sequence[float]) -> FloatArray:
    """Return the larger hockey stick of both directions at each epsilon."""
    orders = np.exp(np.asarray(epsilons))[:, None]
    forth, back = (np.maximum(a - orders * b, 0.0).sum(axis=1) for a, b in ((p, q), (q, p)))
    return np.maximum(forth, back) * WIDTH


def worst(
    batch: int, population: int, neighbours: str, noise: str, epsilons: Sequence[float]
) -> FloatArray:
    """Return the largest hockey sticks of all data sets with values -1, 0 and 1."""
    return np.max(
        [
            sticks(output(one, batch, noise), output(other, batch, noise), epsilons)
            for others in itertools.combinations_with_replacement(VALUES, population - 1)
            for one, other in neighbouring(others, neighbours)
        ],
        axis=0,
    )


def event_of(noise: str, batch: int, population: int, scale: float = 1.0) -> ev.Event:
    inner = ev.Gaussian(scale) if noise == "gaussian" else ev.Laplace(scale)
    return ev.WithReplacement(batch, population, inner)


@cache
def delta_of(event: ev.Event, epsilon: float, neighbours: str) -> Bounds:
    return pp.account(event, epsilon=epsilon, neighbours=neighbours).delta


@for_each("neighbours", RELATIONS)
@for_each(
    ("noise", "batch", "population"),
    [("laplace", 1, 2), ("gaussian", 3, 2), ("gaussian", 2, 3), ("laplace", 2, 4)],
)
def test_no_data_set_exceeds_the_upper_end(
    batch: int, population: int, noise: str, neighbours: str
) -> None:
    event, epsilons = event_of(noise, batch, population), (0.0, 1.2)
    for epsilon, truth in zip(
        epsilons, worst(batch, population, neighbours, noise, epsilons), strict=True
    ):
        delta = delta_of(event, epsilon, neighbours)
        assert truth <= delta.upper + 2e-4
        assert delta.lower <= truth + 2e-4  # that is the rule's error at the edges of Laplace noise
        if neighbours == "add-remove":
            assert delta.upper <= truth + 4e-4
        elif neighbours == "replace-one":
            assert delta.upper <= 1.12 * truth + 4e-4
        else:  # the upper end may be loose, but a unit at 0 is one that replaces it
            assert delta.lower >= truth - 4e-4
            replaced = delta_of(event, epsilon, "replace-one")
            assert delta.upper <= replaced.upper


@for_each("seed", range(6))
def test_no_vectors_exceed_the_upper_end(seed: int) -> None:
    """Three units in the plane, two draws, replaced or zeroed: on a grid."""
    random = np.random.default_rng([11, seed])
    span = np.linspace(-7.0, 7.0, 141)
    cell = (span[1] - span[0]) ** 2
    x, y = np.meshgrid(span, span)

    def release(units: list[FloatArray]) -> FloatArray:
        total = np.zeros_like(x)
        for one, other in itertools.product(units, repeat=2):
            centre = one + other
            squares = (x - centre[0]) ** 2 + (y - centre[1]) ** 2
            total += np.exp(-squares / 2.0) / (2.0 * math.pi * 9.0)
        return total

    angles = random.uniform(0.0, 2.0 * math.pi, 4)
    lengths = random.choice([1.0, 1.0, 0.6], 4)
    first, second, old, new = (
        length * np.array([math.cos(a), math.sin(a)])
        for a, length in zip(angles, lengths, strict=True)
    )
    for neighbours, changed in (("replace-one", new), ("zero-out", np.zeros(2))):
        p, q = release([first, second, old]), release([first, second, changed])
        for epsilon in (0.0, 1.2):
            seen = max(
                float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * cell)
                for a, b in ((p, q), (q, p))
            )
            event = event_of("gaussian", 2, 3)
            assert seen <= delta_of(event, epsilon, neighbours).upper


def test_the_published_bound_is_never_below_ours() -> None:
    """Theorem 10 of Balle, Barthe and Gaboardi 2018, with the Gaussian's own group profiles."""
    epsilon = 0.3
    batch, population, noise = 20, 100, 2.0
    drawn = 1.0 - (1.0 - 1.0 / population) ** batch
    # Their epsilon' for epsilon: log(1 + drawn (e^eps - 1)), so theirs here is larger.
    inner = math.log1p(math.expm1(epsilon) / drawn)

    def gaussian(moved: float) -> float:
        mu = moved / noise
        tail = norm.cdf(mu / 2.0 - inner / mu) - math.exp(inner) * norm.cdf(-mu / 2.0 - inner / mu)
        return float(tail)

    published = sum(
        float(binom.pmf(j, batch, 1.0 / population)) * gaussian(2.0 * j)
        for j in range(1, batch + 1)
    )
    event = ev.WithReplacement(batch, population, ev.Gaussian(noise))
    delta = pp.account(event, epsilon=epsilon, neighbours="replace-one").delta
    assert delta.upper <= published * (1.0 + 1e-9)
    assert published <= 1.5 * delta.upper


@for_each("neighbours", RELATIONS)
def test_renyi_curves_are_never_below_an_attained_pair(neighbours: str) -> None:
    from privplan.accountant.engines.rdp.curves import curve

    batch, population, noise = 3, 5, 2.0
    weights = binom.pmf(np.arange(batch + 1), batch, 1.0 / population)
    x = np.linspace(-60.0, 90.0, 60_001)

    def moved(step: float) -> FloatArray:
        logs = [math.log(w) + norm.logpdf((x - step * j) / noise) for j, w in enumerate(weights)]
        return np.asarray(logsumexp(logs, axis=0) - math.log(noise))

    p, q = moved(2.0), moved(1.0 if neighbours == "zero-out" else 0.0)
    event = ev.WithReplacement(batch, population, ev.Gaussian(noise))
    orders = np.array([1.5, 3.0, 8.0])
    for order, value in zip(orders, curve(event, neighbours).at(orders), strict=True):  # type: ignore[arg-type]
        truth = max(
            float(logsumexp(order * a + (1.0 - order) * b) + math.log(x[1] - x[0])) / (order - 1.0)
            for a, b in ((p, q), (q, p))
        )
        assert truth <= value * (1.0 + 1e-6)
        if neighbours == "replace-one":
            assert value <= 4.0 * truth
        if neighbours == "add-remove":
            assert value <= truth * (1.0 + 1e-4)


@for_each("neighbours", RELATIONS)
@for_each("inner", [ev.Gaussian(2.0), ev.Laplace(3.0), ev.DiscreteGaussian(2.0, 2)])
def test_one_draw_is_a_fixed_size_of_one(inner: ev.Event, neighbours: str) -> None:
    ours, fixed = (
        pp.account(ev.Repeat(3, event), delta=1e-5, neighbours=neighbours).epsilon
        for event in (ev.WithReplacement(1, 10, inner), ev.FixedSize(1, 10, inner))
    )
    assert ours.upper == pytest.approx(fixed.upper, rel=1e-3)
    assert ours.lower <= fixed.upper
    assert fixed.lower <= ours.upper


@for_each("neighbours", ["zero-out", "replace-one"])
def test_the_only_unit_is_always_drawn(neighbours: str) -> None:
    event = ev.WithReplacement(4, 1, ev.Gaussian(8.0))
    ours, group = (
        pp.account(each, delta=1e-6, neighbours=neighbours).epsilon
        for each in (event, ev.Group(4, ev.Gaussian(8.0)))
    )
    assert ours.upper == pytest.approx(group.upper, rel=1e-3)
    assert ours.lower == pytest.approx(group.lower, rel=1e-3)


@for_each("neighbours", RELATIONS)
def test_two_of_four_records_are_one_of_two_units(neighbours: str) -> None:
    """By every data set of four, two of which come, go to 0, or are replaced together."""
    group = ev.Group(2, ev.WithReplacement(2, 4, ev.Gaussian(1.0)))
    pairs = list(itertools.combinations_with_replacement(VALUES, 2))
    changed: dict[str, list[Units]] = {
        "add-remove": [()],
        "zero-out": [(0.0, 0.0)],
        "replace-one": pairs,
    }
    truths = np.max(
        [
            sticks(
                output((*others, *old), 2, "gaussian"),
                output((*others, *new), 2, "gaussian"),
                (0.0, 0.8),
            )
            for others, old, new in itertools.product(pairs, pairs, changed[neighbours])
        ],
        axis=0,
    )
    for epsilon, truth in zip((0.0, 0.8), truths, strict=True):
        delta = pp.account(group, epsilon=epsilon, neighbours=neighbours).delta
        assert delta.lower <= truth + 1e-6
        assert truth <= delta.upper + 1e-6
        assert delta.upper <= 1.2 * truth


def test_a_group_that_does_not_divide_the_population() -> None:
    def group(population: int) -> ev.Event:
        return ev.Group(3, ev.WithReplacement(2, population, ev.Gaussian(4.0)))

    for neighbours in ("add-remove", "replace-one"):
        upper = pp.account(group(10), delta=1e-5, neighbours=neighbours).epsilon.upper
        assert upper >= pp.account(group(12), delta=1e-5, neighbours=neighbours).epsilon.lower
    assert participation(Composition.of(group(10))) >= 1.0 - 0.7**2
    for event in (group(3), ev.WithReplacement(4, 1, ev.Gaussian(8.0))):
        with pytest.raises(Unsupported, match="cannot be made"):  # nobody else is left to draw
            pp.account(event, delta=1e-5)


@for_each("neighbours", ["add-remove", "replace-one"])
def test_more_draws_of_fewer_units_lose_more(neighbours: str) -> None:
    def upper(batch: int, population: int) -> float:
        event = ev.Repeat(10, ev.WithReplacement(batch, population, ev.Gaussian(2.0)))
        return pp.account(event, delta=1e-6, neighbours=neighbours).epsilon.upper

    assert upper(10, 1000) < upper(20, 1000) < upper(20, 500)


@for_each("neighbours", RELATIONS)
@for_each("inner", [ev.Gaussian(1.0), ev.Laplace(1.0), ev.DiscreteLaplace(1.0, 3), ev.Pure(0.5)])
def test_engines_agree(inner: ev.Event, neighbours: str) -> None:
    event = ev.WithReplacement(5, 200, inner)
    pld, rdp = (
        pp.account(event, delta=1e-5, neighbours=neighbours, engine=engine).epsilon
        for engine in ("pld", "rdp")
    )
    assert 0.0 <= pld.lower <= pld.upper <= rdp.upper


@for_each("neighbours", RELATIONS)
def test_both_ends_are_close_in_a_usual_run(neighbours: str) -> None:
    run = ev.Repeat(1000, ev.WithReplacement(256, 60_000, ev.Gaussian(1.1)))
    bounds = pp.account(run, delta=1e-5, neighbours=neighbours).epsilon
    assert bounds.lower <= bounds.upper <= 1.06 * bounds.lower


def test_at_delta_zero() -> None:
    event = ev.WithReplacement(3, 10, ev.Laplace(1.0))
    largest = math.log(sum(binom.pmf(j, 3, 0.1) * math.exp(2.0 * j) for j in range(4)))
    bounds = pp.account(event, delta=0.0).epsilon
    assert bounds.lower <= largest * (1.0 + 1e-12)
    assert largest <= bounds.upper * (1.0 + 1e-12)
    assert bounds.upper <= largest * (1.0 + 1e-9)
    # No more is shown than by a batch that is all the unit; others at -1 show as much as above.
    single = math.log(sum(binom.pmf(j, 3, 0.1) * math.exp(j) for j in range(4)))
    for neighbours, attained, whole in (
        ("zero-out", largest - single, 3.0),
        ("replace-one", largest, 6.0),
    ):
        upper = pp.account(event, delta=0.0, neighbours=neighbours).epsilon.upper
        assert attained <= upper <= whole * (1.0 + 1e-14)


def test_a_wide_gap_is_explained() -> None:
    guarantee = pp.account(ev.WithReplacement(3, 10, ev.Pure(1.0)), delta=1e-5)
    assert any("draws with replacement" in warning for warning in guarantee.warnings)


@for_each(
    ("batch", "population"), [(1, 2), (24, 3), (25, 3), (1000, 10**6), (5000, 100), (10**5, 3)]
)
def test_numbers_of_occurrences(batch: int, population: int) -> None:
    counts = OccurrenceCounts.of(batch, population)
    rate = 1.0 / population
    assert counts.absent == pytest.approx(float(binom.pmf(0, batch, rate)), rel=1e-9)
    # Never fewer occurrences: at each listed number the rest is at least as likely as it is.
    rest = np.append(np.cumsum(counts.weights[::-1])[::-1][1:], 0.0) + counts.tail
    truth = binom.sf(counts.numbers, batch, rate)
    assert np.all(rest >= truth * (1.0 - 1e-12) - 1e-22)
    total = float(counts.weights.sum()) + counts.tail
    assert presence(batch, population) <= total <= presence(batch, population) * (1.0 + 1e-8)
    assert counts.numbers.size <= 24


def test_draws_of_what_is_sampled_are_refused() -> None:
    for inner in (ev.Poisson(0.1, ev.Gaussian(1.0)), ev.Shuffle(10, ev.Local(1.0))):
        with pytest.raises(Unsupported):
            pp.account(ev.WithReplacement(3, 10, inner), delta=1e-5)


@for_each("neighbours", RELATIONS)
def test_draws_of_what_varies_are_refused_with_what_bounds_them(neighbours: str) -> None:
    mixture = ev.GaussianMixture(1.0, [1.0, 0.5], [0.5, 0.3])
    with pytest.raises(Unsupported) as caught:
        pp.account(ev.WithReplacement(3, 10, mixture), delta=1e-5, neighbours=neighbours)
    assert "draws with replacement of `gaussian-mixture`" in caught.value.what
    assert "fixed-size" not in str(caught.value)
    assert "Put `gaussian` in its place" in caught.value.next_step
    # One certain amount is the Gaussian itself.
    certain = ev.WithReplacement(3, 10, ev.GaussianMixture(1.0, [0.5], [1.0]))
    plain = ev.WithReplacement(3, 10, ev.Gaussian(2.0))
    assert pp.account(certain, delta=1e-5) == pp.account(plain, delta=1e-5)
