"""Canary users: their secret coins, and a federation of them, alone or with public users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ..data.federation import Federation


def records_federation(
    features: ArrayLike,
    *,
    user: IntArray,
    silo: IntArray,
    users: int,
    silos: int,
    name: str = "canaries",
    classes: int = 2,
    labels: IntArray | None = None,
) -> Federation:
    """Return a federation of records (n, d), which may leave users and silos without any."""
    rows = np.asarray(features, np.float32)
    return Federation(
        name=name,
        task="binary" if classes == 2 else "multiclass",
        classes=classes,
        users=users,
        silos=silos,
        features=rows,
        labels=np.zeros(len(rows), np.int64) if labels is None else labels,
        user=user.astype(np.int64),
        silo=silo.astype(np.int64),
        test_features=np.zeros((1, rows.shape[1]), np.float32),
        test_labels=np.zeros(1, np.int64),
        absent_users=True,
        empty_silos=True,
    )


def canary_federation(
    present: ArrayLike, *, features: int = 1, real: Federation | None = None
) -> Federation:
    """Return a federation that lists every unit as a user, with its records (units, silos).

    `present` says how many records each unit has in each silo.  A unit without any is on the list,
    as |U| is a public constant, and has no records anywhere.  Records of units are zeros, and are
    never trained on: `CanaryLocalTraining` answers for them.  With `real` its users come first, and
    its records too.  Raises `InvalidInput` for a table of another shape.
    """
    table = np.asarray(present)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "biu" or table.min() < 0:
        raise InvalidInput("`present` must be a table (units, silos) of counts, 0 or above.")
    units, silos = table.shape
    # One entry of zeros per record: (units, silos) counts to flat indices of units and silos.
    unit, silo = np.nonzero(table)
    times = table[unit, silo].astype(np.int64)
    unit, silo = np.repeat(unit, times), np.repeat(silo, times)
    if real is None:
        rows = np.zeros((len(unit), features), np.float32)
        return records_federation(rows, user=unit, silo=silo, users=units, silos=silos)
    if real.silos != silos:
        raise InvalidInput(f"The canaries have {silos} silos, the data set {real.silos}.")
    empty = np.zeros((len(unit), *real.features.shape[1:]), np.float32)
    labels = np.zeros((len(unit), *real.labels.shape[1:]), real.labels.dtype)
    return replace(
        real,
        users=real.users + units,
        features=np.concatenate((real.features, empty)),
        labels=np.concatenate((real.labels, labels)),
        user=np.concatenate((real.user, real.users + unit)),
        silo=np.concatenate((real.silo, silo)),
        user_names=None,
        held_out=None,
        absent_users=True,
        empty_silos=True,
    )


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
