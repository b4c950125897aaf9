"""The promise of a run: its noise, its plan, and the guarantee that it claims.

A system gives the event of one round for each observer, as a function of the noise multiplier.  The
noise is given, or calibrated so that the claim holds before one observer (`budget`); the plan then
holds what the same noise proves to every other observer.  Phases that are released before the
training, with noise that is given, are paid from the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import InvalidInput
from ...accountant.guarantee import Bounds, Guarantee
from ...accountant.plan import Plan, PlannedPhase, plan_given_noise
from ...accountant.records import Claim, Planned
from .budget import (
    Views,
    event_seen_by,
    noise_within_budget,
    require_blocks,
    require_observer,
    require_schedule,
    rounds_within_budget,
)
from .phases import training_phase
from .privacy import PrivacyTarget

TRAINING_PHASE: Final = "train"
"""The name of the phase in which models are trained, where a system does not name its own."""

_CLAIM_DIGITS: Final = 6
"""Significant digits of a claimed epsilon, rounded up."""


@dataclass(frozen=True)
class Promise:
    """The noise multiplier of a run, its plan, and the guarantee that it claims."""

    noise_multiplier: float
    plan: Plan
    claim: Claim

    @property
    def rounds(self) -> int:
        """How many releases are planned, in all phases."""
        return sum(phase.rounds for phase in self.plan.phases)

    @property
    def planned(self) -> Planned:
        """The plan as the log announces it: the number of releases, and an event per observer.

        Where silos take part by a schedule, the events are those of one unit, and their number is
        announced with that of all releases.
        """
        phases = self.plan.phases
        scheduled = any(phase.counted is not None for phase in phases)
        counted = sum(phase.events_of_a_unit for phase in phases) if scheduled else None
        events = {who: self.plan.seen_by(who) for who in self.plan.guarantees}
        return Planned(self.rounds, events, counted)

    @property
    def training(self) -> PlannedPhase:
        """The phase whose rounds make the models."""
        return training_phase(self.plan.phases)

    @property
    def event(self) -> ev.Event:
        """The event of one round of the training, for an observer of the released model."""
        return self.training.event

    @property
    def views(self) -> dict[str, ev.Event]:
        """The events of one round of the training for all other observers."""
        views = self.training.views
        return {observer: event for observer, event in views.items() if observer != "model"}


def promise(
    views: Views,
    privacy: PrivacyTarget,
    rounds: int,
    earlier: Sequence[PlannedPhase] = (),
    phase: str = TRAINING_PHASE,
    counted: int | None = None,
    blocks: int | None = None,
    later: Sequence[PlannedPhase] = (),
) -> Promise:
    """Return the promise of a run: at most `rounds` rounds of `phase`, after the phases `earlier`.

    - `noise_multiplier` alone: all rounds are made, and the claim is what they prove.
    - `epsilon` alone: all rounds are made, with the least noise that keeps it.
    - both: as many rounds are made as keep it, a number that is fixed now.

    `views` gives the event of one round for each observer.  The phases `earlier`, and those that
    come `later`, have noise that is given, and every observer sees them; noise, rounds and claim
    are for all phases together.
    `counted` is how many rounds of `phase` one silo takes part in at most, by a public schedule;
    None: all.  With `blocks` the views are those of a block, of which there are so many.

    The claim is for `privacy.observer`; where no epsilon was asked for, the proven one is rounded
    up.  Raises `InvalidInput` without noise and budget, or for an observer that the run does not
    have; `BudgetExceeded` where the budget does not allow one round; and as `plan`.
    """
    require_schedule(privacy, counted)
    require_blocks(privacy, blocks)
    given = (*earlier, *later)
    noise = noise_within_budget(views, privacy, rounds, given, phase, counted, blocks)
    at_noise = views(noise)
    event = event_seen_by(privacy.observer, at_noise)
    allowed = rounds_within_budget(event, noise, privacy, rounds, given)
    plan = plan_given_noise(
        [
            *earlier,
            PlannedPhase(phase, noise, at_noise["model"], allowed, at_noise, counted, blocks),
            *later,
        ],
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        unit="record" if privacy.group > 1 else privacy.unit,
        group=privacy.group,
    )
    if later:
        plan = _attained(plan, len(later), privacy)
    # An upper end, so the claim is never below what the plan proves.
    proven = plan.guarantees[privacy.observer].epsilon.upper
    return Promise(noise, plan, claimed(privacy, _claimed_epsilon(privacy, proven)))


def _attained(plan: Plan, later: int, privacy: PrivacyTarget) -> Plan:
    """Return a plan whose lower ends are those of the training alone.

    A unit that is trained on has no part in the votes that come later, and the other way round.  By
    one hash of its name it is on one side, so no data attain what is spent on both together.
    """
    alone = plan_given_noise(
        plan.phases[:-later],
        delta=plan.delta,
        neighbours=plan.neighbours,
        unit="record" if privacy.group > 1 else privacy.unit,
        group=privacy.group,
    )

    def attained(who: str, proven: Guarantee) -> Guarantee:
        known = alone.guarantees.get(who)
        below = 0.0 if known is None else known.epsilon.lower
        ends = Bounds(min(below, proven.epsilon.lower), proven.epsilon.upper)
        return replace(proven, epsilon=ends)

    return replace(
        plan, guarantees={who: attained(who, proven) for who, proven in plan.guarantees.items()}
    )


def noise_as_published(privacy: PrivacyTarget, method: str = "A method") -> float:
    """Return the noise multiplier of a method as published; `InvalidInput` where it has none."""
    if privacy.noise_multiplier is None or privacy.epsilon is not None:
        raise InvalidInput(
            f"{method} as published takes a noise multiplier, and no epsilon.",
            "Noise found by its formula would not keep the budget.",
            "Give `noise_multiplier`, or leave `as_published` out.",
        )
    return privacy.noise_multiplier


def unproven(
    views: Views,
    privacy: PrivacyTarget,
    rounds: int,
    event: ev.NoGuarantee,
    published: Callable[[float], float],
    phase: str = TRAINING_PHASE,
    earlier: Sequence[PlannedPhase] = (),
    later: Sequence[PlannedPhase] = (),
) -> Promise:
    """Return the promise of an unsound method that is run as published: nothing is proven.

    `event` is the event of every round of `phase`, and says why; `published` is the paper's
    formula, from the noise multiplier to the epsilon that the paper claims.  The phases `earlier`
    are released before, and `later` after, with noise that is given.  Raises `InvalidInput` unless
    the noise is given.
    """
    noise = noise_as_published(privacy)
    at_noise = views(noise)
    require_observer(privacy.observer, at_noise)
    plan = plan_given_noise(
        [*earlier, PlannedPhase(phase, noise, event, rounds, at_noise), *later],
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        unit=privacy.unit,
    )
    return Promise(noise, plan, claimed(privacy, rounded_up(published(noise))))


def restated(promise: Promise, planned: Planned, privacy: PrivacyTarget) -> Promise | None:
    """Return the promise with its phases' events as a log announced them, observer by observer.

    None where the announcement has another shape, or states another event for the released model:
    then it was another plan.
    """
    phases = promise.plan.phases
    views: list[dict[str, ev.Event]] = [{} for _ in phases]
    for observer, event in planned.events.items():
        events = _round_events(event, len(phases))
        if events is None:
            return None
        for phase_views, phase_event in zip(views, events, strict=True):
            phase_views[observer] = phase_event
    announced = [
        replace(phase, views=phase_views) for phase, phase_views in zip(phases, views, strict=True)
    ]
    # The released model must mean the same in both statements, or the noise differs.
    if any(phase.event != phase.views.get("model") for phase in announced):
        return None
    plan = plan_given_noise(
        announced,
        delta=promise.plan.delta,
        neighbours=promise.plan.neighbours,
        unit="record" if privacy.group > 1 else privacy.unit,
        group=privacy.group,
    )
    result = replace(promise, plan=plan)
    return result if result.planned == planned else None


def _round_events(event: ev.Event, phases: int) -> tuple[ev.Event, ...] | None:
    """Return one round of each phase of an event that `Plan.seen_by` made; None for another."""
    # A group of records wraps the whole composition, not each phase.
    inner = event.event if isinstance(event, ev.Group) else event
    repeats = inner.events if isinstance(inner, ev.Compose) else (inner,)
    rounds = tuple(part.event for part in repeats if isinstance(part, ev.Repeat))
    return rounds if len(rounds) == len(repeats) == phases else None


def claimed(privacy: PrivacyTarget, epsilon: float | None) -> Claim:
    """Return the claim of `epsilon` for what is protected; None claims nothing."""
    return Claim(
        privacy.unit,
        privacy.neighbours,
        privacy.delta,
        epsilon,
        privacy.observer,
        privacy.group,
    )


def rounded_up(value: float) -> float:
    """Return the value to six significant digits, at or above itself; infinity as it is."""
    if not 0.0 < value < math.inf:
        return value
    # `round` may round down: then one unit of the last digit is added.
    decimals = _CLAIM_DIGITS - 1 - math.floor(math.log10(value))
    rounded = round(value, decimals)
    return rounded if rounded >= value else round(value + 10.0**-decimals, decimals)


def _claimed_epsilon(privacy: PrivacyTarget, proven: float) -> float:
    """Return the epsilon to claim: the target, or the proven one rounded up within the budget."""
    if privacy.epsilon is None:
        return rounded_up(proven)
    if privacy.noise_multiplier is None:
        return privacy.epsilon  # noise was calibrated to it
    return min(rounded_up(proven), privacy.epsilon)
