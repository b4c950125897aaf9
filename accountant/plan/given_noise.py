"""A plan whose noise is given: nothing is sought, everything is certified."""

from __future__ import annotations

from collections.abc import Sequence

from .. import events as ev
from .. import validate
from ..errors import InvalidInput
from ..event_tree import unit_of
from ..guarantee import Guarantee
from ..neighbours import as_neighbours
from .phases import (
    Phase,
    PlannedPhase,
    grouped,
    observers_of,
    of_units,
    proven,
    refuse_twice,
    require_blocks,
    require_counted,
    require_single_units,
    unit_named,
)
from .planning import Plan

SPLIT = "given"
"""The split of a plan whose noise was given."""


def plan_given_noise(
    phases: Sequence[Phase | PlannedPhase],
    *,
    delta: float,
    neighbours: str = "add-remove",
    unit: str = "record",
    group: int = 1,
) -> Plan:
    """Return the plan of phases whose noise is known, with what it proves to every observer.

    A phase is a fixed `Phase` (its `make_event` and its views are events), or a `PlannedPhase`:
    `Phase.at(noise)`.  The guarantees are those of `plan` for the same noise, and the plan's
    `epsilon` is the largest of them: there is no target.  `group` and `unit` as for `plan`.

    Range: `delta` in (0, 1), `group` 1 or above.  Raises `InvalidInput` where the noise of a phase
    is not known, `Unsupported` where no engine has sound mathematics for what an observer sees.

    >>> plan = plan_given_noise([Phase("train", ev.Gaussian(5.0), 50)], delta=1e-5)
    >>> round(plan.guarantees["model"].epsilon.upper, 2)
    6.57
    """
    planned = tuple(_known(phase) for phase in _listed(phases))
    refuse_twice([phase.name for phase in planned])
    at_delta = validate.open_probability(delta=delta)
    relation = as_neighbours(neighbours)
    size = validate.count(group=group)
    require_single_units(planned, size)
    known: dict[ev.Event, Guarantee] = {}
    guarantees = {
        name: proven(planned, name, delta=at_delta, relation=relation, group=size, known=known)
        for name in observers_of([phase.observers for phase in planned])
    }
    whole = grouped([phase.event for phase in planned], size)
    return Plan(
        planned,
        of_units(guarantees, unit),
        max(guarantee.epsilon.upper for guarantee in guarantees.values()),
        at_delta,
        relation,
        SPLIT,
        0.0,
        "none",
        size,
        unit_named(unit_of(whole), unit),
    )


def _listed(phases: Sequence[Phase | PlannedPhase]) -> tuple[Phase | PlannedPhase, ...]:
    listed = tuple(phases) if isinstance(phases, (list, tuple)) else ()
    if not listed or not all(isinstance(phase, (Phase, PlannedPhase)) for phase in listed):
        raise InvalidInput(
            "A plan needs a list of one or more phases.",
            next_step="Give [Phase('train', Gaussian(5.0), 10)].",
        )
    return listed


def _known(phase: Phase | PlannedPhase) -> PlannedPhase:
    if isinstance(phase, PlannedPhase):
        validate.count(rounds=phase.rounds)
        require_counted(phase.name, phase.rounds, phase.counted)
        require_blocks(phase.name, phase.rounds, phase.counted, phase.blocks)
        # A guarantee is about views: an event that nobody sees would be proven nothing about.
        if phase.event not in phase.views.values():
            raise InvalidInput(
                f"Nobody sees what phase {phase.name!r} releases.",
                "Its views are other events, and what it proves is about its views.",
                "State its event among them, as `Phase.at` does.",
            )
        return phase
    if not all(isinstance(event, ev.Event) for event in phase.seen.values()):
        raise InvalidInput(
            f"The noise of phase {phase.name!r} is not given.",
            "Its event is a function of the noise multiplier.",
            "Give `phase.at(noise)`, or let `plan` find the noise.",
        )
    return phase.at(1.0)
