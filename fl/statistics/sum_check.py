"""Cross-check of one release's sums: made again in floats, from the rows and the facts in the log.

    x min(1, R / |x|) 2^b rho sqrt(1 - v) / R,  2^b rho sqrt(v),      rho = sqrt(T / k)

without a grid, against the integers that noise was added to.  A coordinate on the grid differs from
this by at most `_OFF` steps: one for truncation, and up to two for the integer norms that rows and
the constant are rounded to.  So G_ij may differ by `_OFF` (sum |q_i| + sum |q_j|) + n `_OFF`^2, and
L by `_OFF` times the labels' integers.  Rows on the grid are measured too: |q|^2 over 4^b T / k.
All of that comes before the noise, and is for the sealed sidecar alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ...accountant.arrays import Float32Array, FloatArray, IntArray
from ...accountant.mechanisms.gram_noise import NoisyGram
from ...accountant.mechanisms.gram_rows import BLOCK_ROWS, grid_rows, label_integers
from ..aggregation.clip_check import ITEM

_OFF: Final = 4.0
"""Steps by which a coordinate may differ, at most 3 in exact arithmetic."""


class SumCheck:
    """Recomputes the sums of one release, silo by silo; one object for a release."""

    def __init__(self, mechanism: NoisyGram, intercept: float) -> None:
        self._mechanism, self._intercept = mechanism, intercept
        self._terms, self._off, self._largest = 0, 0.0, 0.0
        self._most_of_a_unit = 0.0

    def add(
        self,
        features: Float32Array,
        labels: IntArray,
        kept: IntArray,
        total: IntArray,
        rows_of_units: Sequence[int] | IntArray = (),
    ) -> None:
        """Take the rows `kept` of one silo, and the sum (values,) that was made of them.

        `rows_of_units` are how many of them each unit has.
        """
        gram = self._mechanism.gram
        again, allowed = np.zeros((2, gram.values))
        for first in range(0, len(kept), BLOCK_ROWS):
            block = kept[first : first + BLOCK_ROWS]
            off = self._block(features[block].astype(np.float64), labels[block])
            again += off[0]
            allowed += off[1]
        # Modulo 2^64, as the sums are.
        apart = total.astype(np.float64) - again
        apart -= 2.0**64 * np.round(apart * 2.0**-64)
        rounding = np.abs(again) * (len(kept) + 64.0) * 2.0**-50
        off_by = np.abs(apart) / (allowed + rounding + 1.0)
        self._terms += len(kept)
        self._off = max(self._off, float(off_by.max(initial=0.0)))
        most = max(map(int, rows_of_units), default=0)
        self._most_of_a_unit = max(self._most_of_a_unit, most / gram.rows)

    def items(self) -> dict[str, object]:
        """Return the sealed item, with the names that `fl.aggregation.clip_check` has.

        `sum_off` is the largest distance over what the grid explains, `term_largest` the largest
        norm of a row over its bound, and `weight_largest` the most rows of one unit in one silo
        over what it may have in all; of a sound run all are at most 1.
        """
        return {
            ITEM: {
                "terms": self._terms,
                "sum_off": self._off,
                "term_largest": math.sqrt(self._largest),
                "weight_largest": self._most_of_a_unit or None,
            }
        }

    def _block(self, rows: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of some rows in floats, and by how much each may differ: (values,)."""
        mechanism, gram = self._mechanism, self._mechanism.gram
        on_grid, _ = grid_rows(mechanism, rows, intercept=self._intercept)
        squares = np.einsum("ij,ij->i", on_grid, on_grid)
        limit = float(gram.row_square) * 4.0**mechanism.bits
        self._largest = max(self._largest, float(squares.max(initial=0.0)) / limit)

        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        scale = 2.0**mechanism.bits * math.sqrt(gram.row_square)
        shrunk = np.minimum(1.0 / mechanism.row_norm, 1.0 / np.maximum(norms, 1e-300))
        table = rows * (shrunk * scale * math.sqrt(1.0 - self._intercept))[:, None]
        if self._intercept:
            constant = np.full((len(rows), 1), scale * math.sqrt(self._intercept))
            table = np.hstack([table, constant])
        integers = label_integers(mechanism, labels)
        chosen = [labels == label for label in range(gram.classes)] if gram.by_class else [...]
        upper = np.triu_indices(gram.dimension)
        sums, allowed = [], []
        for members in chosen:
            part = table[members]
            columns = np.abs(part).sum(axis=0)
            sums.append((part.T @ part)[upper])
            either = columns[upper[0]] + columns[upper[1]]
            allowed.append(_OFF * either + len(part) * _OFF**2)
        sums.append((table.T @ integers).reshape(-1))
        of_labels = np.abs(integers).sum(axis=0)
        allowed.append(np.tile(_OFF * of_labels, gram.dimension))
        return np.concatenate(sums), np.concatenate(allowed)
