"""Work split over processes; what comes out does not depend on how many there are.

The children are loky's, and what they are given travels through pipes: nothing is mapped to a file,
because digits and exponents are private.  They draw no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Final, TypeVar

from ....accountant import validate
from ....accountant.errors import MissingExtra

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """How many processes share the work, 1 or above; with 1 it is done here.

    >>> Workers().spread(sorted, [3, 1, 2])
    [1, 2, 3]
    """

    def __init__(self, processes: int = 1) -> None:
        self.processes = validate.count(processes=processes)

    def start(self) -> None:
        """Start the processes now, which takes a moment, rather than with the first work."""
        self.concatenated(list, [()] * self.processes)

    def spread(
        self, function: Callable[..., list[R]], items: Sequence[T], *common: object
    ) -> list[R]:
        """Return `function(items, *common)` for a function that maps items one by one.

        Each process has an even run of consecutive items.  `function` must be a module's own, and
        `items` a list, a tuple or an array.  Raises `MissingExtra` if there is no joblib.
        """
        parts = self.parts(len(items))
        return self.concatenated(function, [(items[part], *common) for part in parts])

    def concatenated(
        self, function: Callable[..., list[R]], calls: Sequence[tuple[object, ...]]
    ) -> list[R]:
        """Return what the calls return, one after the other, in the order of the calls."""
        if self.processes == 1 or len(calls) < 2:
            return list(chain.from_iterable(function(*call) for call in calls))
        try:
            from joblib import Parallel, delayed
        except ImportError:
            raise MissingExtra(
                "Work over several processes needs the package joblib, which is not installed.",
                "It starts the processes and hands them their parts.",
                'Install the extra: pip install "privplan[fl]", or use one process.',
            ) from None
        # max_nbytes=None: arrays are never written to a file to be mapped.
        run = Parallel(n_jobs=self.processes, backend="loky", max_nbytes=None, mmap_mode=None)
        return list(chain.from_iterable(run(delayed(function)(*call) for call in calls)))

    def parts(self, count: int, longest: int | None = None) -> list[slice]:
        """Return consecutive slices of `count` items, none of them empty.

        There is one for each process, or as few as keep each at `longest` items or below.
        """
        pieces = min(max(self.processes, -(-count // (longest or count or 1))), count)
        edges = [count * piece // pieces for piece in range(pieces + 1)] if pieces else []
        return [slice(first, last) for first, last in pairwise(edges)]


SERIAL: Final = Workers(1)
"""This process, by itself."""
