"""Scores of users: S(u) = sum over u's records of the per-record statistic.

A user's records, in every silo, are in a model together or not at all, so they are one trial: n
counts users.  Taken as trials of their own they would be as many copies of one coin.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from ....accountant.arrays import FloatArray, IntArray
from ....accountant.errors import InvalidInput
from .evidence import (
    refuse_nan,
)


def per_unit(statistic: FloatArray, unit: IntArray, units: int) -> FloatArray:
    """Return the sum over each unit's records: (models, records) to (models, units).

    Raises `InvalidInput` for a unit without records, which no score says anything about, and for
    a statistic that is NaN.

    >>> per_unit(np.array([[1.0, 2.0, 4.0]]), np.array([0, 1, 0]), 2).tolist()
    [[5.0, 2.0]]
    """
    refuse_nan("scores", statistic)
    if statistic.ndim != 2 or statistic.shape[1] != len(unit):
        raise InvalidInput(f"`statistic` must be of shape (models, {len(unit)}).")
    counts = np.bincount(unit, minlength=units)
    if len(counts) > units or not counts.all():
        raise InvalidInput(
            "A user without records has no score.",
            "Nothing of theirs can be in a model.",
            "Leave users without records out of the design.",
        )
    return np.array([np.bincount(unit, row, units) for row in statistic]).reshape(-1, units)


def matched(sizes: IntArray, records: int, rng: Generator) -> tuple[IntArray, IntArray]:
    """Return users, and so many records cut into pseudo-users of the same sizes.

    `sizes` (users,) are the users' numbers of records.  Users are taken in random order, as many
    as `records` allow, and none after the first that does not fit, so that large ones are not left
    out.  The answer is which users were taken, (k,), and the pseudo-user of each record, (records,)
    from 0 to k - 1, or -1 for a record that is left over; records are dealt at random.

    >>> taken, pseudo = matched(np.array([2, 2, 2]), 5, np.random.default_rng(0))
    >>> len(taken), np.bincount(pseudo + 1).tolist()
    (2, [1, 2, 2])
    """
    order = rng.permutation(len(sizes))
    # Users in random order until the records run out.
    ends = np.cumsum(sizes[order])
    taken = order[ends <= records]
    pseudo = np.full(records, -1)
    dealt = np.repeat(np.arange(len(taken)), sizes[taken])
    pseudo[rng.permutation(records)[: len(dealt)]] = dealt
    return taken.astype(np.int64), pseudo.astype(np.int64)
