"""How much noise, or how many rounds, the budget of a run allows.

    epsilon given             the least noise with which all rounds keep it
    epsilon and noise given   the most rounds that keep it

Both are for one observer, and count what other phases of the run release to that observer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.errors import BudgetExceeded, InvalidInput
from ...accountant.plan import Phase, PlannedPhase, affordable, plan
from ...accountant.records.participation import counts_by_silo
from ..observers.names import SILO, SILO_WITH_RECORDS
from .privacy import PrivacyTarget

Views: TypeAlias = Callable[[float], Mapping[str, ev.Event]]
"""From a noise multiplier to the event of one round for each observer."""

_USUAL_REMEDY: Final = (
    'Write weighting = "uniform" in [training] or another aggregation in [security]'
)
_REMEDIES: Final[Mapping[str, str]] = {
    SILO_WITH_RECORDS: 'Write aggregation = "private-weighting" in [security], or weighting = '
    f'"uniform" in [training] with observer = "{SILO}"',
}
"""By observer: the settings under which there is a guarantee; masks hide no weight from a silo."""


def require_schedule(privacy: PrivacyTarget, counted: int | None) -> None:
    """Raise `InvalidInput` where rounds cannot be counted by silo, or their number is left open.

    `counted` is how many rounds one silo takes part in at most; None is always allowed.
    """
    if counted is None:
        return
    if not counts_by_silo(privacy.unit, privacy.neighbours, privacy.group):
        raise InvalidInput(
            f"The rounds of one silo cannot be counted for the unit {privacy.unit!r} under "
            f"{privacy.neighbours!r}.",
            "A unit pays for the rounds of one silo only where all of it lies in that silo, and "
            "the silo stays.",
            "Protect records, or silos under replace-one, or count every round.",
        )
    if privacy.noise_multiplier is not None and privacy.epsilon is not None:
        raise InvalidInput(
            "Noise and epsilon are both given, and silos take part by a schedule.",
            "A budget that cuts rounds off would leave another schedule than the announced one.",
            "Give `noise_multiplier` or `epsilon`, and not both.",
        )


def require_blocks(privacy: PrivacyTarget, blocks: int | None) -> None:
    """Raise `InvalidInput` where a limit would cut off rounds that share correlated noise."""
    if blocks is not None and privacy.noise_multiplier is not None and privacy.epsilon is not None:
        raise InvalidInput(
            "Noise and epsilon are both given, and rounds share correlated noise.",
            "They are paid for in blocks, so a limit does not cut single rounds off.",
            "Give `noise_multiplier` or `epsilon`, and not both.",
        )


def noise_within_budget(
    views: Views,
    privacy: PrivacyTarget,
    rounds: int,
    earlier: Sequence[PlannedPhase],
    phase: str,
    counted: int | None = None,
    blocks: int | None = None,
) -> float:
    """Return the noise multiplier: the given one, or the least that keeps `privacy.epsilon`.

    `views` gives one round of `phase`, of which there are `rounds`, made after the phases
    `earlier`; `counted` of them are of one unit at most (None: all); with `blocks` the views are of
    a block, of which there are so many.  Raises `InvalidInput` without
    noise and budget, `BudgetExceeded` where the earlier phases alone spend the budget, and as
    `plan`.
    """
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier
    if privacy.epsilon is None:
        raise InvalidInput(
            "Neither a noise multiplier nor an epsilon is given.",
            "One of them fixes how much noise protects a unit.",
            "Give `noise_multiplier`, or `epsilon` to have the noise found.",
        )
    observer = privacy.observer
    event_seen_by(observer, views(1.0))  # refused before a search, whatever the noise
    _require_budget_left(privacy, earlier)
    # Only the last phase's noise is unknown; the earlier phases have theirs.
    calibrated = plan(
        [
            *(Phase(done.name, done.views[observer], done.rounds, observer) for done in earlier),
            Phase(
                phase,
                lambda noise: views(noise)[observer],
                rounds,
                observer,
                counted=counted,
                blocks=blocks,
            ),
        ],
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        group=privacy.group,
    )
    return calibrated.noise[phase]


def event_seen_by(observer: str, views: Mapping[str, ev.Event]) -> ev.Event:
    """Return the event of one round for an observer.

    Raises `InvalidInput` where the run has no such observer, or nothing is guaranteed before it.
    """
    require_observer(observer, views)
    event = views[observer]
    if isinstance(event, ev.NoGuarantee):
        raise InvalidInput(
            f"Nothing can be promised before {observer!r}: {event.reason}.",
            "No noise makes up for that.",
            f"{_REMEDIES.get(observer, _USUAL_REMEDY)}, or name another `observer` in [privacy].",
        )
    return event


def require_observer(observer: str, views: Mapping[str, ev.Event]) -> None:
    """Raise `InvalidInput` where a run has no such observer."""
    if observer == SILO_WITH_RECORDS and observer not in views and SILO in views:
        raise InvalidInput(
            f"This run has no observer {observer!r} of its own.",
            f"A silo with records of the unit learns here what `{SILO}` learns.",
            f'Write observer = "{SILO}" in [privacy]; its number is for both.',
        )
    if observer not in views:
        raise InvalidInput(
            f"This run has no observer {observer!r} of its own.",
            f"It has {', '.join(views)}.",
            "Name one of them as `observer` in [privacy].",
        )


def rounds_within_budget(
    event: ev.Event,
    noise: float,
    privacy: PrivacyTarget,
    rounds: int,
    earlier: Sequence[PlannedPhase],
) -> int:
    """Return how many rounds of `event` are made: all, or those that `privacy.epsilon` allows.

    Where noise and budget are both given, the number is fixed here, before the first release:
    stopping when results look good enough would be adaptive, and needs other mathematics.  Raises
    `BudgetExceeded` where not one round is allowed.
    """
    if privacy.noise_multiplier is None or privacy.epsilon is None:
        return rounds
    _require_budget_left(privacy, earlier)
    # The most rounds whose composition with the earlier phases keeps epsilon at delta.
    allowed = affordable(
        event,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        most=rounds,
        neighbours=privacy.neighbours,
        group=privacy.group,
        before=_earlier_events(privacy, earlier),
    )
    if allowed == 0:
        raise BudgetExceeded(
            f"Epsilon {privacy.epsilon:g} does not allow a single round with noise {noise:g}"
            + "".join(f", after the phase {done.name!r}" for done in earlier)
            + ".",
            "Nothing was released, and nothing is spent.",
            "Give more noise, a lower sampling rate, or a larger epsilon.",
        )
    return allowed


def _earlier_events(
    privacy: PrivacyTarget, earlier: Sequence[PlannedPhase]
) -> tuple[ev.Event, ...]:
    """Return the events of the earlier phases for the observer of the claim."""
    events = (done.seen_by(privacy.observer) for done in earlier)
    return tuple(event for event in events if event is not None)


def _require_budget_left(privacy: PrivacyTarget, earlier: Sequence[PlannedPhase]) -> None:
    """Raise `BudgetExceeded` where the earlier phases alone spend the budget."""
    released = _earlier_events(privacy, earlier)
    if not released or privacy.epsilon is None:
        return
    composed: ev.Event = ev.Compose(released)
    if privacy.group > 1:
        composed = ev.Group(privacy.group, composed)
    # By the upper end: a budget is exhausted as soon as it may be.
    spent = account(composed, delta=privacy.delta, neighbours=privacy.neighbours)
    if spent.epsilon.upper >= privacy.epsilon:
        names = " and ".join(repr(done.name) for done in earlier)
        raise BudgetExceeded(
            f"The phase {names} alone spends epsilon {spent.epsilon.upper:.6g} of "
            f"{privacy.epsilon:g}.",
            "Nothing was released, and nothing is spent.",
            "Give that phase more noise, or a larger epsilon.",
        )
