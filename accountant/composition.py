"""From a tree of events to the leaves that an engine must understand, each with its count."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from . import events as ev
from .errors import InvalidInput, Unsupported
from .event_tree import events_inside, rewritten
from .events import contributions
from .grouping import CLASSES, by_lemma, grouped, is_chain

E = TypeVar("E", bound=ev.Event)

SMALLEST_POSITIVE_RATE: Final = 5e-324
"""The smallest rate above 0."""

MAX_ROUNDS: Final = 10**15
"""Most rounds that are accounted; beyond, a count is surely a mistake."""


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


class Composition(tuple[Leaf, ...]):
    """An event in its normal form: its different releases, each with how often it runs.

    A question brings an event into this form once (`of`), and it is all that an engine is given.
    A tuple of leaves, so that it can be kept, compared and used as a key; nothing depends on the
    order.
    """

    __slots__ = ()

    @classmethod
    def of(cls, event: ev.Event) -> Composition:
        """Return the distinct leaves below `Compose` and `Repeat`, with their total counts.

        A leaf is any other event.  A composition of one release is that release, at any depth and
        under every sampler; `Poisson` of `Poisson` is one `Poisson` (a unit survives both draws
        with the product of the rates); `Poisson` at rate 1 is its event; unsampled or jointly
        sampled Gaussians that are composed under one sample are one Gaussian with noise
        (sum count / noise^2)^(-1/2) (their weighted sum is a sufficient statistic); a `Group` of a
        composition is the composition of groups (its relation between data sets is one relation,
        whatever is released), and a group of what scales is scaled (`grouping`); the best of a
        fixed number of runs is a post-processing of them all.

        Raises `Unsupported` for a Poisson sample of any other composition, `InvalidInput` for
        nesting deeper than `MAX_DEPTH` and for more than `MAX_ROUNDS` rounds.

        >>> (leaf,) = Composition.of(ev.Repeat(3, ev.Compose([ev.Gaussian(1.0)] * 2)))
        >>> leaf.event, leaf.count
        (Gaussian(noise_multiplier=1.0), 6)
        """
        event = rewritten(event, _unwrapped)
        counts = _counts(event, {})
        # No run is that long: a larger count is a mistake.
        if sum(counts.values()) > MAX_ROUNDS:
            raise InvalidInput(
                f"The event has more than {MAX_ROUNDS:.0e} rounds.",
                next_step="Check the counts of its Repeat events.",
            )
        grown = _grown(event)
        return cls(
            _leaf(leaf, count, attained, grown) for (leaf, attained), count in counts.items()
        )

    @property
    def releases(self) -> int:
        """How many releases there are in all."""
        return sum(leaf.count for leaf in self)

    @property
    def fully_observed(self) -> bool:
        """Whether all that is released is seen."""
        return all(leaf.fully_observed for leaf in self)

    @property
    def single(self) -> ev.Event | None:
        """The only release, where there is one."""
        return self[0].event if len(self) == 1 and self[0].count == 1 else None

    def holds(self, *types: type[ev.Event]) -> bool:
        """Return whether a leaf is an event of one of these types."""
        return any(isinstance(leaf.event, types) for leaf in self)

    def inside(self, kind: type[E]) -> list[E]:
        """Return the events of a kind among the leaves and all that is inside them, in order."""
        events = (each for leaf in self for each in events_inside(leaf.event))
        return [each for each in events if isinstance(each, kind)]

    def worst(self) -> Composition:
        """Return the leaves, with the lower ends of the worst of each class that one names."""
        return Composition(replace(leaf, worst_of_class=_has_worst(leaf)) for leaf in self)

    @property
    def names_class(self) -> bool:
        """Whether a leaf names a class of mechanisms, of which the worst has lower ends."""
        return any(_has_worst(leaf) for leaf in self)


def release_of_group(size: int, event: ev.Event) -> ev.Event:
    """Return the one release that a unit of `size` records sees of a release."""
    ((release, _),) = _counts(rewritten(ev.Group(size, event), _unwrapped), {})
    return by_lemma(release) if is_chain(release) else release


def _leaf(event: ev.Event, count: int, attained: bool, grown: frozenset[ev.Event]) -> Leaf:
    if is_chain(event):
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


def _has_worst(leaf: Leaf) -> bool:
    if leaf.chain is not None:
        return isinstance(leaf.chain.event, CLASSES)
    return names_class(leaf.event) and not leaf.by_lemma


def names_class(event: ev.Event) -> bool:
    """Return whether an event is known by stated numbers, which a class of mechanisms has."""
    # A client that is seen to take part shows the worst of them, too, and so does a sample, by a
    # mechanism that answers whether the unit is in it.
    if isinstance(event, ev.ClientSampled):
        return any(names_class(leaf.event) for leaf in Composition.of(event.event))
    inside = isinstance(event, (ev.Shuffle, ev.Poisson, ev.FixedSize))
    return isinstance(event.event if inside else event, CLASSES)  # type: ignore[attr-defined]


def _grown(event: ev.Event) -> frozenset[ev.Event]:
    """Return the leaves whose stated numbers are those of one record, grown by the lemma."""
    return frozenset(
        by_lemma(leaf) if is_chain(leaf) else leaf
        for group in events_inside(event)
        if isinstance(group, ev.Group) and group.size > 1
        for leaf, _ in _counts(group, {})
        if isinstance(leaf, CLASSES) or is_chain(leaf)
    )


def _grows_inside(leaf: ev.Event, grown: frozenset[ev.Event]) -> bool:
    """Return whether the stated numbers in a leaf are grown, or seen several times by a sampler."""
    inside = events_inside(leaf)
    if any(each in grown for each in inside):
        return True
    grows = any(isinstance(each, (ev.Group, ev.WithReplacement)) for each in inside)
    return grows and any(isinstance(each, (*CLASSES, ev.RandomizedResponse)) for each in inside)


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
                yield (grouped(size, leaf), attained), count
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
            inner = by_lemma(single) if is_chain(single) else single
    elif all(isinstance(leaf, ev.Gaussian) for leaf, _ in parts):
        inner = _one_gaussian(Composition.of(inner))
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


def _merged_gaussian(event: ev.Event) -> ev.Event:
    parts = Composition.of(event)
    if parts.single is not None and parts.fully_observed:
        return parts.single
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


def _one_gaussian(parts: Composition) -> ev.Gaussian:
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
