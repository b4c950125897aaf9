"""Facts with a stated event: what the event says itself must be the same."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from ...accountant import events as ev
from ..description.run_description import Contradiction, RunDescription

WITHIN: Final = 1e-3
"""Relative error by which a number with an event may differ from it: somebody printed it."""

FAMILIES: Final = {
    ev.Gaussian: "gaussian",
    ev.Laplace: "laplace",
    ev.DiscreteGaussian: "discrete-gaussian",
}


@dataclass(frozen=True)
class _SampledRelease:
    """A release in an event: how often it is made, and at which rate, batch and population."""

    event: ev.Event
    count: int = 1
    rate: float = 1.0
    batch: int | None = None
    population: int | None = None
    clients_rate: float | None = None


def contradictions_with_event(description: RunDescription) -> tuple[Contradiction, ...]:
    """Return the stated facts that an event with them contradicts, by their keys."""
    event = description.event
    if event is None:
        return ()
    releases = tuple(_releases(event))
    families = {FAMILIES[type(each.event)] for each in releases if type(each.event) in FAMILIES}
    differing = [*_differing(description, "noise.family", families)]
    differing += _of_numbers(description, releases)
    return tuple(differing)


def _of_numbers(
    description: RunDescription, releases: tuple[_SampledRelease, ...]
) -> Iterator[Contradiction]:
    # A number of the event is one of those of its releases: of several kinds any may be meant.
    noises = {getattr(each.event, "noise_multiplier", None) for each in releases} - {None}
    rates = {each.rate for each in releases}
    of_clients = {each.clients_rate for each in releases} - {None}
    # A rate may be that of records, of their clients, or of both together.
    rates |= {
        rate
        for each in releases
        if each.clients_rate is not None
        for rate in (each.clients_rate, each.rate * each.clients_rate)
    }
    batches = {each.batch for each in releases} - {None}
    populations = {each.population for each in releases} - {None}
    steps = {sum(each.count for each in releases)}
    steps |= {each.count for each in releases}  # of one kind of several that are composed
    restarts = description.get("schedule.restarts", int) or 1
    steps |= {count * restarts for count in steps}
    yield from _differing(description, "noise.noise_multiplier", noises)
    yield from _differing(description, "sampling.rate", rates)
    yield from _differing(description, "schedule.steps", steps)
    yield from _differing(description, "sampling.clients_rate", of_clients)
    if batches:
        yield from _differing(description, "sampling.batch", batches)
    if populations and description.get("claim.unit", str) != "user":
        yield from _differing(description, "data.records", populations)


def _differing(
    description: RunDescription, key: str, said: AbstractSet[object]
) -> Iterator[Contradiction]:
    """Yield the contradiction of a key that was stated with a value which the event has nowhere."""
    fact = description.facts.get(key)
    if fact is None or fact.provenance not in ("stated", "read") or not said:
        return
    value = fact.value
    if isinstance(value, str):
        same = value in said
    else:
        number = float(value)  # type: ignore[arg-type]
        numbers = [float(each) for each in said if isinstance(each, (int, float))]
        within = 0.0 if isinstance(value, int) else WITHIN  # a count is exact
        same = any(abs(number - each) <= within * abs(each) + fact.half_unit for each in numbers)
    if not same:
        listed = ", ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in said)
        yield Contradiction(key, f"{key} = {value} and an event with {listed} cannot both be true.")


def _releases(event: ev.Event, count: int = 1) -> Iterator[_SampledRelease]:
    """Yield the releases of an event, each with what it is sampled by."""
    match event:
        case ev.Compose(parts):
            for part in parts:
                yield from _releases(part, count)
        case ev.Repeat(times, inner):
            yield from _releases(inner, count * times)
        case ev.Poisson(rate, inner):
            yield from _sampled(inner, count, rate)
        case ev.TruncatedPoisson(rate, batch, population, inner):
            del batch
            yield from _sampled(inner, count, rate, None, population)
        case ev.FixedSize(batch, population, inner) | ev.WithReplacement(batch, population, inner):
            yield from _sampled(inner, count, batch / population, batch, population)
        case ev.ClientSampled(rate, inner):
            for each in _releases(inner, count):
                yield replace(each, clients_rate=rate)
        case ev.Group(_, inner) | ev.BestOf(_, _, inner):
            yield from _releases(inner, count)
        case ev.ShuffledBatches(batches, inner):
            yield from _sampled(inner, count * batches, 1.0 / batches)
        case ev.RandomAllocation(steps, _, inner):
            yield from _sampled(inner, count * steps, 1.0 / steps)
        case _:
            yield _SampledRelease(event, count)


def _sampled(
    inner: ev.Event,
    count: int,
    rate: float,
    batch: int | None = None,
    population: int | None = None,
) -> Iterator[_SampledRelease]:
    for each in _releases(inner, count):
        yield replace(each, rate=rate * each.rate, batch=batch, population=population)
