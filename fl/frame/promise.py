"""From what one round reveals, to the plan of a run and to what the run promises.

A system says what each observer sees of one round, as events of the noise multiplier.  The noise
is given, or found so that the promise holds before one observer; what the same noise proves to all
others stands in the plan beside it.  What is released before the training, with noise that is
given, is paid from the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.errors import BudgetExceeded, InvalidInput
from ...accountant.plan import Phase, Plan, PlannedPhase, affordable, given, plan
from ...accountant.records import Claim, Planned
from ..observers.names import SILO, SILO_WITH_RECORDS
from .privacy import PrivacyTarget

Views: TypeAlias = Callable[[float], Mapping[str, ev.Event]]
"""From a noise multiplier to one round as each observer sees it."""

TRAINING_PHASE: Final = "train"
"""The name of the phase in which models are trained, where a system does not name its own."""

_WAY: Final = 'Write weighting = "uniform" in [training] or another aggregation in [security]'
_WAYS: Final[Mapping[str, str]] = {
    SILO_WITH_RECORDS: 'Write aggregation = "private-weighting" in [security], or weighting = '
    f'"uniform" in [training] with observer = "{SILO}"',
}
"""What gives a guarantee before an observer; masks hide no weight from who applies it."""

_CLAIM_DIGITS: Final = 6
"""Significant digits of a claimed epsilon, rounded up."""


@dataclass(frozen=True)
class Promise:
    """The noise of a run, its plan, and what it promises."""

    noise_multiplier: float
    plan: Plan
    claim: Claim

    @property
    def rounds(self) -> int:
        """How many releases are planned, in all phases."""
        return sum(phase.rounds for phase in self.plan.phases)

    @property
    def planned(self) -> Planned:
        """What was fixed before the first release, as the log states it."""
        return Planned(self.rounds, {who: self.plan.seen_by(who) for who in self.plan.guarantees})

    @property
    def event(self) -> ev.Event:
        """One round of the last phase, as who sees the released model sees it."""
        return self.plan.phases[-1].event

    @property
    def views(self) -> dict[str, ev.Event]:
        """One round of the last phase, as all others see it."""
        own = self.plan.phases[-1]
        return {who: event for who, event in own.views.items() if who != "model"}


def promise(
    views: Views,
    privacy: PrivacyTarget,
    rounds: int,
    before: Sequence[PlannedPhase] = (),
    phase: str = TRAINING_PHASE,
) -> Promise:
    """Return the promise of a run of at most `rounds` rounds of `phase`, after other phases.

    - `noise_multiplier` alone: all rounds, and the claim is what they prove to the observer.
    - `epsilon` alone: all rounds, with the least noise that proves it.
    - both: the most rounds that prove it, fixed now, whatever the first rounds will show.

    `before` are phases that are made first, with noise that is given; they are seen by all.  What
    is proven, found and cut is for them and the training together.

    The claim is for `privacy.observer`; a number that was not asked for is rounded up.  Raises
    `InvalidInput` without noise and budget, or for an observer that sees nothing,
    `BudgetExceeded` where the budget does not allow one round, and as `plan` does.
    """
    noise = _noise(views, privacy, rounds, before, phase)
    seen = views(noise)
    event = _before(seen, privacy.observer)
    made = _rounds(event, noise, privacy, rounds, before)
    found = given(
        [*before, PlannedPhase(phase, noise, seen["model"], made, seen)],
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        unit="record" if privacy.group > 1 else privacy.unit,
        group=privacy.group,
    )
    proven = found.guarantees[privacy.observer].epsilon.upper
    return Promise(noise, found, claimed(privacy, _stated(privacy, proven)))


def unproven(
    views: Views,
    privacy: PrivacyTarget,
    rounds: int,
    event: ev.NoGuarantee,
    published: Callable[[float], float],
) -> Promise:
    """Return the promise of a method that is run as published and is not sound: none.

    `event` says why, in every round; `published` is the paper's formula, from the noise multiplier
    to the epsilon that is claimed.  Raises `InvalidInput` unless the noise is given.
    """
    noise = privacy.noise_multiplier
    if noise is None or privacy.epsilon is not None:
        raise InvalidInput(
            "A method as published takes a noise multiplier, and no epsilon.",
            "Noise found by its formula would not keep the budget.",
            "Give `noise_multiplier`, or leave `as_published` out.",
        )
    seen = views(noise)
    _require_among(seen, privacy.observer)
    plan = given(
        [PlannedPhase(TRAINING_PHASE, noise, event, rounds, seen)],
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        unit=privacy.unit,
    )
    return Promise(noise, plan, claimed(privacy, rounded_up(published(noise))))


def restated(made: Promise, planned: Planned, privacy: PrivacyTarget) -> Promise | None:
    """Return a promise whose phases are stated as a log announced them, to whom it did.

    What is stated to the model must be what it was; None where the announcement has another shape.
    """
    views: list[dict[str, ev.Event]] = [{} for _ in made.plan.phases]
    for who, event in planned.events.items():
        parts = _parts(event, len(views))
        if parts is None:
            return None
        for own, part in zip(views, parts, strict=True):
            own[who] = part
    phases = [replace(phase, views=own) for phase, own in zip(made.plan.phases, views, strict=True)]
    if any(phase.event != phase.views.get("model") for phase in phases):
        return None
    plan = given(
        phases,
        delta=made.plan.delta,
        neighbours=made.plan.neighbours,
        unit="record" if privacy.group > 1 else privacy.unit,
        group=privacy.group,
    )
    found = replace(made, plan=plan)
    return found if found.planned == planned else None


def _parts(event: ev.Event, phases: int) -> tuple[ev.Event, ...] | None:
    """Return one round of each phase of an event that `Plan.seen_by` made; None for another."""
    inside = event.event if isinstance(event, ev.Group) else event
    parts = inside.events if isinstance(inside, ev.Compose) else (inside,)
    rounds = tuple(part.event for part in parts if isinstance(part, ev.Repeat))
    return rounds if len(rounds) == len(parts) == phases else None


def claimed(privacy: PrivacyTarget, epsilon: float | None) -> Claim:
    """Return the claim of an epsilon, which may be None."""
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
    place = _CLAIM_DIGITS - 1 - math.floor(math.log10(value))
    rounded = round(value, place)
    return rounded if rounded >= value else round(value + 10.0**-place, place)


def _stated(privacy: PrivacyTarget, proven: float) -> float:
    """Return the epsilon to claim: the target, or what is proven, rounded up within a budget."""
    if privacy.epsilon is None:
        return rounded_up(proven)
    if privacy.noise_multiplier is None:
        return privacy.epsilon
    return min(rounded_up(proven), privacy.epsilon)


def _noise(
    views: Views, privacy: PrivacyTarget, rounds: int, before: Sequence[PlannedPhase], phase: str
) -> float:
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier
    if privacy.epsilon is None:
        raise InvalidInput(
            "Neither a noise multiplier nor an epsilon is given.",
            "One of them fixes how much noise protects a unit.",
            "Give `noise_multiplier`, or `epsilon` to have the noise found.",
        )
    _before(views(1.0), privacy.observer)
    who = privacy.observer
    _require_room(privacy, before)
    found = plan(
        [
            *(Phase(one.name, one.views[who], one.rounds, who) for one in before),
            Phase(phase, lambda noise: views(noise)[who], rounds, who),
        ],
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        group=privacy.group,
    )
    return found.noise[phase]


def _before(seen: Mapping[str, ev.Event], observer: str) -> ev.Event:
    """Return what an observer sees; `InvalidInput` where the run has none such, or no guarantee."""
    _require_among(seen, observer)
    event = seen[observer]
    if isinstance(event, ev.NoGuarantee):
        raise InvalidInput(
            f"Nothing can be promised before {observer!r}: {event.reason}.",
            "No noise makes up for that.",
            f"{_WAYS.get(observer, _WAY)}, or name another `observer` in [privacy].",
        )
    return event


def _require_among(seen: Mapping[str, ev.Event], observer: str) -> None:
    """Raise `InvalidInput` where a run has no such observer."""
    if observer == SILO_WITH_RECORDS and observer not in seen and SILO in seen:
        raise InvalidInput(
            f"This run has no observer {observer!r} of its own.",
            f"A silo with records of the unit learns here what `{SILO}` learns.",
            f'Write observer = "{SILO}" in [privacy]; its number is for both.',
        )
    if observer not in seen:
        raise InvalidInput(
            f"This run has no observer {observer!r} of its own.",
            f"It has {', '.join(seen)}.",
            "Name one of them as `observer` in [privacy].",
        )


def _rounds(
    event: ev.Event,
    noise: float,
    privacy: PrivacyTarget,
    rounds: int,
    before: Sequence[PlannedPhase],
) -> int:
    if privacy.noise_multiplier is None or privacy.epsilon is None:
        return rounds
    _require_room(privacy, before)
    made = affordable(
        event,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        most=rounds,
        neighbours=privacy.neighbours,
        group=privacy.group,
        before=_seen(privacy, before),
    )
    if made == 0:
        raise BudgetExceeded(
            f"Epsilon {privacy.epsilon:g} does not allow a single round with noise {noise:g}"
            + "".join(f", after the phase {one.name!r}" for one in before)
            + ".",
            "Nothing was released, and nothing is spent.",
            "Give more noise, a lower sampling rate, or a larger epsilon.",
        )
    return made


def _seen(privacy: PrivacyTarget, before: Sequence[PlannedPhase]) -> tuple[ev.Event, ...]:
    """Return what the claim's observer sees of the phases before the training."""
    found = (one.seen_by(privacy.observer) for one in before)
    return tuple(event for event in found if event is not None)


def _require_room(privacy: PrivacyTarget, before: Sequence[PlannedPhase]) -> None:
    """Raise `BudgetExceeded` where nothing of a budget is left for training."""
    seen = _seen(privacy, before)
    if not seen or privacy.epsilon is None:
        return
    whole: ev.Event = ev.Compose(seen)
    if privacy.group > 1:
        whole = ev.Group(privacy.group, whole)
    spent = account(whole, delta=privacy.delta, neighbours=privacy.neighbours)
    if spent.epsilon.upper >= privacy.epsilon:
        names = " and ".join(repr(one.name) for one in before)
        raise BudgetExceeded(
            f"The phase {names} alone spends epsilon {spent.epsilon.upper:.6g} of "
            f"{privacy.epsilon:g}.",
            "Nothing was released, and nothing is spent.",
            "Give that phase more noise, or a larger epsilon.",
        )
