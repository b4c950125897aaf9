"""Two ways in that suit many systems: by training, and by rows of data.

A carrier of a system whose units enter in one of these ways is a few lines: it says what its
observer sees of a round (`View`), in units of the noise, and the rest is done here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..frame.system import build
from .coins import Coins, Indices, flip
from .federation import canary_federation
from .local import NORM, CanaryLocal
from .request import OWN, Asked, Seen, nobody_beside
from .view import View, watched

if TYPE_CHECKING:
    from ..data.federation import Federation
    from ..frame.system import System

MOST_ROWS: Final = 10_000
"""Most canaries that enter by rows: each has a column of its own, so they take m^2 numbers."""

Viewing: TypeAlias = "Callable[[System, Indices], View]"
"""From the system that was built, and the column of each unit (m,), to what is seen of them.

Units move column j of what is summed by one bound at most; `View.look` reads that column off what
reaches the observer, in units of the noise in it, and `View.shift` is the bound in that unit.
"""

_OUT: Final = {"add-remove": None, "replace-one": -1.0, "zero-out": 0.0}
"""What a unit that is out gives, in rows of one that is in; None: it has no record."""


def canary_training(asked: Asked, *, clip: float, view: Viewing) -> Seen:
    """Rehearse a system that clips what training gives for each user.

    Such training is a `fl.training.local_training.Local`.

    Units have one record in every silo but that which watches.  `clip` is the bound on a user's
    contribution, above 0 and finite; rows are `NORM` times as long.  Raises as `watched`, and
    `InvalidInput` where public records are to train beside them.
    """
    nobody_beside(asked, "Its carrier puts in canaries alone.")
    validate.positive(clip=clip)
    coins = flip(asked.canaries, asked.rng())
    opposite = asked.settings.privacy.neighbours == "replace-one"
    present = np.ones((asked.canaries, asked.silos), np.int64)
    if asked.observer == "silo":
        present[:, OWN] = 0
    if not opposite:
        present[~coins.into] = 0
    federation = canary_federation(present)
    local = CanaryLocal(coins, federation, clip=clip, opposite=opposite)
    streams = asked.streams()
    system = build(asked.settings, federation, local, streams)
    return watched(asked, system, coins, view(system, local.columns), streams)


def canary_rows(asked: Asked, *, clip: float, view: Viewing, everywhere: bool = False) -> Seen:
    """Rehearse a system that clips the rows of its users, and sums them: nothing is trained.

    Each of m units has one record, in one silo in its turn (never in that which watches), or one in
    each of these with `everywhere`: a row of m numbers, `NORM` times `clip` along its own column
    and with its own sign.  A unit that is out
    has no record (`add-remove`), the opposite row (`replace-one`) or one of zeros (`zero-out`).
    Rows are the same in all rounds, so signs do not alternate.  `clip` is above 0 and finite.
    Raises `InvalidInput` for more than `MOST_ROWS` canaries, where public records are to be beside
    them, and as `watched`.
    """
    nobody_beside(asked, "Its carrier puts in canaries alone.")
    validate.positive(clip=clip)
    if asked.canaries > MOST_ROWS:
        raise InvalidInput(
            f"{asked.canaries:,} canaries are too many rows.",
            "Each has a column of its own, so memory grows with their square.",
            f"Give at most {MOST_ROWS:,}, and declare as many as `canaries` of the system.",
        )
    coins, streams = flip(asked.canaries, asked.rng()), asked.streams()
    federation = _of_rows(asked, coins, NORM * clip, everywhere)
    local = CanaryLocal(coins, federation, clip=clip)
    system = build(asked.settings, federation, local, streams)
    seen = replace(view(system, coins.columns), alternates=False)
    return watched(asked, system, coins, seen, streams)


def _of_rows(asked: Asked, coins: Coins, length: float, everywhere: bool) -> Federation:
    """Return a federation in which each unit's record is its row."""
    units, silos = np.arange(asked.canaries), asked.silos
    silo = units % silos
    if asked.observer == "silo" and silos > 1:
        silo = 1 + units % (silos - 1)
    out = _OUT[asked.settings.privacy.neighbours]
    there = coins.into if out is None else np.ones(len(coins), bool)
    table = np.zeros((asked.canaries, silos), np.int64)
    table[units[there], silo[there]] = 1
    if everywhere:
        table[there] = 1
        if asked.observer == "silo" and silos > 1:
            table[:, OWN] = 0
    federation = canary_federation(table, features=asked.canaries)
    unit = federation.user
    towards = np.where(coins.into, 1.0, out or 0.0) * coins.signs * length
    rows = np.zeros((len(unit), asked.canaries), np.float32)
    rows[np.arange(len(unit)), coins.columns[unit]] = towards[unit]
    return replace(federation, features=rows)
