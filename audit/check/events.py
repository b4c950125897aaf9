"""From the settings of a run to the events that bound it, composed to the release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

from ...accountant import events as ev
from ...accountant.errors import with_article
from ...accountant.guarantee import Neighbours
from ...accountant.work_limit import work_of
from ..description.run_description import ExtraRelease, Phase
from .bounding_event import BoundingEvent, LowerEnd, PhaseDraws, RunEvents
from .checked_run import PASSES_TOLERANCE
from .completions.facts import periods
from .flattening import as_stated_draws
from .kept_records import batch_share
from .loader_passes import in_pairs, independent_phases
from .noise_draws import LackingFacts, clipped_together, lower_draw, upper_draw
from .phase_classes import MANY, MOST_PHASE_WORK, ends_of
from .pinned_run import PinnedRun
from .release_readings import (
    JOINTLY_ACCOUNTED,
    ReleaseReading,
    lower_readings,
    moved_in_a_batch,
    released_under,
    shown_under,
    shown_with,
    upper_readings,
    with_releases,
)
from .unit_samplers import draws_records_of_silos, sampler_of

T = TypeVar("T")

UNINTERRUPTED: Final = (
    "All phases go on in the passes of one loader, which is not started anew between them."
)


def phases_of(run: PinnedRun, method: str) -> tuple[Phase, ...]:
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


def _rate(run: PinnedRun) -> float | None:
    """Return the rate at which the protected unit joins a step.

    Clients that are sampled as a whole hide a user or a silo.  A rate of records hides no silo.
    Where nobody said how records are drawn inside of a client, a record is in every step of it.
    """
    settings = run.settings
    if settings.unit == "record" and settings.rate is None and settings.clients_rate is not None:
        return 1.0
    whole_clients = settings.unit in ("user", "silo") and settings.records_per_user is None
    if settings.clients_rate is None:
        return settings.rate
    if whole_clients or (settings.rate is None and not _samples_records_besides(run)):
        return settings.clients_rate
    return settings.rate


def _samples_records_besides(run: PinnedRun) -> bool:
    """Return whether steps and epochs that are both stated tell of another rate than clients have.

    So they do where the draws of clients alone bring a record another number of times.
    """
    settings, epochs = run.settings, run.settings.epochs
    stated = "schedule.epochs" in run.stated and run.steps_are_counted
    if not stated or epochs is None or settings.steps is None or settings.clients_rate is None:
        return False
    return abs(settings.steps * settings.clients_rate - epochs) > 1.0 + PASSES_TOLERANCE * epochs


def run_events(run: PinnedRun, method: str, delta: float) -> RunEvents:
    """Return the events that bound a run whose batches are drawn by `method`.

    `method` is a word of `sampling.method` other than `unknown`; `delta` is that of the claim.
    Raises `LackingFacts` where keys are missing.
    """
    upper_noise, lower_noise = _noise_of_phases(run, method)
    if method == "shuffled" and len(lower_noise) > 1:
        phases = [phase for phase, _, _ in lower_noise]
        shown = independent_phases(run, phases, of_full_draws=True)
        lower_noise = [lower_noise[index] for index in shown]
    steps = _steps_of(run, method)
    adaptive = run.clip_source == "adaptive"
    moved = moved_in_a_batch(run, method)
    readings = upper_readings(run.settings.releases, steps, adaptive=adaptive, moved=moved)
    conditions = [
        f"`{each.what}` is computed from the batch of each step alone."
        for each in readings[-1].sampled
        if each.of_batch is None  # an adaptive clipping norm follows it
    ]
    upper: list[BoundingEvent] = []
    for released in readings:
        # Everything that a step releases of its batch is one draw.
        uppers = _parts(run, method, upper_noise, released, delta)
        upper += [
            _upper_composed(run, reading, released.aside)
            for reading in _readings([part.upper for part in uppers])
        ]
        conditions += [sentence for part in uppers for sentence in part.conditions]
    lower: list[LowerEnd] = []
    for released in lower_readings(run.settings.releases, steps, adaptive=adaptive):
        lowers = _parts(run, method, lower_noise, released, delta)
        conditions += [sentence for part in lowers for sentence in part.conditions]
        lower += [
            _lower_end(run, reading, released.aside)
            for reading in _readings([part.lower for part in lowers])
        ]
    if method == "shuffled" and len(run.settings.phases) > most_phases(run, method):
        conditions.append(UNINTERRUPTED)
    conditions += _batch_conditions(run)
    lacking = tuple(dict.fromkeys(key for part in uppers for key in part.lacking))
    return RunEvents(tuple(upper), tuple(lower), tuple(dict.fromkeys(conditions)), lacking)


NoiseOfPhase = tuple[Phase, ev.Event, ev.Event]


def _parts(
    run: PinnedRun,
    method: str,
    drawn: list[NoiseOfPhase],
    released: ReleaseReading,
    delta: float,
) -> list[RunEvents]:
    """Return the bounding events of each phase, which has its share of delta."""
    sampler, share = sampler_of(run, method), delta / len(drawn)
    return [sampler(run, _draws(run, method, each, released, share)) for each in drawn]


def _steps_of(run: PinnedRun, method: str) -> int:
    if run.event is not None:
        return sum(each.steps for each in as_stated_draws(run.event) or ())
    return sum(phase.steps for phase in phases_of(run, method))


def _noise_of_phases(run: PinnedRun, method: str) -> tuple[list[NoiseOfPhase], list[NoiseOfPhase]]:
    """Return the phases with their noise, for the upper and for the lower end."""
    if run.event is not None:
        stated = as_stated_draws(run.event) or ()
        drawn = [
            (
                Phase(0.0, 1.0 if method == "full" else each.rate * run.rate_factor, each.steps),
                clipped_together(run, each.draw),
                each.draw,
            )
            for each in stated
        ]
        return drawn, drawn
    many = most_phases(run, method)
    ends = ends_of(phases_of(run, method), in_passes=method == "shuffled", many=many)
    least = in_pairs(run, ends.lower) if method == "shuffled" else ends.lower
    upper, lower = ([_with_noise(run, phase) for phase in end] for end in (ends.upper, least))
    return upper, lower


def most_phases(run: PinnedRun, method: str) -> int:
    """Return how many different phases of a run are accounted one by one, by what each takes.

    What several batches in a draw, several records of a user, or a long shuffled pass cost is told
    by the dearest phase, before any engine is asked.
    """
    if run.event is not None:  # it stands for the phases, and has a limit of its own
        return MANY
    phases = phases_of(run, method)
    few, many = 1, MANY
    while few < many:  # the work of phases grows with their number
        middle = (few + many + 1) // 2
        different = ev.Compose(_different(run, method, phases, middle))
        little = work_of(of_unit(run, different)) <= MOST_PHASE_WORK
        few, many = (middle, many) if little else (few, middle - 1)
    return few


def _different(
    run: PinnedRun, method: str, phases: tuple[Phase, ...], count: int
) -> tuple[ev.Event, ...]:
    """Return so many different steps that are as much work as the dearest phase."""
    least = min((phase.noise_multiplier for phase in phases), default=1.0) or 1.0
    rate = min((phase.rate for phase in phases), default=1.0)
    draws = (ev.Gaussian(least * (1.0 + index / 2**20)) for index in range(count))
    if method == "shuffled":
        batches = max(1, math.ceil(1.0 / rate))
        return tuple(ev.ShuffledBatches(batches, draw) for draw in draws)
    if method == "with-replacement":
        return tuple(ev.WithReplacement(1, 2, draw) for draw in draws)
    return tuple(ev.Group(run.own_draws, ev.Poisson(0.5, draw)) for draw in draws)


def _with_noise(run: PinnedRun, phase: Phase) -> NoiseOfPhase:
    noise = phase.noise_multiplier
    return phase, upper_draw(run, noise), lower_draw(run, noise)


def _draws(
    run: PinnedRun, method: str, noise: NoiseOfPhase, released: ReleaseReading, delta: float
) -> PhaseDraws:
    """Return a phase's draws, with what is released of the batch of each."""
    phase, upper, lower = noise
    return PhaseDraws(
        with_releases(upper, released.sampled, method),
        shown_with(run, lower, released.sampled, method),
        phase,
        min(1.0, _least_rate(run, method, phase)),
        delta,
        run.own_draws,
    )


def _least_rate(run: PinnedRun, method: str, phase: Phase) -> float:
    """Return the rate at the lower end: batches of users may be batches of their records.

    A rate of one over the batches of a loader that drops the rest is more than that of a batch.
    """
    rate, share = phase.rate, batch_share(run, phase.rate)
    if share is not None and method not in JOINTLY_ACCOUNTED and not draws_records_of_silos(run):
        rate = min(rate, share)
    return rate


def _readings(parts: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    """Return what all phases are in each reading; one with fewer readings repeats its last."""
    most = max(len(part) for part in parts)
    return [tuple(part[min(index, len(part) - 1)] for part in parts) for index in range(most)]


def _upper_composed(
    run: PinnedRun, parts: tuple[BoundingEvent, ...], aside: tuple[ExtraRelease, ...]
) -> BoundingEvent:
    """Return all phases and releases, over groups, starts, periods and tuned runs, as one event."""
    relation: Neighbours = parts[0].neighbours
    times = run.settings.restarts * run.tuning_runs * periods(run, upper=True)
    released = (released_under(run, each, relation) for each in aside)
    event = of_unit(run, _composed((*(part.event for part in parts), *released)))
    spent = sum(part.delta_spent for part in parts) * times
    return BoundingEvent(_repeated(times, event), relation, spent)


def _lower_end(
    run: PinnedRun, phases: tuple[LowerEnd, ...], aside: tuple[ExtraRelease, ...]
) -> LowerEnd:
    """Return the events of all phases in one reading, each composed to the release.

    Where no engine accounts for a group, the data of a user with a single record that shows
    anything remains: that is the last event of each reading.
    """
    every = _readings(phases)
    if any(part.once for parts in every for part in parts):
        every = [(part,) for parts in every for part in parts]
    if any(part.alone for parts in every for part in parts):
        ends = [_lower_composed(run, parts, aside, grouped=False) for parts in every]
        return tuple(dict.fromkeys(ends))
    if run.event is not None and run.settings.sampled == "users":
        # Records of a user that are drawn together are no group of drawn records.
        return (_lower_composed(run, every[-1], aside, grouped=False),)
    ends = [_lower_composed(run, parts, aside) for parts in every]
    if isinstance(of_unit(run, every[-1][0].event), ev.Group):
        ends.append(_lower_composed(run, every[-1], aside, grouped=False))
    return tuple(dict.fromkeys(ends))


def _lower_composed(
    run: PinnedRun,
    parts: tuple[BoundingEvent, ...],
    aside: tuple[ExtraRelease, ...],
    *,
    grouped: bool = True,
) -> BoundingEvent:
    """Return what certainly happened to the same records: one of the tuned runs."""
    once = any(part.once for part in parts)
    times = 1 if once else run.settings.restarts * periods(run, upper=False)
    # Phases that are shown under another relation are left out.
    relation: Neighbours = parts[0].neighbours
    parts = tuple(part for part in parts if part.neighbours == relation)
    # A release is sized for the unit, whatever records it has.
    released = tuple(shown_under(each, relation) for each in aside)
    event = _composed(tuple(part.event for part in parts))
    event = of_unit(run, event) if grouped else event
    present = math.prod(part.present for part in parts) ** times
    if grouped and isinstance(event, ev.Group):
        present = max(0.0, 1.0 - event.size * (1.0 - present))
    composed = _composed((event, *released))
    return BoundingEvent(_repeated(times, composed), relation, 0.0, present)


def of_unit(run: PinnedRun, event: ev.Event) -> ev.Event:
    """Return an event about a record as one about a user with several."""
    records = run.settings.records_per_user or 1
    return ev.Group(records, event) if run.settings.unit == "user" and records > 1 else event


def _composed(events: tuple[ev.Event, ...]) -> ev.Event:
    return events[0] if len(events) == 1 else ev.Compose(events)


def _repeated(count: int, event: ev.Event) -> ev.Event:
    if count == 1:
        return event
    if isinstance(event, ev.Repeat):
        return ev.Repeat(count * event.count, event.event)
    return ev.Repeat(count, event)


def _batch_conditions(run: PinnedRun) -> list[str]:
    """Return the sentences that batches rest on, where these are not simple ones."""
    settings = run.settings
    sentences = unit_conditions(run)
    if settings.microbatches > 1:
        sentences.append(
            "A record changes one microbatch alone: which records are clipped together does not "
            "depend on who else is there."
        )
    if settings.batch is not None and settings.microbatches > settings.batch:
        sentences.append(
            f"Microbatches of {settings.microbatches:,} are more than the batch of "
            f"{settings.batch:,}: all records of a batch are clipped together."
        )
    in_parts = settings.accumulation_of == "one-sample" and settings.method != "shuffled"
    if settings.accumulation > 1 and in_parts:
        sentences.append(
            "The batches that are summed before a noise draw are parts of one sample: a record "
            "is in at most one of them."
        )
    return sentences


def unit_conditions(run: PinnedRun) -> list[str]:
    """Return the sentence that a promise for whole users or silos rests on."""
    unit = run.settings.unit
    if unit == "user" and run.settings.sampled == "records":
        return []
    if unit == "record" or (unit == "user" and run.settings.records_per_user is not None):
        return []
    return [
        f"{with_article(unit).capitalize()} takes part as a whole, and what it contributes to a "
        "step is clipped as a whole, in one draw."
    ]
