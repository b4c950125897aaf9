"""From the settings of a run to the events that bound it, from above and from below.

An upper event is one that the run cannot exceed under any reading that its description leaves
open; a lower event is attained by some data under all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ...accountant import events as ev
from ...accountant.guarantee import Neighbours, as_neighbours
from ..description.run_description import Phase
from .checked_run import CheckedRun
from .noise_draws import (
    LackingFacts,
    farther,
    in_each_step,
    noise_draw,
    release_event,
    upper_draw,
)
from .with_replacement import most_occurrences, presence

ROUNDING: Final = 1e-9
"""Relative error by which a count of epochs or batches may miss an integer."""


@dataclass(frozen=True)
class BoundingEvent:
    """An event under a relation; `delta_spent` of the claim's delta is spent beside it."""

    event: ev.Event
    neighbours: Neighbours
    delta_spent: float = 0.0


@dataclass(frozen=True)
class RunEvents:
    """The event that bounds a run from above, and those that bound it from below.

    The first lower event that can be accounted counts.  `conditions` are sentences.
    """

    upper: BoundingEvent
    lower: tuple[BoundingEvent, ...]
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Draws:
    """The noise of one phase: at the upper and at the lower end, with rates and steps."""

    upper: ev.Event
    lower: ev.Event
    phase: Phase
    upper_rate: float
    lower_rate: float


def phases_of(run: CheckedRun, method: str) -> tuple[Phase, ...]:
    """Return the phases of a run; raise `LackingFacts` with the keys that they need."""
    settings = run.settings
    if settings.phases:
        return settings.phases
    rate = 1.0 if method == "full" else _rate(run)
    facts = {
        "noise.noise_multiplier": settings.noise_multiplier,
        "sampling.rate": rate,
        "schedule.steps": settings.steps,
    }
    lacking = [key for key, value in facts.items() if value is None]
    if lacking or settings.noise_multiplier is None or settings.steps is None or rate is None:
        raise LackingFacts(*lacking)
    return (Phase(settings.noise_multiplier, rate, settings.steps),)


def _rate(run: CheckedRun) -> float | None:
    """Return the rate at which the protected unit joins a step.

    Clients that are sampled as a whole hide a user or a silo, and a record where records are not
    sampled.  A rate of records hides no silo.
    """
    settings = run.settings
    whole_clients = settings.unit in ("user", "silo") and settings.records_per_user is None
    if settings.clients_rate is not None and (whole_clients or settings.rate is None):
        return settings.clients_rate
    return settings.rate


def run_events(run: CheckedRun, method: str, delta: float) -> RunEvents:
    """Return the events that bound a run whose batches are drawn by `method`.

    `method` is a word of `sampling.method` other than `unknown`; `delta` is that of the claim.
    Raises `LackingFacts` where keys are missing.
    """
    phases = phases_of(run, method)
    steps = sum(phase.steps for phase in phases)
    conditions: list[str] = []
    sampled = [each for each in run.settings.releases if in_each_step(run, each, steps)]
    aside = [each for each in run.settings.releases if each not in sampled]
    for release in sampled:
        conditions.append(f"`{release.what}` is computed from the batch of each step alone.")

    # Everything that a step releases of its batch is one draw.
    joint = tuple(release_event(each) for each in sampled)
    parts: list[RunEvents] = []
    # Several batches in one noise draw: a record may come with any of them.
    least_batches, most_batches = run.batches_in_draw
    for phase in phases:
        draws = _Draws(
            _together(upper_draw(run, phase.noise_multiplier), joint),
            _together(noise_draw(run, phase.noise_multiplier + run.noise_slack), joint),
            phase,
            min(1.0, phase.rate * most_batches),
            min(1.0, (phase.rate - run.rate_slack) * least_batches),
        )
        parts.append(_silo_or(run, method)(run, draws, delta / len(phases)))
    conditions += [sentence for part in parts for sentence in part.conditions]
    conditions += _unit_conditions(run)

    extra = tuple(ev.Repeat(each.count, release_event(each)) for each in aside)
    upper = _composed(run, [part.upper for part in parts], extra, upper=True)
    lower = _composed(run, [part.lower[0] for part in parts], extra, upper=False)
    spare = [part.lower[-1] for part in parts]
    lowers = (lower, _composed(run, spare, extra, upper=False))
    return RunEvents(upper, tuple(dict.fromkeys(lowers)), tuple(dict.fromkeys(conditions)))


def _together(draw: ev.Event, joint: tuple[ev.Event, ...]) -> ev.Event:
    return ev.Compose((draw, *joint)) if joint else draw


def _composed(
    run: CheckedRun, parts: list[BoundingEvent], extra: tuple[ev.Event, ...], *, upper: bool
) -> BoundingEvent:
    """Return all phases and releases, over groups, starts, periods and tuned runs, as one event."""
    settings = run.settings
    events = (*(part.event for part in parts), *extra)
    event: ev.Event = events[0] if len(events) == 1 else ev.Compose(events)
    if settings.unit == "user" and (settings.records_per_user or 1) > 1:
        event = ev.Group(settings.records_per_user or 1, event)
    times = settings.restarts * periods(run, upper=upper) * (run.tuning_runs if upper else 1)
    spent = sum(part.delta_spent for part in parts) * times
    relation: Neighbours = parts[0].neighbours
    return BoundingEvent(_repeated(times, event), relation, spent)


def periods(run: CheckedRun, *, upper: bool) -> int:
    """Return how often a budget that renews is spent over the horizon; 1 where none is stated."""
    settings = run.settings
    if not settings.horizon_days or not settings.renews_every_days:
        return 1
    ratio = settings.horizon_days / settings.renews_every_days
    whole = math.ceil(ratio * (1.0 - ROUNDING)) if upper else math.floor(ratio * (1.0 + ROUNDING))
    return max(1, whole)


def _repeated(count: int, event: ev.Event) -> ev.Event:
    if count == 1:
        return event
    if isinstance(event, ev.Repeat):
        return ev.Repeat(count * event.count, event.event)
    return ev.Repeat(count, event)


def _unit_conditions(run: CheckedRun) -> list[str]:
    settings = run.settings
    if settings.unit == "user" and settings.records_per_user is None:
        return ["What one user contributes to a step is clipped as a whole, in one draw."]
    return []


# --- one function for each way of drawing a batch ------------------------------------------------

_Method = Callable[[CheckedRun, _Draws, float], RunEvents]


def _silo_or(run: CheckedRun, method: str) -> _Method:
    settings = run.settings
    if settings.unit == "silo" and settings.clients_rate is None and of_records(run):
        return _silo
    if settings.unit == "user" and settings.clients_rate is None and of_records(run):
        if settings.records_per_user is None:
            raise LackingFacts("data.records_per_user")
    clients = settings.clients_rate is not None and settings.rate is not None
    if clients and (settings.unit == "record" or settings.records_per_user is not None):
        return _client(_METHODS[method])
    return _METHODS[method]


def of_records(run: CheckedRun) -> bool:
    """Return whether batches are batches of records, though the unit is more than a record."""
    settings = run.settings
    units = run.units
    if units is None:
        return settings.records is not None or settings.unit == "silo"
    return settings.batch is not None and settings.batch > units


def _relation(run: CheckedRun) -> Neighbours:
    return as_neighbours(run.settings.neighbours)


def _attained_in_one_step(draws: _Draws) -> ev.Event:
    """Return what a single step shows: the unit in it with its rate, and zeros besides."""
    return ev.Poisson(draws.lower_rate, draws.lower)


def _poisson(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
    steps, relation = draws.phase.steps, _relation(run)
    upper = ev.Repeat(steps, ev.Poisson(draws.upper_rate, draws.upper))
    lower = ev.Repeat(steps, ev.Poisson(draws.lower_rate, draws.lower))
    return RunEvents(BoundingEvent(upper, relation), (BoundingEvent(lower, relation),))


def _full(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
    steps, relation = draws.phase.steps, _relation(run)
    return RunEvents(
        BoundingEvent(ev.Repeat(steps, draws.upper), relation),
        (BoundingEvent(ev.Repeat(steps, draws.lower), relation),),
    )


def _shuffled(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
    """Return epochs of shuffled batches: rounded up for the upper event, down for the lower."""
    relation = _relation(run)
    batches = max(1, math.ceil(1.0 / draws.lower_rate * (1.0 - ROUNDING)))
    fewest = max(1, math.ceil(1.0 / draws.upper_rate * (1.0 - ROUNDING)))
    most_epochs, least_epochs = epochs_of(run, draws.phase, batches, fewest)
    upper = ev.Repeat(most_epochs, ev.ShuffledBatches(fewest, draws.upper))
    # With zeros besides, the batch that a record is in is hidden among all: random allocation.
    lower, alone = _attained_in_one_step(draws), _attained_in_one_step(draws)
    if least_epochs:
        lower = ev.Repeat(least_epochs, ev.ShuffledBatches(batches, draws.lower))
        alone = ev.Repeat(least_epochs, ev.RandomAllocation(batches, 1, draws.lower))
    return RunEvents(
        BoundingEvent(upper, relation),
        (BoundingEvent(lower, relation), BoundingEvent(alone, "add-remove")),
        (f"An epoch has {fewest:,} batches, each in a fresh random order that nobody sees.",),
    )


def epochs_of(run: CheckedRun, phase: Phase, batches: int, fewest: int) -> tuple[int, int]:
    """Return how many epochs there were at most, and how many whole ones at least."""
    epochs = run.settings.epochs
    if epochs is not None and not run.settings.phases:
        return math.ceil(epochs * (1.0 - ROUNDING)), math.floor(epochs * (1.0 + ROUNDING))
    return math.ceil(phase.steps / fewest), phase.steps // batches


def _fixed_size(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
    relation = _relation(run)
    batch, records = batch_and_records(run, draws.lower_rate)
    most, _ = batch_and_records(run, draws.upper_rate)
    steps = draws.phase.steps
    return RunEvents(
        BoundingEvent(ev.Repeat(steps, ev.FixedSize(most, records, draws.upper)), relation),
        (BoundingEvent(ev.Repeat(steps, ev.FixedSize(batch, records, draws.lower)), relation),),
    )


def batch_and_records(run: CheckedRun, rate: float) -> tuple[int, int]:
    """Return the size of a batch and of the data; raise `LackingFacts` where these are unknown."""
    units = run.units
    if units is None:
        raise LackingFacts("data.records")
    return min(units, max(1, round(rate * units))), units


def _with_replacement(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
    """Return sums that a record moves as often as it was drawn, without amplification.

    Draws of the record are exchanged for draws of others, which moves each by two norms (by one
    under zero-out).  From below: with zeros besides, more occurrences only move the sum farther,
    so Poisson sampling at the rate of one or more of them is never above.
    """
    steps = draws.phase.steps
    batch, records = batch_and_records(run, draws.lower_rate)
    drawn, _ = batch_and_records(run, draws.upper_rate)
    most, tail = most_occurrences(drawn, records, steps, delta)
    moved = most if run.settings.neighbours == "zero-out" else 2 * most
    upper = ev.Repeat(steps, farther(draws.upper, moved))
    lower = ev.Repeat(steps, ev.Poisson(presence(batch, records), draws.lower))
    return RunEvents(
        BoundingEvent(upper, "add-remove", tail),
        (BoundingEvent(lower, "add-remove"),),
        (
            f"A record is drawn at most {most} times into a batch, except with probability "
            f"{tail:.1e}, which is taken from delta; nothing is counted as amplified.",
        ),
    )


def _weighted(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
    """Return sums without amplification: the heaviest record may be in every batch.

    A draw by weights without the record is the same draw with one other record in its stead, so
    a sum moves by two norms at most.  Some record is in a batch at least as often as the mean.
    """
    steps = draws.phase.steps
    relation: Neighbours = "zero-out" if run.settings.neighbours == "zero-out" else "replace-one"
    rate = draws.lower_rate
    if run.units is not None:
        rate = min(rate, presence(batch_and_records(run, rate)[0], run.units))
    return RunEvents(
        BoundingEvent(ev.Repeat(steps, draws.upper), relation),
        (BoundingEvent(ev.Repeat(steps, ev.Poisson(rate, draws.lower)), "add-remove"),),
        ("A record is at most once in a batch; nothing is counted as amplified.",),
    )


def _silo(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
    """Return a silo that is there in every step: a sample of its records does not hide it."""
    whole = _full(run, draws, delta)
    return replace(
        whole,
        lower=(BoundingEvent(_attained_in_one_step(draws), "add-remove"),),
        conditions=("A sample of records does not hide a silo: nothing is counted as amplified.",),
    )


def _client(method: _Method) -> _Method:
    """Return the client's releases in all rounds: a draw of clients hides nothing from itself.

    Both draws together hide a record in a single step with the product of the rates; from step
    to step the draw of clients need not be fresh, so only one step bounds it from below.
    """

    def events(run: CheckedRun, draws: _Draws, delta: float) -> RunEvents:
        each = method(run, draws, delta)
        clients_rate = run.settings.clients_rate or 1.0
        rate = clients_rate * draws.lower_rate
        once = BoundingEvent(ev.Poisson(rate, draws.lower), "add-remove")
        return replace(
            each,
            lower=(once,),
            conditions=(
                *each.conditions,
                "A client may take part in every round: the draw of clients is not counted.",
            ),
        )

    return events


_METHODS: Final[dict[str, _Method]] = {
    "poisson": _poisson,
    "shuffled": _shuffled,
    "fixed-size": _fixed_size,
    "with-replacement": _with_replacement,
    "weighted": _weighted,
    "full": _full,
}
