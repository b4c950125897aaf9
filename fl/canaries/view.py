"""What an observer sees of each canary in a round, and the rounds in which it is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...accountant.randomness import Streams
from .coins import Coins, Flags, Floats, Indices
from .rehearsal_rounds import conduct, rounds_made
from .request import Asked, Seen, require_observer

if TYPE_CHECKING:
    from ..frame.system import Parameters, System

Look: TypeAlias = "Callable[[Parameters, Parameters], Floats]"
"""From the models before and after a round to what is seen of each unit: (m,)."""


@dataclass(frozen=True, eq=False)
class View:
    """What an observer sees of m units, as `Seen` describes it.

    `look` returns one number for each unit, in units of the noise that is claimed, with the sign
    that the unit had in the round (`Coins.sign`).  `joined` says which units took part in the last
    round, where the observer knows that: then a round that a unit missed counts as `missed`, half
    way between in and out, and `rate` is 1.  Without `alternates` units keep their first sign.
    """

    shift: float
    look: Look
    rate: float = 1.0
    joined: Callable[[], Flags] | None = None
    missed: float = 0.0
    groups: Indices | None = None
    note: tuple[str, ...] = ()
    alternates: bool = True


def watched(asked: Asked, system: System, coins: Coins, view: View, streams: Streams) -> Seen:
    """Make the rounds of a system, and return what is seen in them.

    `streams` are those that the system was built with.  Raises as `require_observer`, and what the
    system raises.
    """
    plan = system.plan()
    require_observer(plan, asked.observer)
    rounds = rounds_made(plan, asked.rounds)
    seen: Floats = np.empty((rounds, len(coins)))

    def each(number: int, before: Parameters, after: Parameters) -> None:
        sign = coins.sign(number) if view.alternates else coins.signs
        row = view.look(before, after) * sign
        if view.joined is not None:  # a round that the unit is known to have missed says nothing
            row = np.where(view.joined(), row, view.missed)
        seen[number - 1] = row

    conduct(system, streams, rounds=asked.rounds, each=each)
    return Seen(
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
