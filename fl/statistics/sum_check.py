"""Cross-check of one release's sums: made again in floats, from the rows and the facts in the log.

    x min(1, R / |x|) 2^b rho sqrt(1 - v) / R,  2^b rho sqrt(v),      rho = sqrt(T / k)

without a grid, against the integers that noise was added to.  A coordinate on the grid differs from
this by at most `_OFF` steps: one for truncation, and up to two for the integer norms that rows and
the constant are rounded to.  So G_ij may differ by `_OFF` (sum |q_i| + sum |q_j|) + n `_OFF`^2, and
L by `_OFF` times the labels' integers.  Rows near the norm R or beyond it are put on the grid by
themselves, and measured: |q|^2 over 4^b T / k.  A shorter row has no clip that could fail.  All of
that comes before the noise, and is for the sealed sidecar alone.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms.gram_row_grid import GramRelease, grid_rows, is_sparse
from ...accountant.sensitivity.gram import GramBound
from ..aggregation.clip_check import ITEM

_ROWS_AT_A_TIME: Final = 2**11
"""Rows that are worked on at a time, so that they stay in the cache."""

_NEAR: Final = 0.99
"""Rows of this share of the norm R, or more, are measured on the grid."""

_OFF: Final = 4.0
"""Steps by which a coordinate may differ, at most 3 in exact arithmetic."""


class SumCheck:
    """Recomputes the sums of one release, silo by silo; one object for a release."""

    def __init__(self, mechanism: GramRelease, intercept: float) -> None:
        self._mechanism, self._intercept = mechanism, intercept
        self._terms, self._off, self._largest = 0, 0.0, 0.0
        self._units: list[IntArray] = []

    def add(
        self,
        features: Any,
        labels: IntArray,
        kept: IntArray,
        total: IntArray,
        units: IntArray | None = None,
    ) -> None:
        """Take the rows `kept` of one silo, and the sum (values,) that was made of them.

        `features` are rows (n, p), dense or sparse.
        `units` (kept,) are the users or silos whose they are, from 0; None for records.
        """
        sums = _FloatSums(self._mechanism.gram)
        for first in range(0, len(kept), _ROWS_AT_A_TIME):
            block = kept[first : first + _ROWS_AT_A_TIME]
            rows = features[block]
            rows = (rows.toarray() if is_sparse(rows) else rows).astype(np.float64)
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            self._measure(rows, norms)
            sums.add(self._placed(rows, norms), labels[block])
        again, allowed = sums.flat()
        # Modulo 2^64, as the sums are.
        apart = total.astype(np.float64) - again
        apart -= 2.0**64 * np.round(apart * 2.0**-64)
        rounding = np.abs(again) * (len(kept) + 64.0) * 2.0**-50
        off_by = np.abs(apart) / (allowed + rounding + 1.0)
        self._terms += len(kept)
        self._off = max(self._off, float(off_by.max(initial=0.0)))
        if units is not None:
            self._units.append(units)

    def items(self) -> dict[str, object]:
        """Return the sealed item, with the names that `fl.aggregation.clip_check` has.

        `sum_off` is the largest distance over what the grid explains, `term_largest` the largest
        norm of a row over its bound, and `weight_largest` the most rows of one unit over what it
        may have, both in all silos; of a sound run all are at most 1.
        """
        units = np.concatenate(self._units) if self._units else np.empty(0, np.int64)
        most = int(np.bincount(units).max(initial=0)) / self._mechanism.gram.rows
        return {
            ITEM: {
                "terms": self._terms,
                "sum_off": self._off,
                "term_largest": math.sqrt(self._largest),
                "weight_largest": most if self._units else None,
            }
        }

    def _measure(self, rows: FloatArray, norms: FloatArray) -> None:
        near = norms >= _NEAR * self._mechanism.row_norm
        if len(norms) and not near.any():
            near[np.argmax(norms)] = True
        on_grid, _ = grid_rows(self._mechanism, rows[near], intercept=self._intercept)
        squares = np.einsum("ij,ij->i", on_grid, on_grid)
        limit = float(self._mechanism.gram.row_square) * 4.0**self._mechanism.bits
        self._largest = max(self._largest, float(squares.max(initial=0.0)) / limit)

    def _placed(self, rows: FloatArray, norms: FloatArray) -> FloatArray:
        """Return rows (n, d) in steps of the grid, and on no grid."""
        mechanism = self._mechanism
        scale = 2.0**mechanism.bits * math.sqrt(mechanism.gram.row_square)
        table = np.full((len(rows), mechanism.gram.dimension), scale * math.sqrt(self._intercept))
        shrunk = scale * math.sqrt(1.0 - self._intercept) / np.maximum(norms, mechanism.row_norm)
        np.multiply(rows, shrunk[:, None], out=table[:, : rows.shape[1]])
        return table


class _FloatSums:
    """Sums of rows in floats, and by how much each may differ from those on the grid."""

    def __init__(self, gram: GramBound) -> None:
        self._gram = gram
        matrices, d, classes = gram.classes if gram.by_class else 1, gram.dimension, gram.classes
        self._products = np.zeros((matrices, d, d))
        self._columns = np.zeros((matrices, d))
        self._rows = np.zeros(matrices)
        self._labels, self._label_sizes = np.zeros((d, classes)), np.zeros(classes)

    def add(self, rows: FloatArray, labels: IntArray) -> None:
        """Add rows (n, d) with their labels (n,), classes from 0."""
        for matrix in range(len(self._products)):
            part = rows[labels == matrix] if self._gram.by_class else rows
            self._products[matrix] += part.T @ part
            self._columns[matrix] += np.abs(part).sum(axis=0)
            self._rows[matrix] += len(part)
        if not self._gram.classes:
            return
        integers = np.full((len(rows), self._gram.classes), -1.0)  # c e_j - 1
        integers[np.arange(len(rows)), labels] += self._gram.classes
        self._labels += rows.T @ integers
        self._label_sizes += np.abs(integers).sum(axis=0)

    def flat(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums as a release has them, and what each may differ by: (values,)."""
        upper = np.triu_indices(self._gram.dimension)
        either = self._columns[:, upper[0]] + self._columns[:, upper[1]]
        allowed = _OFF * either + _OFF**2 * self._rows[:, None]
        of_labels = np.broadcast_to(_OFF * self._label_sizes, self._labels.shape)
        return (
            np.concatenate([self._products[:, *upper].ravel(), self._labels.ravel()]),
            np.concatenate([allowed.ravel(), of_labels.ravel()]),
        )
