"""Cross-check of the clip: the sums recomputed in floats, without the mechanism that made them.

    sum_u w_su min(1, C / |row_su|) row_su          C as the intent states it, in floats

is compared with the integers that noise was added to.  These are truncated, at most two steps for
each term, so they may differ by that and by what floats round off, and by nothing else.  The
largest term is also clipped by itself, and its norm taken; and the weights of each user are summed.
All that is functions of data before the noise, so it is for the sealed sidecar only: norms of terms
before the clip, and ratios that say how near to a limit something came, the largest of a round.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import records
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms import SharedNoise
from ...accountant.mechanisms.clip import Sparse

ITEM: Final = "recomputed"
"""The name of the sealed item."""

_MAX_DENSE_PRODUCTS: Final = 2**17
"""Up to so many, one product with a sparse (silos, n) matrix is quicker than one for each silo."""


@dataclass(frozen=True, eq=False)
class SumsMadeAgain:
    """Sums in floats (silos, width), and by how many steps they may be off: (silos,)."""

    sums: FloatArray
    allowed: FloatArray


class ClipCheck:
    """Recomputes the sums (silos, width) of one release in floats, from rows as they arrive.

    `intent` states the clip and the weights, `mechanism` is what makes the sums that are compared.
    """

    def __init__(
        self, intent: records.RoundIntent, mechanism: SharedNoise, silos: int, width: int
    ) -> None:
        self._bound, self._mechanism = intent.contribution.bound, mechanism
        self._intent = intent
        self._sums = np.zeros((silos, width))
        self._silo: list[IntArray] = [np.empty(0, np.int64)]
        self._weights: list[FloatArray] = [np.empty(0)]
        self._users: list[IntArray] = [np.empty(0, np.int64)]
        self._largest: tuple[float, FloatArray | Sparse, FloatArray] | None = None

    def add(
        self,
        rows: FloatArray | Sparse,
        silo: IntArray,
        norms: FloatArray,
        weights: FloatArray | None = None,
        users: IntArray | None = None,
    ) -> None:
        """Add rows (n, width), of these silos, norms, weights (None: ones) and users: (n,) each."""
        if not len(norms):
            return
        row_weights = np.ones(len(norms)) if weights is None else weights
        self._silo.append(silo)
        self._weights.append(row_weights)
        if users is not None:
            self._users.append(users)
        # The row of the largest norm is kept, to be clipped by itself; NaN counts as smallest.
        finite = float(norms.max()) < np.inf  # False for a NaN as well
        known = norms if finite else np.where(np.isnan(norms), -1.0, norms)
        index = np.array([np.argmax(known)])
        if self._largest is None or known[index[0]] > self._largest[0]:
            self._largest = float(known[index[0]]), rows[index], row_weights[index]
        # w min(1, C / |row|): (n,)
        factors = row_weights * (self._bound / np.maximum(norms, self._bound))
        if not finite:
            overflowing = np.flatnonzero(~np.isfinite(norms))
            clipped_norms = row_weights * self._bound
            rows, factors = _without_infinities(rows, overflowing, factors, clipped_norms)
        if isinstance(rows, Sparse):
            self._add_sparse(rows, silo, factors)
        else:
            self._add_dense(rows, silo, factors)

    def items(self, totals: ArrayLike) -> dict[str, object]:
        """Return the sealed item, for sums (silos, width) in steps of the mechanism's grid.

        `sum_off` is their largest distance from those made again, over what truncation explains;
        `term_largest` the norm of the term with the largest row over its bound, as it is clipped by
        itself; `weight_largest` the largest sum of one user's weights.  The first two of a sound
        run are at most 1, the last what the intent states.
        """
        return self._items(np.asarray(totals), self._sums, self._allowed())

    @property
    def made_again(self) -> SumsMadeAgain:
        """The sums in floats, and what truncation may move them by, without any single row."""
        return SumsMadeAgain(self._sums, self._allowed())

    def items_of_rows(
        self, rows: ArrayLike, unit: float, earlier: Sequence[SumsMadeAgain]
    ) -> dict[str, object]:
        """Return the item for rows that hold the last sums too, by the block of the intent.

        `rows` (silos, width) are in steps of `unit` of the mechanism's grid, and `earlier` are the
        sums of the rounds before this one in its block, the last first.
        """
        block = self._intent.block
        assert block is not None
        sums, allowed = np.zeros_like(self._sums), np.zeros(len(self._sums))
        for coefficient, again in zip(
            block.coefficients, [self.made_again, *earlier], strict=False
        ):
            sums += coefficient * again.sums
            allowed += coefficient * again.allowed
        return self._items(np.asarray(rows) * unit, sums, allowed)

    def _allowed(self) -> FloatArray:
        """Return what each silo's sum may differ by, in steps of the grid: (silos,)."""
        silo, weights = np.concatenate(self._silo), np.concatenate(self._weights)
        silos, width = self._sums.shape
        terms = np.bincount(silo, minlength=silos)
        # What may differ, in steps of the grid: two for each truncated term, and the rounding of
        # float sums over `width` and `terms` numbers.  It errs wide: an honest run stays below 1.
        norms = np.bincount(silo, weights, minlength=silos) * (self._bound / self._mechanism.grid)
        return np.asarray(1.0 + 2.0 * terms + norms * (width + terms + 64.0) * 2.0**-50)

    def _items(
        self, totals: NDArray[Any], sums: FloatArray, allowed: FloatArray
    ) -> dict[str, object]:
        """Return the sealed item, for `totals` that should be `sums`, up to `allowed` steps."""
        weights, users = np.concatenate(self._weights), np.concatenate(self._users)
        off = np.abs(totals - sums / self._mechanism.grid).max(axis=1, initial=0.0) / allowed
        return {
            ITEM: {
                "terms": len(weights),
                "sum_off": float(off.max(initial=0.0)),
                "term_largest": self._largest_term(),
                "weight_largest": float(np.bincount(users, weights).max()) if len(users) else None,
            }
        }

    def _largest_term(self) -> float:
        """Clip the row of the largest norm by itself, and return its norm over its bound."""
        if self._largest is None or not self._largest[2][0]:
            return 0.0
        _, row, weight = self._largest
        bound = self._bound * float(weight[0])
        term = self._mechanism.total(row, weight).astype(np.float64)
        norm = float(np.sqrt(term @ term)) * self._mechanism.grid
        return norm / bound if bound else 0.0  # a weight so small that it is lost

    def _add_dense(self, rows: FloatArray, silo: IntArray, factors: FloatArray) -> None:
        silos = len(self._sums)
        if silos * rows.size <= _MAX_DENSE_PRODUCTS:
            by_silo = np.zeros((silos, len(rows)))  # a row's factor stands in its silo's line
            by_silo[silo, np.arange(len(rows))] = factors
            self._sums += by_silo @ rows
            return
        if (silo[1:] < silo[:-1]).any():
            order = np.argsort(silo, kind="stable")
            rows, silo, factors = rows[order], silo[order], factors[order]
        ends = np.searchsorted(silo, np.arange(silos + 1))
        for index, (first, last) in enumerate(itertools.pairwise(ends.tolist())):
            if first < last:
                self._sums[index] += factors[first:last] @ rows[first:last]

    def _add_sparse(self, rows: Sparse, silo: IntArray, factors: FloatArray) -> None:
        cells = silo[:, None] * rows.width + rows.columns  # of the table (silos, width), flat
        values = factors[:, None] * rows.values
        sums = np.bincount(cells.ravel(), values.ravel(), minlength=self._sums.size)
        self._sums += sums.reshape(self._sums.shape)


def _without_infinities(
    rows: FloatArray | Sparse,
    overflowing: IntArray,
    factors: FloatArray,
    clipped_norms: FloatArray,
) -> tuple[FloatArray | Sparse, FloatArray]:
    """Return rows and factors without infinities: such a row counts as zero.

    A row of numbers whose squares are too large for a float is shortened first, and keeps its
    direction; `clipped_norms` (n,) are the norms that rows are clipped to.
    """
    values = (rows.values if isinstance(rows, Sparse) else rows).copy()
    factors = factors.copy()
    for index in overflowing.tolist():
        row = values[index]
        largest = float(np.abs(row).max(initial=0.0))
        if not np.isfinite(largest):
            values[index], factors[index] = 0.0, 0.0
            continue
        values[index] = row / largest
        factors[index] = clipped_norms[index] / float(np.sqrt(values[index] @ values[index]))
    if isinstance(rows, Sparse):
        return Sparse(rows.columns, values, rows.width), factors
    return values, factors


def norms_of(rows: FloatArray | Sparse) -> FloatArray:
    """Return the norm of each row, (rows,); infinite where a square is too large for a float.

    Without numpy's warning about that: on the standard error stream it would tell, before any
    noise, that somebody's update was so large.
    """
    if isinstance(rows, Sparse):
        rows = rows.values
    with np.errstate(over="ignore", invalid="ignore"):
        squares: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return np.sqrt(squares)


def about_norms(by_silo: Sequence[FloatArray], bound: float) -> dict[str, object]:
    """Return how many terms each silo had, their norms, and how many were clipped or not finite.

    `by_silo` holds the norms of each silo's terms before clipping: (terms,).  For the sealed
    sidecar only.
    """
    norms = np.concatenate(by_silo)
    finite = norms[np.isfinite(norms)]
    return {
        "terms": [len(silo) for silo in by_silo],
        "norm_median": float(np.median(finite)) if finite.size else 0.0,
        "norm_largest": float(finite.max(initial=0.0)),
        "clipped": int((finite > bound).sum()),
        "not_finite": int(norms.size - finite.size),
    }
