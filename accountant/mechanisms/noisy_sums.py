"""Noise for many sums, one after the other, drawn in blocks ahead of the sums.

DP-SGD adds noise to a few numbers thousands of times, and a call for each takes longer than its
noise.  So the noise of the next sums is drawn together.  That changes no promise: noise does not
depend on what it is added to; the ticket counts every sum before its noise is drawn; and each piece
of noise is handed out once, on a sum.  What was drawn and not used is counted, and never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from .. import validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, Unsupported
from ..randomness import Stream
from .clip import MAX_SUM
from .round_ticket import Ticket

_PREFETCHED_NUMBERS: Final = 2**18
"""How many numbers of noise a party draws at once: 2 MB."""


class NoisySums:
    """The noisy sums of several parties, each with its own stream and its own part of the units.

    `count` is how many sums each party makes, of `width` numbers; `draw` makes noise, in steps of
    `grid`.  A party's sums are those of a part of the ticket (see `Ticket.draw`), in `parts`.  For
    one thread.  `Gaussian.steps` makes them.
    """

    def __init__(
        self,
        ticket: Ticket,
        draw: Callable[[Stream, int], IntArray],
        grid: float,
        *,
        names: Sequence[str],
        parts: Sequence[str],
        width: int,
        count: int,
    ) -> None:
        if not len(names) == len(set(names)) == len(set(parts)) == len(parts) > 0:
            raise InvalidInput(
                "Each party needs a stream and a part of its own.",
                "Noise that is used twice cancels out, and so would the count of its sums.",
                "Give as many different names as parts.",
            )
        self._ticket, self._draw, self._grid = ticket, draw, grid
        self._names, self._parts = tuple(names), tuple(parts)
        self._shape = (len(names), validate.count(width=width))
        self._sums_left = validate.count(count=count)
        self._prefetched: Iterator[IntArray] = iter(())

    def noisy(self, totals: IntArray) -> FloatArray:
        """Return each party's next sum with its noise, in units: (parties, width).

        `totals` are sums on the grid.  Raises `InvalidInput` for anything else, `Unsupported` for
        more sums than `count` or than the ticket announces, and `PrivplanError` once it is over.
        """
        self._ticket.check()
        if totals.dtype != np.int64 or totals.shape != self._shape:
            raise InvalidInput(
                f"Sums that are given noise must be integers on the grid, {self._shape}.",
                "Noise on floats can be told from what it covers.",
                "Use what `totals` returns.",
            )
        if max(int(totals.max()), -int(totals.min())) > 2 * MAX_SUM:
            raise InvalidInput("A sum is too large for 64-bit integers with noise.")
        noise = next(self._prefetched, None)
        if noise is None:
            self._prefetched = iter(self._draw_block())
            noise = next(self._prefetched)
        return np.asarray((totals + noise) * self._grid)

    def _draw_block(self) -> IntArray:
        """Return noise for the next sums, (sums, parties, width), all of them counted."""
        parties, width = self._shape
        sums = min(self._sums_left, max(1, _PREFETCHED_NUMBERS // width))
        if not sums:
            raise Unsupported(
                "The noise of all announced sums is used up.",
                next_step="State all sums of the round.",
            )
        # Counted by the ticket, sum by sum, before any of the block is drawn.
        self._sums_left -= sums
        noise = np.empty((sums, parties, width), dtype=np.int64)
        for party, (name, part) in enumerate(zip(self._names, self._parts, strict=True)):
            self._ticket.draw(1, part, sums)
            noise[:, party] = self._draw(self._ticket.stream(name), sums * width).reshape(sums, -1)
        return noise
