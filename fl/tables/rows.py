"""Rows of a table as numbers, gathered batch by batch without a second copy of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import BoolArray, Float32Array, IntArray
from ..data.federation import Labels
from ..data.row_contents import row_contents

_LARGEST_STEP: Final = 2**26
"""By how many bytes an array grows at most beyond what it needs."""

_SORTED_AT_A_TIME: Final = 2**26
"""How many bytes of features are set aside while rows change their places."""

_Numbers: TypeAlias = NDArray[np.float32] | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows: features, labels (None of a matrix), names of users and silos."""

    features: Float32Array
    labels: Labels | None
    user: IntArray
    silo: IntArray

    def only(self, chosen: IntArray | BoolArray) -> Rows:
        """Return some of them, by index or by a mask."""
        labels = None if self.labels is None else self.labels[chosen]
        return Rows(self.features[chosen], labels, self.user[chosen], self.silo[chosen])


class GatheredRows:
    """Rows that are added to, and sorted from a place on; `none` are no rows, of the same form."""

    def __init__(self, none: Rows) -> None:
        self.count = 0
        self._features = _GrowingArray(none.features)
        self._labels = None if none.labels is None else _GrowingArray(none.labels)
        self._user, self._silo = _GrowingArray(none.user), _GrowingArray(none.silo)

    def add(self, rows: Rows) -> None:
        """Take rows in, after those that are there."""
        self._features.add(rows.features)
        if self._labels is not None:
            assert rows.labels is not None
            self._labels.add(rows.labels)
        self._user.add(rows.user)
        self._silo.add(rows.silo)
        self.count += len(rows.user)

    def sort(self, first: int) -> None:
        """Sort the rows from `first` on by silo, then by user, and those of a user by content."""
        held = self._held(first)
        order = np.lexsort((row_contents(held.features, held.labels), held.user, held.silo))
        for values in _narrow(held):
            values[:] = values[order]

    def rows(self) -> Rows:
        """Return all of them; none may be added any more."""
        for growing in (self._features, self._labels, self._user, self._silo):
            if growing is not None:
                growing.trim()
        return self._held(0)

    def _held(self, first: int) -> Rows:
        labels = None if self._labels is None else self._labels.held(first)
        return Rows(
            cast(Float32Array, self._features.held(first)),
            labels,
            cast(IntArray, self._user.held(first)),
            cast(IntArray, self._silo.held(first)),
        )


def _narrow(rows: Rows) -> Iterator[_Numbers]:
    """Yield the arrays of some rows in parts that a copy may be made of."""
    yield from (rows.user, rows.silo)
    if rows.labels is not None:
        yield rows.labels
    width = rows.features.shape[1]
    step = max(1, _SORTED_AT_A_TIME // (4 * max(1, len(rows.features))))
    for column in range(0, width, step):
        yield rows.features[:, column : column + step]


class _GrowingArray:
    """An array that grows in place, as large memory does: its pages are moved, and not copied."""

    def __init__(self, none: _Numbers) -> None:
        self._array = none.copy()
        self._count = 0

    def add(self, values: _Numbers) -> None:
        needed = self._count + len(values)
        if needed > len(self._array):
            row = self._array.itemsize * int(np.prod(self._array.shape[1:]))
            self._resize(needed + min(needed // 2, _LARGEST_STEP // max(1, row)))
        self._array[self._count : needed] = values
        self._count = needed

    def trim(self) -> None:
        self._resize(self._count)

    def held(self, first: int) -> _Numbers:
        return self._array[first : self._count]

    def _resize(self, count: int) -> None:
        # Nothing else holds the array while it grows: parts of it are handed out and let go.
        self._array.resize((count, *self._array.shape[1:]), refcheck=False)
