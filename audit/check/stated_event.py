"""Runs whose whole event was given: what it proves, and what it rests on."""

from __future__ import annotations

from typing import Final

from ...accountant import events as ev
from ...accountant.guarantee import as_neighbours
from .bounding_event import BoundingEvent, RunEvents
from .checked_run import CheckedRun
from .events import periods

_SAMPLING: Final = (ev.Poisson, ev.FixedSize, ev.TruncatedPoisson, ev.ShuffledBatches)


def event_alternatives(run: CheckedRun) -> dict[str, RunEvents]:
    """Return the events of a run that gave its own, by the sampler that they rest on.

    Where nobody said how batches were drawn, an accountant's event says only what was assumed:
    the same releases without amplification stand beside it.
    """
    assert run.event is not None
    relation = as_neighbours(run.settings.neighbours)
    stated = _whole(run, run.event, relation)
    if not _is_sampled(run.event) or "sampling.method" in run.known:
        return {"as stated": stated}
    return {"poisson": stated, "full": _whole(run, without_sampling(run.event), relation)}


def _whole(run: CheckedRun, event: ev.Event, relation: str) -> RunEvents:
    settings = run.settings
    if settings.unit == "user" and (settings.records_per_user or 1) > 1:
        event = ev.Group(settings.records_per_user or 1, event)
    # The steps of an event are those that one accountant composed.
    least = settings.restarts * periods(run, upper=False)
    most = settings.restarts * periods(run, upper=True) * run.tuning_runs
    named = as_neighbours(relation)
    return RunEvents(
        BoundingEvent(event if most == 1 else ev.Repeat(most, event), named),
        (BoundingEvent(event if least == 1 else ev.Repeat(least, event), named),),
    )


def _is_sampled(event: ev.Event) -> bool:
    match event:
        case ev.Compose(parts):
            return any(_is_sampled(part) for part in parts)
        case ev.Repeat(_, inner) | ev.Group(_, inner) | ev.BestOf(_, _, inner):
            return _is_sampled(inner)
    return isinstance(event, _SAMPLING)


def without_sampling(event: ev.Event) -> ev.Event:
    """Return an event with every sample taken as the whole data.

    >>> without_sampling(ev.Repeat(9, ev.Poisson(0.01, ev.Gaussian(2.0)))).event
    Gaussian(noise_multiplier=2.0)
    """
    match event:
        case ev.Compose(parts):
            return ev.Compose(tuple(without_sampling(part) for part in parts))
        case ev.Repeat(count, inner):
            return ev.Repeat(count, without_sampling(inner))
        case ev.Group(size, inner):
            return ev.Group(size, without_sampling(inner))
        case ev.BestOf(distribution, mean, inner):
            return ev.BestOf(distribution, mean, without_sampling(inner))
        case ev.ShuffledBatches(batches, inner):
            return ev.Repeat(batches, without_sampling(inner))
        case ev.Poisson(_, inner) | ev.FixedSize(_, _, inner):
            return without_sampling(inner)
        case ev.TruncatedPoisson(_, _, _, inner):
            return without_sampling(inner)
    return event
