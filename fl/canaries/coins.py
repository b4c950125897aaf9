"""The secret of each canary: a fair coin; and its public column and sign in every round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Coins:
    """For each of m units: whether it is in, its first sign (+1 or -1), and its column.

    `columns` is a permutation of 0 to m - 1: directions are orthogonal, and the position of a
    column says nothing about its unit.  `turn` says for a round how often a unit was there before,
    for those that are not in every round.
    """

    into: BoolArray
    signs: FloatArray
    columns: IntArray
    turn: Callable[[int], int] = int

    def __len__(self) -> int:
        return len(self.into)

    def sign(self, number: int) -> FloatArray:
        """Return the sign of each unit in round `number`: (m,), +1 or -1.

        Signs alternate by round, or by `turn`, so that what repeats in all rounds, such as noise
        that is reused, cancels out and the canary is left.  Signs are public; only the coins are
        secret.
        """
        return self.signs if self.turn(number) % 2 == 0 else -self.signs


def flip_coins(canaries: int, rng: np.random.Generator) -> Coins:
    """Return fair coins, signs and columns for so many units."""
    units = validate.count(canaries=canaries)
    return Coins(
        rng.random(units) < 0.5,
        np.where(rng.random(units) < 0.5, 1.0, -1.0),
        rng.permutation(units).astype(np.int64),
    )
