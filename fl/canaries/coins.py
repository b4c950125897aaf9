"""What decides over a canary: a fair coin, a direction of its own, and a sign for every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Coins:
    """For each of m units: whether it is in, its first sign (+1 or -1), and its own column.

    `columns` is a permutation of 0 to m - 1, so that directions are orthogonal, and no place of a
    model belongs to a kind of unit.
    """

    into: BoolArray
    signs: FloatArray
    columns: IntArray

    def __len__(self) -> int:
        return len(self.into)

    def sign(self, number: int) -> FloatArray:
        """Return the direction of each unit in round `number`: (m,), +1 or -1.

        It alternates by round: what is the same in all rounds, noise that is used again above all,
        cancels out, and the canary is left.  All of it is public; the coins alone are not.
        """
        return self.signs if number % 2 == 0 else -self.signs


def flip_coins(canaries: int, rng: np.random.Generator) -> Coins:
    """Return fair coins, signs and columns for so many units."""
    units = validate.count(canaries=canaries)
    return Coins(
        rng.random(units) < 0.5,
        np.where(rng.random(units) < 0.5, 1.0, -1.0),
        rng.permutation(units).astype(np.int64),
    )
