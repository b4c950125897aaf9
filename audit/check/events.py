"""From the settings of a run to the events that bound it, composed to the release."""

from __future__ import annotations

import math

from ...accountant import events as ev
from ...accountant.guarantee import Neighbours
from ..description.run_description import Phase
from .bounding_event import BoundingEvent, PhaseDraws, RunEvents
from .checked_run import CheckedRun
from .noise_draws import LackingFacts, in_each_step, lower_draw, release_event, upper_draw
from .sampler_events import ROUNDING, sampler_of


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
        draws = PhaseDraws(
            _together(upper_draw(run, phase.noise_multiplier), joint),
            _together(lower_draw(run, phase.noise_multiplier), joint),
            phase,
            min(1.0, phase.rate * most_batches),
            min(1.0, (phase.rate - run.rate_slack) * least_batches),
            delta / len(phases),
        )
        parts.append(sampler_of(run, method)(run, draws))
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
    # From below only what certainly happened to the same records: one of the tuned runs.
    starts = settings.restarts * run.tuning_runs if upper else run.least_restarts
    times = starts * periods(run, upper=upper)
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
