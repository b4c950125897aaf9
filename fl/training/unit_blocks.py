"""Units that train side by side: in one block, all have minibatches of one padded width.

The width of a unit's minibatches depends on that unit alone, not on those next to it, so that its
matrix products are the same whoever else takes part (see `models.layers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant.arrays import IntArray

_WIDTHS_PER_OCTAVE: Final = 4
"""Widths between a power of two and the next: padding is at most a quarter."""


@dataclass(frozen=True, eq=False)
class Block:
    """Units, by falling number of minibatches of at most `batch` records, padded to `width`.

    `several` says that they have more than one minibatch each.
    """

    units: IntArray
    batch: int
    width: int
    several: bool


def widths(records: IntArray, multiple: int = 1) -> IntArray:
    """Return the padded width for so many records: the next step of a fixed ladder.

    Every width is a multiple of `multiple`, a power of two.

    >>> widths(np.array([1, 5, 9, 17, 33, 64])).tolist()
    [1, 5, 10, 20, 40, 64]
    >>> widths(np.array([1, 5, 9, 17, 33, 64]), 4).tolist()
    [4, 8, 12, 20, 40, 64]
    """
    # The octave of the size, cut into four equal steps: a unit's width is a function of its own
    # size alone, so that who else takes part changes no product of its matrices.
    power = np.ceil(np.log2(np.maximum(records, 1))).astype(np.int64)
    step = np.maximum((1 << power) // (2 * _WIDTHS_PER_OCTAVE), multiple)
    padded: IntArray = -(-records // step) * step
    return padded


def blocks(
    sizes: IntArray, batch: int, multiple: int, room: int, cost: Callable[[int], int]
) -> Iterator[Block]:
    """Yield the units that have records, in blocks.

    A unit with one minibatch gets the width of its size, one with several that of `batch`.
    `room` is how many numbers a block may take, `cost` how many a unit takes at a width.
    """
    passes = -(-sizes // batch)  # minibatches of each unit, rounded up
    full = -(-batch // multiple) * multiple
    width = np.where(passes > 1, full, np.minimum(widths(sizes, multiple), full))
    # By width, then by falling number of minibatches: those that still have one come first.
    order = np.lexsort((-passes, width))
    order = order[sizes[order] > 0]
    if not order.size:
        return
    # A block holds one width, and either single minibatches or several per unit, never both.
    kind = 2 * width[order] + (passes[order] > 1)
    firsts = np.flatnonzero(np.diff(kind, prepend=-1))
    for first, last in zip(firsts, [*firsts[1:], len(order)], strict=True):
        block_width = int(width[order[first]])
        count = max(1, room // cost(block_width))
        for start in range(first, last, count):
            units = order[start : min(start + count, last)]
            yield Block(units, batch, block_width, bool(passes[units[0]] > 1))
