"""Which coordinates of its update a user sends: all, some at random, or its largest.

What is chosen at random is drawn afresh in every round, from the run's protective randomness, and
whatever the update is: exactly uniform sets, which the amplification rests on.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.randomness import Stream
from .settings import SIMPLE, TOPK, FlameSettings, Protocol

_BLOCK_WORDS: Final = 2**23
"""How many random words are held at once: 64 MB."""


def coordinates_sent(protocol: Protocol, table: FlameSettings, dimensions: int) -> int:
    """Return k, how many coordinates of its update a user sends, of `dimensions` d.

    With m decoys k + m <= d.  In the paper's terms a user sends l = (k + m) / k coordinates for
    each of its largest, and nu = d / (k l), which must be between 1 and d / k: 0 <= m <= d - k.
    Raises `InvalidInput`, also for decoys of a protocol that has none.

    Source: Liu et al. 2021, arXiv 2009.08063v4, Proposition 2 (nu-index privacy).
    """
    chosen = dimensions if protocol == SIMPLE else table.chosen
    if table.decoys < 0 or (table.decoys and protocol != TOPK):
        raise InvalidInput(
            f"`decoys` is {table.decoys:,}.",
            "They are further coordinates that a user sends so that nobody sees which are its "
            "largest: of flame-topk alone, and 0 or more.",
            "Leave `decoys` out.",
        )
    if not table.decoys and not 1 <= (chosen or 0) <= dimensions:
        raise InvalidInput(
            f"`chosen` is {'missing' if chosen is None else f'{chosen:,}'}; the model has "
            f"{dimensions:,} coordinates.",
            "A user sends a coordinate once.",
            f"Give `chosen`, from 1 to {dimensions:,}, under [flame].",
        )
    if chosen is None or not 1 <= chosen <= dimensions - table.decoys:
        raise InvalidInput(
            f"`chosen` and `decoys` must be at most {dimensions:,} together.",
            "A user sends a coordinate once.",
            "Give `chosen`, 1 or above, and fewer of both.",
        )
    return chosen


def random_coordinates(stream: Stream, users: int, dimensions: int, chosen: int) -> IntArray:
    """Return `chosen` of `dimensions` coordinates for each user, a uniform set: (users, chosen).

    The coordinates of the smallest of independent random words; where two of a user's words are
    equal, that user's are drawn again, and given that they differ every set is as likely.
    """
    block = max(1, _BLOCK_WORDS // dimensions)
    sets = np.empty((users, chosen), np.int64)
    for first in range(0, users, block):
        count = min(block, users - first)
        sets[first : first + count] = _sets(stream, count, dimensions, chosen)
    return sets


def _sets(stream: Stream, users: int, dimensions: int, chosen: int) -> IntArray:
    words = stream.integers64(users * dimensions).reshape(users, dimensions)
    if chosen == dimensions:
        return np.broadcast_to(np.arange(dimensions), (users, dimensions)).astype(np.int64)
    # Positions of the `chosen` smallest words, and of the next one, by which ties are seen.
    order = np.argpartition(words, (chosen - 1, chosen), axis=1)
    last = np.take_along_axis(words, order[:, chosen - 1 : chosen + 1], axis=1)
    sets = np.sort(order[:, :chosen], axis=1)
    for user in np.flatnonzero(last[:, 0] == last[:, 1]).tolist():
        sets[user] = _sets(stream, 1, dimensions, chosen)[0]
    return sets


def largest_coordinates(rows: FloatArray, chosen: int) -> IntArray:
    """Return the coordinates of the `chosen` largest numbers by size of each row: (users, chosen).

    What is no number counts as 0.  Of equal ones the first count.
    """
    sizes = np.where(np.isfinite(rows), np.abs(rows), 0.0)
    order = np.argsort(-sizes, axis=1, kind="stable")[:, :chosen]
    return np.asarray(np.sort(order, axis=1), np.int64)


def decoy_coordinates(stream: Stream, taken: IntArray, dimensions: int, decoys: int) -> IntArray:
    """Return `decoys` other coordinates of each user than those `taken`: (users, decoys).

    A uniform set of those that are left.
    """
    users, chosen = taken.shape
    if not decoys:
        return np.empty((users, 0), np.int64)
    free = np.ones((users, dimensions), bool)
    np.put_along_axis(free, taken, False, axis=1)
    others = np.nonzero(free)[1].reshape(users, dimensions - chosen)
    picked = random_coordinates(stream, users, dimensions - chosen, decoys)
    return np.take_along_axis(others, picked, axis=1)
