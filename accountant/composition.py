"""From a tree of events to the leaves that an engine must understand, each with its count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, TypeGuard

from . import events as ev
from . import validate
from .errors import InvalidInput, Unsupported
from .events import contributions
from .events.parts import events_inside, parts_of

SMALLEST_POSITIVE_RATE: Final = 5e-324
"""The smallest rate above 0."""

MAX_ROUNDS: Final = 10**15
"""Most rounds that are accounted; beyond, a count is surely a mistake."""


_CLASSES: Final = (ev.Pure, ev.Approximate, ev.Local)

_SAMPLERS: Final = (
    ev.FixedSize,
    ev.TruncatedPoisson,
    ev.WithReplacement,
    ev.ShuffledBatches,
    ev.RandomAllocation,
)
"""What draws a sample, other than Poisson sampling, that all releases inside of it share."""

_NOTHING: Final = ev.Compose(())
"""Nothing is released."""

_SHUFFLES: Final = (ev.Shuffle, ev.SampledShuffle)


@dataclass(frozen=True)
class Leaf:
    """One mechanism, and how many times it runs.

    `fully_observed` says whether all that it releases is seen.  Where it is not (the best of
    several runs is), an upper bound still counts it, and a lower bound must leave it out.
    `by_lemma` says that its numbers are those of several records, by the lemma for groups: they
    name a class that holds more than what a chain of such releases can be, so that its worst
    mechanism shows nothing.  `chain` is then the group itself, where that is all of the leaf: the
    pld engine knows what chains of such records can be.  `worst_of_class` asks, of an event that
    names a class of mechanisms (`Pure`, say), for the lower end of the worst of them; without it
    such an event has none.
    """

    event: ev.Event
    count: int
    fully_observed: bool = True
    worst_of_class: bool = False
    by_lemma: bool = False
    chain: ev.Group | None = None


def leaves(event: ev.Event) -> tuple[Leaf, ...]:
    """Return the distinct leaves below `Compose` and `Repeat`, with their total counts.

    A leaf is any other event.  It is put into one normal form: a composition of one release is
    that release, at any depth; `Poisson` of `Poisson` is one
    `Poisson` (a unit survives both draws with the product of the rates); `Poisson` at rate 1 is
    its event; unsampled or jointly sampled Gaussians that are composed under one sample are one
    Gaussian with noise (sum count / noise^2)^(-1/2) (their weighted sum is a sufficient
    statistic), and a composition of one release is that release, under every sampler; a `Group` of
    a composition is the composition of groups (its relation between data sets is one relation,
    whatever is released), and a group of what scales is scaled, see `_grouped`; the best of a
    fixed number of runs is a post-processing of them all.  The order of composition is forgotten:
    no engine here depends on it.

    Raises `Unsupported` for a Poisson sample of any other composition, `InvalidInput` for nesting
    deeper than `MAX_DEPTH` and for more than `MAX_ROUNDS` rounds.

    >>> (leaf,) = leaves(ev.Repeat(3, ev.Compose([ev.Gaussian(1.0), ev.Gaussian(1.0)])))
    >>> leaf.event, leaf.count
    (Gaussian(noise_multiplier=1.0), 6)
    """
    event = rewritten(event, _unwrapped)
    counts = _counts(event, {})
    # No run is that long: a larger count is a mistake.
    total = sum(counts.values())
    if total > MAX_ROUNDS:
        raise InvalidInput(
            f"The event has more than {MAX_ROUNDS:.0e} rounds.",
            next_step="Check the counts of its Repeat events.",
        )
    grown = _grown(event)
    return tuple(_leaf(leaf, count, attained, grown) for (leaf, attained), count in counts.items())


def _leaf(event: ev.Event, count: int, attained: bool, grown: frozenset[ev.Event]) -> Leaf:
    if _is_chain(event):
        return Leaf(by_lemma(event), count, attained, by_lemma=True, chain=event)
    return Leaf(event, count, attained, by_lemma=_grows_inside(event, grown))


def _unwrapped(event: ev.Event) -> ev.Event:
    """Return the release that a composition, a repetition or a group of one is; others as is."""
    match event:
        case ev.Compose(parts):
            kept = tuple(part for part in parts if part != _NOTHING)
            if len(kept) == 1:
                return kept[0]
            return event if len(kept) == len(parts) else ev.Compose(kept)
        case ev.Repeat(1, inner) | ev.Group(1, inner):
            return inner
        case ev.Repeat(_, inner) | ev.Group(_, inner) if inner == _NOTHING:
            return inner
        case _:
            return event


def worst_leaves(event: ev.Event) -> tuple[Leaf, ...]:
    """Return the leaves, with the lower ends of the worst of each class that an event names."""
    return tuple(replace(leaf, worst_of_class=_has_worst(leaf)) for leaf in leaves(event))


def _has_worst(leaf: Leaf) -> bool:
    if leaf.chain is not None:
        return isinstance(leaf.chain.event, _CLASSES)
    return names_class(leaf.event) and not leaf.by_lemma


def names_class(event: ev.Event) -> bool:
    """Return whether an event is known by bare numbers, which a class of mechanisms has."""
    # A client that is seen to take part shows the worst of them, too, and so does a sample, by a
    # mechanism that answers whether the unit is in it.
    if isinstance(event, ev.ClientSampled):
        return any(names_class(leaf.event) for leaf in leaves(event.event))
    inside = isinstance(event, (ev.Shuffle, ev.Poisson, ev.FixedSize))
    return isinstance(event.event if inside else event, _CLASSES)  # type: ignore[attr-defined]


def _grown(event: ev.Event) -> frozenset[ev.Event]:
    """Return the leaves whose bare numbers are those of one record, grown by the lemma."""
    return frozenset(
        by_lemma(leaf) if _is_chain(leaf) else leaf
        for group in events_inside(event)
        if isinstance(group, ev.Group) and group.size > 1
        for leaf, _ in _counts(group, {})
        if isinstance(leaf, _CLASSES) or _is_chain(leaf)
    )


def _grows_inside(leaf: ev.Event, grown: frozenset[ev.Event]) -> bool:
    """Return whether the bare numbers in a leaf are grown, or seen several times by a sampler."""
    inside = events_inside(leaf)
    if any(each in grown for each in inside):
        return True
    grows = any(isinstance(each, (ev.Group, ev.WithReplacement)) for each in inside)
    return grows and any(isinstance(each, (*_CLASSES, ev.RandomizedResponse)) for each in inside)


def unit_of(event: ev.Event) -> str:
    """Return what one unit of an event is: a record, or a group of so many records.

    >>> unit_of(ev.Repeat(3, ev.Group(8, ev.Gaussian(1.0))))
    'group of 8 records'
    """
    sizes = group_sizes(event)
    if len(sizes) > 1:
        return "unit"
    size = max(sizes, default=1)
    return "record" if size == 1 else f"group of {size:,} records"


def observer_of(event: ev.Event) -> str:
    """Return from whom an event hides a unit: whoever sees the model, or the shuffled messages.

    >>> observer_of(ev.Repeat(3, ev.Shuffle(100, ev.Laplace(2.0))))
    'analyzer'
    """
    check_depth(event)
    is_shuffled = any(isinstance(each, _SHUFFLES) for each in events_inside(event))
    return "analyzer" if is_shuffled else "model"


def rewritten(event: ev.Event, rule: Callable[[ev.Event], ev.Event]) -> ev.Event:
    """Return an event with every sub-event, the innermost first, as a rule has it.

    The event itself where the rule changes nothing.
    """
    check_depth(event)
    return _rewritten(event, rule, {})


def _rewritten(
    event: ev.Event, rule: Callable[[ev.Event], ev.Event], results: dict[int, ev.Event]
) -> ev.Event:
    """Return it; `results` holds those of shared sub-events, by identity."""
    if id(event) in results:
        return results[id(event)]
    result = event
    if isinstance(event, ev.Compose):
        parts = tuple(_rewritten(part, rule, results) for part in event.events)
        if any(new is not old for new, old in zip(parts, event.events, strict=True)):
            result = ev.Compose(parts)
    elif isinstance(inner := getattr(event, "event", None), ev.Event):
        new = _rewritten(inner, rule, results)
        result = event if new is inner else replace(event, event=new)  # type: ignore[call-arg]
    results[id(event)] = rule(result)
    return results[id(event)]


def group_sizes(event: ev.Event) -> tuple[int, ...]:
    """Return, ascending, how many records a unit has in the releases of an event."""
    check_depth(event)
    return tuple(sorted(_sizes(event, {})))


def _sizes(event: ev.Event, results: dict[int, frozenset[int]]) -> frozenset[int]:
    """Return how many records a unit has in each release of an event."""
    if id(event) not in results:
        parts = parts_of(event)
        below = frozenset().union(*(_sizes(part, results) for part in parts))
        if isinstance(event, ev.Group):
            below = frozenset(event.size * size for size in below)
        results[id(event)] = below if parts or isinstance(event, ev.Compose) else frozenset({1})
    return results[id(event)]


def check_depth(event: ev.Event) -> None:
    """Raise `InvalidInput` for nesting deeper than `MAX_DEPTH`, before anything walks down it."""
    _descend(event, 0, {})


def _descend(event: ev.Event, depth: int, seen: dict[int, int]) -> None:
    if depth > ev.MAX_DEPTH:
        raise InvalidInput(
            f"The event is nested more than {ev.MAX_DEPTH} levels deep.",
            next_step="Flatten it.",
        )
    if seen.get(id(event), -1) >= depth:
        return
    seen[id(event)] = depth
    for part in parts_of(event):
        _descend(part, depth + 1, seen)


_Counts = dict[tuple[ev.Event, bool], int]


def _counts(event: ev.Event, results: dict[int, _Counts]) -> _Counts:
    """Return leaves with counts; `results` holds those of shared sub-events, by identity."""
    if id(event) in results:
        return results[id(event)]
    counts: _Counts = {}
    for (leaf, attained), count in _inside(event, results):
        counts[leaf, attained] = counts.get((leaf, attained), 0) + count
    results[id(event)] = counts
    return counts


def _inside(
    event: ev.Event, results: dict[int, _Counts]
) -> Iterator[tuple[tuple[ev.Event, bool], int]]:
    """Yield the leaves of an event, with counts; a leaf may come several times."""
    match event:
        case ev.Compose(parts):
            for part in parts:
                yield from _counts(part, results).items()
        case ev.Repeat(rounds, inner):
            for key, count in _counts(inner, results).items():
                yield key, count * rounds
        # One relation between data sets, whatever is released: the group goes to each leaf.
        case ev.Group(size, inner):
            for (leaf, attained), count in _counts(inner, results).items():
                yield (_grouped(size, leaf), attained), count
        # Post-processing of all runs: an upper bound counts each, a lower bound none of several.
        case ev.BestOf("fixed", mean, inner):
            runs = int(mean)
            for (leaf, attained), count in _counts(inner, results).items():
                yield (leaf, attained and runs == 1), count * runs
        case ev.ClientSampled():
            yield from _visibly_drawn(event, results)
        case _ if isinstance(event, _SAMPLERS):
            yield from _on_one_sample(event, results)
        case _:
            normal = _normal(event)
            if isinstance(normal, ev.GaussianMixture):
                normal = contributions.reduced(normal)
            elif isinstance(mixture := getattr(normal, "event", None), ev.GaussianMixture):
                # One contribution for certain is a sum, which samplers know more about.
                inner = contributions.reduced(mixture)
                if isinstance(inner, ev.Gaussian):
                    normal = replace(normal, event=inner)  # type: ignore[call-arg]
            elif isinstance(normal, _SHUFFLES):
                normal = _of_one_message(normal, results)
            if normal != _NOTHING:  # nothing moves
                yield (normal, _all_seen(event, results)), 1


def _visibly_drawn(
    event: ev.ClientSampled, results: dict[int, _Counts]
) -> Iterator[tuple[tuple[ev.Event, bool], int]]:
    """Yield the leaves of a sampled client: nested draws are one, a certain draw is none."""
    rate, inner = event.clients_rate, event.event
    while isinstance(inner, ev.ClientSampled):
        # Rounded up: rate 0 would say that nothing is seen.
        least = SMALLEST_POSITIVE_RATE if rate > 0.0 and inner.clients_rate > 0.0 else 0.0
        rate, inner = max(rate * inner.clients_rate, least), inner.event
    if rate == 1.0:
        yield from _counts(inner, results).items()
        return
    parts = _counts(inner, results)
    if rate == 0.0 or not parts:
        return
    attained = all(seen for _, seen in parts)
    if attained and all(isinstance(leaf, ev.Gaussian) for leaf, _ in parts):
        inner = _merged_gaussian(inner)
    elif list(parts.values()) == [1]:
        ((inner, _),) = parts
    yield (ev.ClientSampled(rate, inner), attained), 1


def _on_one_sample(
    event: ev.Event, results: dict[int, _Counts]
) -> Iterator[tuple[tuple[ev.Event, bool], int]]:
    """Yield the leaf of releases that share a sample: Gaussians are one, and one is that one."""
    inner: ev.Event = event.event  # type: ignore[attr-defined]
    parts = _counts(inner, results)
    if not parts:
        if isinstance(inner, (ev.Compose, ev.Repeat)):
            raise Unsupported("A sample of an empty composition has no meaning.")
        return  # nothing moves
    attained = all(seen for _, seen in parts)
    if list(parts.values()) == [1]:
        ((single, _),) = parts
        # What is left at random draws a sample of its own, which samplers know less about.
        if not isinstance(inner, ev.GaussianMixture) or isinstance(single, ev.Gaussian):
            inner = by_lemma(single) if _is_chain(single) else single
    elif all(isinstance(leaf, ev.Gaussian) for leaf, _ in parts):
        inner = _one_gaussian(leaves(inner))
    unchanged = inner is event.event  # type: ignore[attr-defined]
    yield (event if unchanged else replace(event, event=inner), attained), 1  # type: ignore[call-arg]


def _all_seen(event: ev.Event, results: dict[int, _Counts]) -> bool:
    """Return whether all that is released on a Poisson sample is seen."""
    if not isinstance(event, ev.Poisson):
        return True
    return all(seen for _, seen in _counts(event.event, results))


def _of_one_message(event: ev.Shuffle | ev.SampledShuffle, results: dict[int, _Counts]) -> ev.Event:
    """Return a shuffle whose messages are a composition of one release as that of the release."""
    if not isinstance(event.event, (ev.Compose, ev.Repeat, ev.BestOf)):
        return event
    parts = _counts(event.event, results)
    return replace(event, event=next(iter(parts))[0]) if list(parts.values()) == [1] else event


def _normal(event: ev.Event) -> ev.Event:
    if not isinstance(event, ev.Poisson):
        return event
    rate, inner = event.rate, event.event
    # A unit survives nested draws with the product of the rates.
    while isinstance(inner, (ev.Poisson, ev.Compose, ev.Repeat, ev.Group)) or _is_certain(inner):
        if isinstance(inner, ev.Poisson):
            # A product that underflows is rounded up to the least float: rate 0 would say that
            # nothing is seen.
            least = SMALLEST_POSITIVE_RATE if rate > 0.0 and inner.rate > 0.0 else 0.0
            rate, inner = max(rate * inner.rate, least), inner.event
        else:
            inner = _merged_gaussian(inner)
            if isinstance(inner, ev.Group):
                break
    if isinstance(inner, ev.MatrixGaussian) and rate < 1.0:
        raise _sampled_run(inner)
    if isinstance(inner, ev.GaussianMixture):
        return contributions.sampled(rate, inner)
    return inner if rate == 1.0 else ev.Poisson(rate, inner)


def _is_certain(event: ev.Event) -> bool:
    """Return whether an event is a choice without a choice: so many runs, or a certain draw."""
    match event:
        case ev.BestOf("fixed") | ev.ClientSampled(1.0):
            return True
    return False


def _sampled_run(inner: ev.MatrixGaussian) -> Unsupported:
    """Return the refusal of a Poisson sample around all rounds of a run with correlated noise."""
    return Unsupported(
        f"Poisson sampling around `{inner.type}` is not supported.",
        "One draw for the whole run is not what such runs do, and noise that rounds share is not "
        "hidden by draws of single rounds.",
        "For a strategy of b bands under cyclic Poisson sampling, where a unit belongs to one of b "
        "parts and a round draws from its part at rate q b, ask for Repeat(ceil(T / b), "
        "Poisson(q b, Gaussian)), with the noise over the largest column norm; otherwise account "
        "for the run without sampling, as a sample reveals no more than that.",
    )


def _grouped(size: int, leaf: ev.Event) -> ev.Event:
    """Return the leaf as a unit of `size` records sees it, scaled where that is exact or a bound.

    A sum moves by `size` bounds; a bounded range grows by the factor, rho by its square.  What is
    known by a bare epsilon and delta stays a group: `by_lemma` has its bare numbers.
    """
    if size == 1:
        return leaf
    if size * getattr(leaf, "sensitivity", 1) > validate.LARGEST_COUNT:
        raise Unsupported(
            f"A group of {size:,} records moves `{leaf.type}` by more than can be counted.",
            next_step="Use a smaller group, or continuous noise.",
        )
    # Noise per moved bound is rounded down, a bare epsilon or rho up: never too private.
    match leaf:
        case ev.Gaussian(noise):
            return ev.Gaussian(math.nextafter(noise / size, 0.0))
        case ev.MatrixGaussian(noise, strategy, participation) if not isinstance(
            participation, ev.BallsInBins
        ):
            # Records that contribute alike, in the same rounds, attain it.
            return ev.MatrixGaussian(math.nextafter(noise / size, 0.0), strategy, participation)
        case ev.Laplace(noise):
            return ev.Laplace(math.nextafter(noise / size, 0.0))
        case ev.DiscreteGaussian(noise, sensitivity):
            return ev.DiscreteGaussian(math.nextafter(noise / size, 0.0), sensitivity * size)
        case ev.TruncatedDiscreteGaussian(noise, sensitivity, bound):
            return ev.TruncatedDiscreteGaussian(noise / size, sensitivity * size, bound)
        case ev.DiscreteLaplace(noise, sensitivity):
            return ev.DiscreteLaplace(math.nextafter(noise / size, 0.0), sensitivity * size)
        case ev.Exponential(epsilon):
            return ev.Exponential(_times_up(size, epsilon))
        case ev.ZCDP(rho):
            return ev.ZCDP(size * size * rho * (1.0 + 1e-15))
        case ev.NoGuarantee():
            return leaf
        case ev.Group(inner_size, inner):
            return ev.Group(size * inner_size, inner)
        # A client's records are drawn together.
        case ev.ClientSampled(rate, inner):
            return ev.ClientSampled(rate, ev.Group(size, inner))
        case ev.GaussianMixture():
            return contributions.several(size, leaf)
        # Each draw is of the unit with probability size / population.
        case ev.WithReplacement(batch, population, inner) if population % size == 0:
            return ev.WithReplacement(batch, population // size, inner)
        case _:
            return ev.Group(size, leaf)


def _is_chain(event: ev.Event) -> TypeGuard[ev.Group]:
    """Return whether an event is a group of records of which only bare numbers are known."""
    bare = (*_CLASSES, ev.RandomizedResponse)
    return isinstance(event, ev.Group) and isinstance(event.event, bare)


def by_lemma(group: ev.Group) -> ev.Event:
    """Return the bare event of a group of bare events, by the lemma for groups.

    Epsilon grows by the factor, delta to delta (e^(size epsilon) - 1) / (e^epsilon - 1).

    >>> by_lemma(ev.Group(3, ev.Local(0.5)))
    Pure(epsilon=1.5)
    """
    record = group.event
    if isinstance(record, ev.Approximate):
        return _grouped_approximate(group.size, record.epsilon, record.delta)
    assert isinstance(record, (ev.Pure, ev.Local, ev.RandomizedResponse))
    return ev.Pure(_times_up(group.size, record.epsilon))


def _times_up(size: int, epsilon: float) -> float:
    """Return the product, rounded up."""
    product = size * epsilon
    exact = math.isinf(product) or Fraction(product) >= size * Fraction(epsilon)
    return product if exact else math.nextafter(product, math.inf)


def _grouped_approximate(size: int, epsilon: float, delta: float) -> ev.Event:
    """Return Approximate(k epsilon, delta sum_{i<k} e^(i epsilon)), rounded up, delta at most 1."""
    grown = _times_up(size, epsilon)
    # log of (e^(k epsilon) - 1) / (e^epsilon - 1), without overflow where k epsilon is large.
    if epsilon > 30.0:
        log_factor = grown - epsilon + math.exp(-epsilon)
    elif grown > 700.0:
        log_factor = grown - (math.log(math.expm1(epsilon)) if epsilon > 0.0 else 0.0)
    elif epsilon == 0.0:
        log_factor = math.log(size)
    else:
        log_factor = math.log(math.expm1(grown) / math.expm1(epsilon))
    log_delta = math.log(delta) + log_factor if delta > 0.0 else -math.inf
    total = 1.0 if log_delta >= 0.0 else min(math.exp(log_delta) * (1.0 + 1e-12), 1.0)
    return ev.Approximate(grown, total)


def _merged_gaussian(event: ev.Event) -> ev.Event:
    parts = leaves(event)
    if len(parts) == 1 and parts[0].count == 1 and parts[0].fully_observed:
        return parts[0].event
    for part in parts:
        if not isinstance(part.event, ev.Gaussian):
            raise Unsupported(
                f"Poisson sampling of a composition that holds {part.event.type} is not supported.",
                "One sample that several releases share is only understood for Gaussian noise.",
                "Sample each release by itself, or write the Repeat outside the Poisson.",
            )
    if not parts:
        raise Unsupported("Poisson sampling of an empty composition has no meaning.")
    return _one_gaussian(parts)


def _one_gaussian(parts: tuple[Leaf, ...]) -> ev.Gaussian:
    """Return the Gaussian that jointly sampled ones are together (a sufficient statistic)."""
    counted = [
        (part.event.noise_multiplier, part.count)
        for part in parts
        if isinstance(part.event, ev.Gaussian)
    ]
    least = min(noise for noise, _ in counted)
    # 1/noise^2 adds up, in units of 1 / least^2, so that it neither overflows nor vanishes.
    precision = sum(count * (least / noise) ** 2 for noise, count in counted)
    return ev.Gaussian(least / math.sqrt(precision))
