"""Runs whose whole event was given: what it proves with the facts that it does not say."""

from __future__ import annotations

from typing import Final

from ...accountant import events as ev
from ...accountant.event_tree import rewritten
from ...accountant.guarantee import as_neighbours
from ...accountant.work_limit import MOST_WORK, work_of
from .bounding_event import BoundingEvent, RunEvents
from .checked_run import CheckedRun
from .completions.facts import periods
from .events import unit_conditions
from .flattening import as_stated_draws
from .grouped_events import largest_group, lower_of_unit, of_sampled_clients, upper_of_unit
from .pinned_run import PinnedRun
from .release_readings import released_under

SAMPLERS: Final = {
    ev.Poisson: "poisson",
    ev.TruncatedPoisson: "poisson",
    ev.FixedSize: "fixed-size",
    ev.WithReplacement: "with-replacement",
    ev.ShuffledBatches: "shuffled",
    ev.RandomAllocation: "random-allocation",
}
"""The word of `sampling.method` for events that draw batches; random allocation has none."""

ALLOCATED: Final = "Each unit is allotted to steps at random and by itself, as the event has it."
GROUPED: Final = (
    "Up to {size:,} records count together, each drawn and clipped by itself, as the event has it; "
    "each may move what is released besides by one bound."
)
INTEGER_SUMS: Final = "Sums with discrete Gaussian noise are single numbers, as the event has them."


def is_sum_of_draws(run: CheckedRun) -> bool:
    """Return whether a stated event is steps of noise on Poisson samples, as settings can be."""
    return run.event is not None and as_stated_draws(run.event) is not None


def whole_event(run: PinnedRun, *, sampled: bool = True) -> RunEvents:
    """Return the bounds of an event that no settings express; without its samples if told so.

    Releases, starts, periods and tuned runs are composed around it.
    """
    settings, event = run.settings, run.event
    assert event is not None
    if not sampled:
        event = without_sampling(event)
    relation = as_neighbours(settings.neighbours)
    released = tuple(released_under(run, each, relation) for each in settings.releases)
    every = upper_of_unit(run, event, released)
    # The steps of an event are those that one accountant composed.
    least = settings.restarts * periods(run, upper=False)
    most = settings.restarts * periods(run, upper=True) * run.tuning_runs
    size = largest_group(event)
    # Whoever groups records counts each by itself, whatever is said by default of users.
    conditions = unit_conditions(run) if size == 1 else [GROUPED.format(size=size)]
    conditions += event_conditions(event)
    # Of what is refused as too much work no part is accounted for either.
    shown = lower_of_unit(run, event) if work_of(event) <= MOST_WORK else (event,)
    return RunEvents(
        (BoundingEvent(every if most == 1 else ev.Repeat(most, every), relation),),
        tuple(
            (BoundingEvent(inner if least == 1 else ev.Repeat(least, inner), relation),)
            for inner in shown
        ),
        tuple(conditions),
    )


def event_conditions(event: ev.Event) -> list[str]:
    """Return the sentences that an event rests on, whatever runs with it."""
    kinds = {type(part) for part in _parts(event)}
    sentences = {ev.DiscreteGaussian: INTEGER_SUMS, ev.RandomAllocation: ALLOCATED}
    return [sentence for kind, sentence in sentences.items() if kind in kinds]


def samplers_of(event: ev.Event) -> frozenset[str]:
    """Return the words of the samplers in an event; none where nothing is sampled.

    >>> sorted(samplers_of(ev.Repeat(9, ev.Poisson(0.01, ev.Gaussian(2.0)))))
    ['poisson']
    """
    kinds = (type(part) for part in _parts(event))
    return frozenset(SAMPLERS[kind] for kind in kinds if kind in SAMPLERS)


def _parts(event: ev.Event) -> tuple[ev.Event, ...]:
    """Return an event and all events in it."""
    inner: tuple[ev.Event, ...] = ()
    if isinstance(event, ev.Compose):
        inner = event.events
    elif isinstance(getattr(event, "event", None), ev.Event):
        inner = (event.event,)  # type: ignore[attr-defined]
    return (event, *(part for each in inner for part in _parts(each)))


def unaccounted_by_event(run: PinnedRun) -> str:
    """Return the stated fact that changes what ran and that the event does not say, or nothing."""
    settings = run.settings
    if run.beyond_event:
        return run.beyond_event
    if run.event is None:
        return ""
    if run.replies is not None and run.expected_replies and run.replies < run.expected_replies:
        return "Fewer replied than the noise of the stated event was shared among."
    if settings.clients_rate not in (None, 1.0) and not _is_of_clients(run):
        return "The stated event does not say whether it counts the draw of clients."
    if (unsaid := _unsaid_of_contributions(run, run.event)) is not None:
        return unsaid
    if is_sum_of_draws(run):
        return ""
    if settings.accumulation > 1:
        return "The stated event does not say that several batches come before a noise draw."
    if settings.microbatches > 1:
        return "The stated event does not say that records are clipped together."
    samplers = samplers_of(run.event)
    if settings.unit == "silo" and samplers:
        return "A sample of records does not hide a silo, whatever the stated event counts."
    stated = "sampling.method" in run.stated and settings.method not in ("unknown", "full")
    if stated and samplers and samplers != {settings.method}:
        return f"Batches are drawn as `{settings.method}`, and the stated event says otherwise."
    return ""


def _unsaid_of_contributions(run: PinnedRun, event: ev.Event) -> str | None:
    """Return the stated fact about contributions that an event leaves out; None where none is."""
    settings = run.settings
    of_laplace = any(isinstance(part, ev.Laplace) for part in _parts(event))
    if of_laplace and settings.clip_norm not in (None, "l1"):
        return f"The stated event has Laplace noise for l1 norms; clipped is {settings.clip_norm}."
    if of_laplace and settings.clip_norm is None and "noise.clip" in run.stated:
        return "The stated event has Laplace noise for l1 norms; nobody said which norm is clipped."
    gaussian = all(isinstance(part, ev.Gaussian) for part in _parts(event) if not _holds(part))
    if run.replies is not None and run.expected_replies and not gaussian:
        return "The stated event does not say of how many shares its noise is."
    return None


def _holds(event: ev.Event) -> bool:
    """Return whether an event is made of others."""
    return isinstance(event, ev.Compose) or isinstance(getattr(event, "event", None), ev.Event)


def _is_of_clients(run: PinnedRun) -> bool:
    """Return whether a stated event samples whole clients, at the rate that is stated of these."""
    settings = run.settings
    if run.event is None:
        return False
    if settings.unit != "silo" and of_sampled_clients(run.event) == {settings.clients_rate}:
        return True
    if settings.unit == "record" or settings.records_per_user is not None:
        return False
    draws = as_stated_draws(run.event)
    return draws is not None and all(each.rate == settings.clients_rate for each in draws)


def without_sampling(event: ev.Event) -> ev.Event:
    """Return an event with every sample taken as the whole data.

    >>> without_sampling(ev.Repeat(9, ev.Poisson(0.01, ev.Gaussian(2.0)))).event
    Gaussian(noise_multiplier=2.0)
    """
    return rewritten(event, _in_full)


def _in_full(event: ev.Event) -> ev.Event:
    match event:
        case ev.ShuffledBatches(batches, inner) | ev.RandomAllocation(batches, _, inner):
            return ev.Repeat(batches, inner)
        case ev.Poisson(_, inner):  # who samples clients still does
            return inner
        case ev.FixedSize(_, _, inner) | ev.WithReplacement(_, _, inner):
            return inner
        case ev.TruncatedPoisson(_, _, _, inner):
            return inner
    return event
