"""Cross-check of one product: made again in floats, from the rows and the basis, without a grid.

    x min(1, R / |x|) 2^b / R        against the integers q that a silo multiplied

A coordinate of a row differs by at most 3 steps: one for truncation, and two for the integer norms
that long rows are shortened to.  So a number of the product, sum q_k (q . z_j), may differ by

    3 (|z_j|_1 sum |q_k| + sum |q . z_j|) + 9 n |z_j|_1

and by what floats round off.  Rows near the norm R or beyond it are measured on the grid.  All of
that comes before the noise, and is for the sealed sidecar alone.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms import NoisyProduct
from ...accountant.mechanisms.product_rows import ProductRows
from ..aggregation.clip_check import ITEM

_STEPS_OFF: Final = 3.0
"""Steps by which a coordinate of a row may differ."""


class ProductCheck:
    """Recomputes the products of one release, silo by silo; one object for a release."""

    def __init__(self, mechanism: NoisyProduct) -> None:
        self._mechanism = mechanism
        self._terms, self._off, self._largest = 0, 0.0, 0.0

    def add(self, rows: Any, placed: ProductRows, basis: IntArray, total: IntArray) -> None:
        """Take the rows (n, d) of one silo in raw units, those on the grid, and their product.

        `basis` (d, r) is what they were multiplied by, on its grid.
        """
        scale = 2.0**self._mechanism.grid_bits.row_bits
        squares = rows.multiply(rows).sum(axis=1) if hasattr(rows, "multiply") else (rows**2).sum(1)
        norms = np.sqrt(np.asarray(squares, np.float64).reshape(-1))
        shrunk = scale / np.maximum(norms, self._mechanism.product.row_norm)
        again, allowed = _again(rows, shrunk, basis.astype(np.float64))
        # Modulo 2^64, as the sums are.
        apart = total.astype(np.float64) - again.reshape(-1)
        apart -= 2.0**64 * np.round(apart * 2.0**-64)
        rounding = np.abs(again) * (rows.shape[0] + rows.shape[1] + 64.0) * 2.0**-50
        off_by = np.abs(apart) / (allowed + rounding + 1.0).reshape(-1)
        self._terms += placed.count
        self._off = max(self._off, float(off_by.max(initial=0.0)))
        self._largest = max(self._largest, placed.largest_norm / scale)

    def items(self) -> dict[str, object]:
        """Return the sealed item, with the names that `fl.aggregation.clip_check` has."""
        return {
            ITEM: {
                "terms": self._terms,
                "sum_off": self._off,
                "term_largest": self._largest if math.isfinite(self._largest) else None,
                "weight_largest": None,
            }
        }


def _again(rows: Any, shrunk: FloatArray, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the product (d, r) in steps, on no grid, and what it may differ by."""
    seen = shrunk[:, None] * np.asarray(rows @ basis)
    product = np.asarray(rows.T @ (shrunk[:, None] * seen))
    column = np.asarray(abs(rows).T @ shrunk)[:, None]
    lengths = np.abs(basis).sum(axis=0)[None, :]
    allowed = _STEPS_OFF * (lengths * column + np.abs(seen).sum(axis=0)[None, :])
    return product, allowed + _STEPS_OFF**2 * rows.shape[0] * lengths
