"""Records in groups: those of each user in each silo, as indices into arrays of records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...accountant.arrays import IntArray


@dataclass(frozen=True, eq=False)
class Groups:
    """Records in groups: group g holds the records `order[offsets[g] : offsets[g + 1]]`.

    `order` is (records,), a permutation of the record indices; `offsets` is (groups + 1,).
    Within a group, records stand in the order of the records.
    """

    order: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> IntArray:
        """How many records each group has: (groups,)."""
        return np.diff(self.offsets)

    def records(self, group: int) -> IntArray:
        """Return the record indices of one group."""
        return self.order[self.offsets[group] : self.offsets[group + 1]]


@dataclass(frozen=True, eq=False)
class Pairs(Groups):
    """The groups of `pairs_of`: group g holds the records of `user[g]` in `silo[g]`.

    `user` and `silo` are (groups,).  Only pairs that have a record are listed, by silo first and
    user second, so that the pairs of one silo are neighbours.
    """

    user: IntArray
    silo: IntArray


def pairs_of(user: IntArray, silo: IntArray, users: int) -> Pairs:
    """Return the records of every user in every silo where it has any, by silo, then user.

    `user` and `silo` are (records,), and users are below `users`.
    """
    order, cells, offsets = _grouped(silo * users + user)
    return Pairs(order, offsets, user=cells % users, silo=cells // users)


def _grouped(keys: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the records sorted by key, the keys that occur, and where each begins and ends."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    # A group begins where the key is another one than before it; no key is -1.
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    offsets = np.append(starts, len(keys)).astype(np.int64)
    return order.astype(np.int64, copy=False), ordered[starts].astype(np.int64), offsets
