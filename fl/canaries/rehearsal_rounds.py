"""The rounds of a rehearsal: made in memory, under the gate and the odometer of a run.

All that canaries need to know about phases, and about how a round is made, is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ...accountant.errors import Unsupported
from ...accountant.mechanisms import Gate
from ...accountant.odometer import Odometer
from ...accountant.plan import Plan, PlannedPhase
from ...accountant.randomness import Streams
from ..frame import phases
from ..frame.model import Parameters
from ..frame.phases import rounds_by_phase
from ..frame.rounds import simulated_rounds
from ..frame.system import System
from .memory_log import MemoryLog

AfterRound: TypeAlias = "Callable[[int, Parameters, Parameters], None]"
"""Called after a release with its round, the model before it and the model after it."""


def simulate_rounds(
    system: System, streams: Streams, *, rounds: int | None = None, each: AfterRound
) -> MemoryLog:
    """Make the planned rounds of a system, or the first `rounds`, and return their log.

    Gate, odometer and the order of intents and releases are those of a run; the log is in memory.
    `each` is called after every release.  Raises what the system raises.
    """
    _require_models_only(system)
    plan, opening, log = system.plan(), system.opening(), MemoryLog()
    # Without a claim there is no budget that an odometer could refuse by.
    promises = not opening.as_published and opening.claim.epsilon is not None
    odometer = Odometer.for_plan(plan) if promises else None
    gate = Gate(odometer, log, streams, unpromised=opening.as_published)
    with np.errstate(all="ignore"):
        for number, model, moved in simulated_rounds(system, gate, most=rounds):
            each(number, model, moved.parameters)
    return log


def _require_models_only(system: System) -> None:
    """Raise `Unsupported` for a system with a phase that releases something else than models."""
    others = [phase.name for phase in system.phases if phase.once is not None]
    if others:
        raise Unsupported(
            f"The phase {others[0]!r} of {system.name} is not rehearsed with canaries.",
            "What is seen of a canary is how it moves a model, and this phase releases none.",
            "Rehearse the system without it: its carrier says with which settings.",
        )


def rounds_to_simulate(plan: Plan, rounds: int | None = None) -> int:
    """Return the number of rounds: those planned, or `rounds` if that is fewer."""
    planned = sum(phase.rounds for phase in plan.phases)
    return planned if rounds is None else min(rounds, planned)


def by_phase(plan: Plan, rounds: int) -> list[int]:
    """Return how many events of each phase the first `rounds` rounds of a plan are paid with.

    One for each round, or for each block of rounds that they began: it is paid whole.
    """
    counts = zip(plan.phases, rounds_by_phase(plan.phases, rounds), strict=True)
    return [
        count if phase.blocks is None else -(-count * phase.blocks // phase.rounds)
        for phase, count in counts
    ]


def training_phase(plan: Plan) -> PlannedPhase:
    """Return the phase of a plan in which canaries take part: that of the models."""
    return phases.training_phase(plan.phases)


def training_noise(plan: Plan) -> float:
    """Return the noise multiplier of that phase, which has one wherever something is promised."""
    noise = training_phase(plan).noise_multiplier
    assert noise is not None
    return noise
