"""An observer's view of each canary in a round, and the rounds in which it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.randomness import Streams
from .federation import Coins
from .rehearsal_rounds import rounds_to_simulate, simulate_rounds
from .request import CanaryObservations, RehearsalRequest, require_observer

if TYPE_CHECKING:
    from ..frame.model import Parameters
    from ..frame.system import System

ObserveUnits: TypeAlias = "Callable[[Parameters, Parameters], FloatArray]"
"""From the models before and after a round to one observation of each unit: (m,)."""


@dataclass(frozen=True, eq=False)
class View:
    """What an observer sees of m units, as `CanaryObservations` describes it.

    `look` returns one number for each unit, in units of the claimed noise, with the sign that the
    unit has in the round (`Coins.sign`).  Where the observer knows the sample, `joined` returns
    which units took part in the last round, `rate` is 1, and a round that a unit missed is recorded
    as `missed`, half way between in and out.  Without `alternates` units keep their first sign.
    Where a look at a round shows what a unit did in an earlier one, `shown` returns that round, and
    its sign counts.
    """

    shift: float
    look: ObserveUnits
    rate: float = 1.0
    joined: Callable[[], BoolArray] | None = None
    missed: float = 0.0
    groups: IntArray | None = None
    note: tuple[str, ...] = ()
    alternates: bool = True
    shown: Callable[[int], int] = int


def observe_rounds(
    request: RehearsalRequest, system: System, coins: Coins, view: View, streams: Streams
) -> CanaryObservations:
    """Make the rounds of a system, and return what the observer sees of the units.

    `streams` are those that the system was built with.  Raises as `require_observer`, and what the
    system raises.
    """
    plan = system.plan()
    require_observer(plan, request.observer)
    rounds = rounds_to_simulate(plan, request.rounds)
    seen: FloatArray = np.empty((rounds, len(coins)))

    def each(number: int, before: Parameters, after: Parameters) -> None:
        # With the sign taken out, a unit that is in is seen at +shift in every round.
        row = view.look(before, after)
        row = row * (coins.sign(view.shown(number)) if view.alternates else coins.signs)
        if view.joined is not None:  # a round that a unit is known to have missed tells nothing
            row = np.where(view.joined(), row, view.missed)
        seen[number - 1] = row

    simulate_rounds(system, streams, rounds=request.rounds, each=each)
    return CanaryObservations(
        coins=coins.into,
        observations=seen,
        shift=view.shift,
        rate=view.rate,
        plan=plan,
        opening=system.opening(),
        rounds=rounds,
        groups=view.groups,
        note=view.note,
    )
