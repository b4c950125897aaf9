"""Several releases on one sample: enumerated, and beside single releases for every sampler."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.arrays import FloatArray
from privplan.accountant.composition import Composition
from privplan.accountant.errors import Unsupported
from tests.sweeps import sweep

from ..cases import for_each

RELATIONS = ("add-remove", "zero-out", "replace-one")
EPSILONS = (0.3, 1.0, 3.0)
REACH = 70  # beyond, geometric noise of scale 2 leaves e^-35

Units = tuple[int, ...]
Drawn = Callable[[Units], Counter[int]]


def with_replacement(batch: int) -> Drawn:
    return lambda units: Counter(sum(each) for each in itertools.product(units, repeat=batch))


def fixed_size(batch: int) -> Drawn:
    return lambda units: Counter(sum(each) for each in itertools.combinations(units, batch))


@cache
def outputs(sums: frozenset[tuple[int, int]], scales: tuple[float, float]) -> FloatArray:
    """Return the probabilities of two counts of one batch, each under geometric noise."""
    values = np.arange(-REACH, REACH + 1)
    total = sum(times for _, times in sums)
    joint = np.zeros((values.size, values.size))
    for centre, times in sums:
        first, second = (np.exp(-np.abs(values - centre) / scale) for scale in scales)
        joint += times / total * np.outer(first / first.sum(), second / second.sum())
    return joint


def worst(
    drawn: Drawn, others: int, scales: tuple[float, float], values: Units, relation: str
) -> list[float]:
    """Return the largest hockey stick at each epsilon, of all data sets of these values."""
    pairs = set()
    for rest in itertools.combinations_with_replacement(values, others):
        for old, new in itertools.product(values, repeat=2):
            changed = {"add-remove": rest, "zero-out": (*rest, 0), "replace-one": (*rest, new)}
            pairs.add(
                tuple(
                    frozenset(drawn(units).items()) for units in ((*rest, old), changed[relation])
                )
            )
    largest = [0.0] * len(EPSILONS)
    for one, other in pairs:
        p, q = outputs(one, scales), outputs(other, scales)
        for index, epsilon in enumerate(EPSILONS):
            for a, b in ((p, q), (q, p)):
                stick = float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())
                largest[index] = max(largest[index], stick)
    return largest


SHARED = [
    # What is released, its geometric scales, and the values of the units for which it is that.
    (ev.Repeat(2, ev.Pure(0.5)), (2.0, 2.0), {"replace-one": (0, 1)}),
    (ev.Compose([ev.Pure(1.0), ev.Pure(0.5)]), (1.0, 2.0), {"replace-one": (0, 1)}),
    (ev.Repeat(2, ev.DiscreteLaplace(2.0, 1)), (2.0, 2.0), {}),
    (ev.Compose([ev.DiscreteLaplace(2.0, 1), ev.DiscreteLaplace(1.5, 1)]), (2.0, 1.5), {}),
    (ev.BestOf("fixed", 2.0, ev.DiscreteLaplace(2.0, 1)), (2.0, 2.0), {}),
    (ev.Compose([ev.DiscreteLaplace(2.0, 1), ev.Pure(0.5)]), (2.0, 2.0), {"replace-one": (0, 1)}),
]


@for_each("relation", RELATIONS)
@for_each(("inner", "scales", "ranges"), SHARED)
@for_each(
    ("event", "drawn"),
    [
        (lambda inner: ev.WithReplacement(2, 3, inner), with_replacement(2)),
        (lambda inner: ev.WithReplacement(2, 1, inner), with_replacement(2)),
        (lambda inner: ev.FixedSize(2, 3, inner), fixed_size(2)),
    ],
)
def test_no_data_set_exceeds_what_is_said_of_all_releases_together(
    event: Callable[[ev.Event], ev.Event],
    drawn: Drawn,
    inner: ev.Event,
    scales: tuple[float, float],
    ranges: dict[str, Units],
    relation: str,
) -> None:
    sampled = event(inner)
    if relation == "add-remove" and sampled.population == 1:  # type: ignore[attr-defined]
        pytest.skip("nobody is left to draw")
    values = ranges.get(relation, (-1, 0, 1))
    truths = worst(drawn, sampled.population - 1, scales, values, relation)  # type: ignore[attr-defined]
    for epsilon, truth in zip(EPSILONS, truths, strict=True):
        for engine in (None, "rdp"):
            delta = pp.account(sampled, epsilon=epsilon, neighbours=relation, engine=engine).delta
            assert delta.lower <= truth * (1.0 + 1e-9)
            assert truth <= delta.upper * (1.0 + 1e-9)


def test_one_release_of_several_is_not_enough() -> None:
    """The enumeration above would show a count that is forgotten."""
    single = pp.account(
        ev.WithReplacement(1, 2, ev.DiscreteLaplace(2.0, 1)), epsilon=0.3, neighbours="replace-one"
    )
    together = worst(with_replacement(1), 1, (2.0, 2.0), (-1, 0, 1), "replace-one")
    assert together[0] > 1.5 * single.delta.upper


@for_each(("rounds", "relation"), [(2, "add-remove"), (20, "zero-out"), (3, "replace-one")])
def test_gaussians_on_one_batch_are_one_gaussian(rounds: int, relation: str) -> None:
    joint = ev.Gaussian(2.0 / math.sqrt(rounds))
    for sampler in SAMPLERS.values():
        repeated, single = (
            pp.account(sampler(inner), delta=1e-5, neighbours=relation).epsilon
            for inner in (ev.Repeat(rounds, ev.Gaussian(2.0)), joint)
        )
        assert repeated.upper == pytest.approx(single.upper, rel=1e-9)
        assert repeated.lower == pytest.approx(single.lower, rel=1e-9)


SAMPLERS: dict[str, Callable[[ev.Event], ev.Event]] = {
    "with-replacement": lambda inner: ev.WithReplacement(2, 10, inner),
    "fixed-size": lambda inner: ev.FixedSize(2, 10, inner),
    "truncated-poisson": lambda inner: ev.TruncatedPoisson(0.2, 2, 10, inner),
    "poisson": lambda inner: ev.Poisson(0.2, inner),
    "client-sampled": lambda inner: ev.ClientSampled(0.2, inner),
    "shuffled-batches": lambda inner: ev.ShuffledBatches(3, inner),
    "random-allocation": lambda inner: ev.RandomAllocation(4, 2, inner),
}
OTHER_WRAPPERS: dict[str, Callable[[ev.Event], ev.Event]] = {
    "only-unit": lambda inner: ev.WithReplacement(2, 1, inner),
    "all-units": lambda inner: ev.FixedSize(10, 10, inner),
    "shuffle": lambda inner: ev.Shuffle(50, inner),
    "geometric": lambda inner: ev.BestOf("geometric", 3.0, inner),
    "poisson-runs": lambda inner: ev.BestOf("poisson", 3.0, inner),
    "group-of-draws": lambda inner: ev.Group(3, ev.WithReplacement(2, 10, inner)),
    "epoch-of-draws": lambda inner: ev.ShuffledBatches(3, ev.WithReplacement(2, 10, inner)),
    "runs-of-draws": lambda inner: ev.BestOf("geometric", 3.0, ev.WithReplacement(2, 9, inner)),
    "clients-draws": lambda inner: ev.ClientSampled(0.2, ev.WithReplacement(2, 10, inner)),
}
WRAPPERS = SAMPLERS | OTHER_WRAPPERS
RELEASES: tuple[ev.Event, ...] = (
    ev.Gaussian(2.0),
    ev.Laplace(2.0),
    ev.DiscreteGaussian(2.0, 1),
    ev.DiscreteLaplace(2.0, 1),
    ev.TruncatedDiscreteGaussian(2.0, 1, 20),
    ev.Pure(0.3),
    ev.Local(0.3),
    ev.Approximate(0.3, 1e-7),
    ev.RandomizedResponse(0.3, 2),
    ev.Exponential(0.3),
    ev.ZCDP(0.05),
    ev.GaussianMixture(2.0, (0.5, 1.0), (0.3, 0.3)),
    ev.TruncatedGeometricSelection(0.3, 1e-7, 2),
    ev.ThresholdSelection("laplace", 4.0, 60.0, 1),
)


def number(event: ev.Event, relation: str, engine: str, delta: float) -> float | None:
    """Return the upper end, None where the engine refuses."""
    try:
        account = pp.account(event, delta=delta, neighbours=relation, engine=engine)
    except Unsupported:
        return None
    return account.epsilon.upper


@for_each("release", RELEASES, ids=lambda release: release.type)
@for_each("name", WRAPPERS)
def test_one_release_is_that_release(name: str, release: ev.Event) -> None:
    wrap = WRAPPERS[name]

    def normal(event: ev.Event) -> object:
        try:
            parts = Composition.of(event)
        except Unsupported as refusal:
            return str(refusal)
        # These stand for themselves, and are taken apart when they are asked about.
        searched = (ev.BestOf, ev.ClientSampled)
        return tuple(
            Composition.of(leaf.event.event) if isinstance(leaf.event, searched) else leaf
            for leaf in parts
        )

    plain = normal(wrap(release))
    assert normal(wrap(ev.Repeat(1, release))) == plain
    assert normal(wrap(ev.Compose([release]))) == plain
    if name != "shuffle":
        assert normal(wrap(ev.BestOf("fixed", 1.0, release))) == plain


CASES = [
    (name, release, RELATIONS[(row + column) % 3])
    for row, name in enumerate(WRAPPERS)
    for column, release in enumerate(RELEASES)
]


@for_each(("name", "release", "relation"), sweep(CASES, quick=15))
def test_more_releases_never_lose_less(name: str, release: ev.Event, relation: str) -> None:
    wrap = WRAPPERS[name]
    for engine, delta in (("rdp", 1e-5), ("pure", 0.0)):
        single = number(wrap(release), relation, engine, delta)
        twice = number(wrap(ev.Repeat(2, release)), relation, engine, delta)
        composed = number(wrap(ev.Compose([release, release])), relation, engine, delta)
        assert composed == twice
        if single is not None and twice is not None:
            assert twice >= single
            if 0.0 < single < math.inf:
                many = number(wrap(ev.Repeat(9, release)), relation, engine, delta)
                assert many is not None
                assert many > single
        # Hidden runs count as all runs do.
        hidden = number(wrap(ev.BestOf("fixed", 2.0, release)), relation, engine, delta)
        assert hidden == (twice if twice is None else pytest.approx(twice, rel=1e-13))


@for_each("name", SAMPLERS)
def test_hidden_runs_attain_nothing(name: str) -> None:
    hidden = SAMPLERS[name](ev.BestOf("fixed", 2.0, ev.Gaussian(2.0)))
    seen = SAMPLERS[name](ev.Repeat(2, ev.Gaussian(2.0)))
    unseen, open_runs = (
        pp.account(event, delta=1e-5, neighbours="replace-one").epsilon for event in (hidden, seen)
    )
    assert unseen.upper == pytest.approx(open_runs.upper, rel=1e-4)
    assert unseen.lower == 0.0 < open_runs.lower


def test_releases_that_no_bound_joins_are_refused_with_what_to_do() -> None:
    inner = ev.Compose([ev.Gaussian(2.0), ev.Pure(1.0)])
    with pytest.raises(Unsupported, match="`gaussian` and `pure`") as refusal:
        pp.account(ev.WithReplacement(2, 10, inner), delta=1e-5)
    assert refusal.value.next_step
    assert (
        pp.account(
            ev.WithReplacement(2, 10, inner), delta=1e-5, neighbours="replace-one"
        ).epsilon.upper
        < math.inf
    )


@for_each("name", [*SAMPLERS, "only-unit", "all-units"])
def test_nothing_on_a_sample(name: str) -> None:
    wrap = WRAPPERS[name]
    for nothing in (
        ev.ClientSampled(0.0, ev.Pure(1.0)),
        ev.GaussianMixture(1.0, [0.0, 1.0], [0.5, 0.0]),
    )[name == "poisson" :]:
        assert Composition.of(wrap(nothing)) == ()
    if name != "client-sampled":
        with pytest.raises(Unsupported, match="empty composition"):
            Composition.of(wrap(ev.Compose([])))


@for_each(
    ("sampler", "relation"),
    [
        (lambda inner: ev.FixedSize(10**17 - 1, 10**17, inner), "add-remove"),
        (lambda inner: ev.FixedSize(10**17 - 1, 10**17, inner), "zero-out"),
        (lambda inner: ev.WithReplacement(200, 2, inner), "replace-one"),
    ],
)
def test_a_rate_that_is_rounded_to_1_forgets_no_release(
    sampler: Callable[[ev.Event], ev.Event], relation: str
) -> None:
    """Nearly all units are drawn: the count with noise 1 alone moves by 2, or by 1 from zero."""
    releases = [ev.DiscreteLaplace(5.0, 1), ev.Pure(1.0), ev.DiscreteLaplace(1.0, 1)]
    moved = 1 if relation == "zero-out" else 2
    values = np.arange(-REACH, REACH + 1)
    p, q = (np.exp(-np.abs(values - centre)) for centre in (moved, 0))
    attained = float(np.maximum(p - math.exp(0.1) * q, 0.0).sum() / q.sum())
    for engine in (None, "rdp", "pld"):
        for composed in (releases, releases[::-1]):
            upper = number_at(sampler(ev.Compose(composed)), relation, engine)
            assert upper is None or upper >= attained * (1.0 - 1e-9)


def number_at(event: ev.Event, relation: str, engine: str | None) -> float | None:
    try:
        return pp.account(event, epsilon=0.1, neighbours=relation, engine=engine).delta.upper
    except Unsupported:
        return None
