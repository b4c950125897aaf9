"""Rounds of a system without a folder, and how many of its plan they are.

What canaries know of phases and of how a round is made stands here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...accountant.mechanisms import Gate
from ...accountant.odometer import Odometer
from ...accountant.randomness import Streams
from ..promise import PHASE
from .watch import Memory

if TYPE_CHECKING:
    from ...accountant.plan import Plan, PlannedPhase
    from ..system import Parameters, System

Each: TypeAlias = "Callable[[int, Parameters, Parameters], None]"
"""Called after a release with its round, the model before it and the model after it."""


def conduct(system: System, streams: Streams, *, rounds: int | None = None, each: Each) -> Memory:
    """Make the rounds of a system (those of its plan, or fewer), and return the log of them.

    The gate, the odometer and the order of things are those of a run; there is no folder, and the
    log is in memory.  Raises what the system raises.
    """
    plan, opening, log = system.plan(), system.opening(), Memory()
    promises = not opening.as_published and opening.claim.epsilon is not None
    gate = Gate(Odometer.for_plan(plan) if promises else None, log, streams)
    model = system.initial()
    with np.errstate(all="ignore"):
        for number in range(1, rounds_made(plan, rounds) + 1):
            moved = system.round(number, model, gate).parameters
            each(number, model, moved)
            model = moved
    return log


def rounds_made(plan: Plan, rounds: int | None = None) -> int:
    """Return how many rounds of training are made: those planned, or `rounds` if that is fewer."""
    planned = sum(phase.rounds for phase in plan.phases if phase.name == PHASE)
    return planned if rounds is None else min(rounds, planned)


def by_phase(plan: Plan, rounds: int) -> list[int]:
    """Return how often each phase of a plan was made, with so many rounds of training."""
    return [rounds if phase.name == PHASE else phase.rounds for phase in plan.phases]


def training_of(plan: Plan) -> PlannedPhase:
    """Return the phase of a plan in which canaries take part."""
    (training,) = (phase for phase in plan.phases if phase.name == PHASE)
    return training


def training_noise(plan: Plan) -> float:
    """Return the noise multiplier of that phase, which has one wherever something is promised."""
    noise = training_of(plan).noise_multiplier
    assert noise is not None
    return noise
