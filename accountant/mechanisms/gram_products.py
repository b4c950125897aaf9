"""Exact sums of products of integer rows, modulo 2^64, by float64 arithmetic.

Rows q are integers with |q|^2 <= S < 2^53 that stand in float64.  Any sum of products q_i q_j over
different rows is at most S times their number, in whatever order it is added, so it is exact while

    rows S <= 2^53,         rows floor(sqrt(S)) s <= 2^53    (label sums; s = 2^b, one number)

and so are their partial sums in a matrix product that adds each product once, as BLAS does.  Of
2^b steps and 20 bits these are 8,192 rows.  Sums of the rows of each class are smaller still; they
become the sums of q (c e_j - 1) as 64-bit integers.

A table is multiplied into a float64 matrix as long as that is exact, and then that matrix is added
as integers; a sparse table's product is sparse and is added at once.  Integers are added modulo
2^64, so sums may wrap around (`gram_noise`, overflow).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk

from ..arrays import FloatArray, IntArray
from ..sensitivity.gram import GramBound
from .gram_grid import EXACT, IntegerRows, is_sparse


def exact_rows(square: int, label_scale: int) -> int:
    """Return how many rows float64 adds without error: see the module.

    `square`: floor(S), from 0 to 2^53; `label_scale`: the largest integer of a label that is
    multiplied with rows, 1 for classes.

    >>> exact_rows(4**20, 1), exact_rows(4**20 // 3, 2**20), exact_rows(4**12, 2**12)
    (8192, 14188, 536870912)
    """
    return EXACT // max(1, square, math.isqrt(square) * label_scale)


class GramProducts:
    """The sums of q q^T and of q y^T over blocks of rows, exact modulo 2^64.

    `gram` says what is summed, `most_rows` what `exact_rows` returns: no block may have more rows.
    """

    def __init__(self, gram: GramBound, most_rows: int) -> None:
        self.gram = gram
        self.most_rows = most_rows
        matrices = gram.classes if gram.by_class else 1
        self._total = np.zeros(gram.values, np.int64)
        label_start = gram.values - gram.dimension * gram.classes
        self._triangles = self._total[:label_start].reshape(matrices, -1)
        self._label_sums = np.zeros((gram.classes, gram.dimension), np.int64)
        self._pending: FloatArray | None = None
        self._pending_rows = 0

    def add(self, rows: IntegerRows, labels: IntArray | None) -> None:
        """Add a block of rows (n, d), integers in float64, and their labels.

        `labels` (n,): classes, with -1 for none; or the integers 2^b y; or None.
        """
        if not rows.shape[0]:
            return
        if self._pending_rows + rows.shape[0] > self.most_rows:
            self._flush()
        self._pending_rows += rows.shape[0]
        if labels is None:
            self._add_gram(rows, 0)
            return
        self._label_sums += self._sums(rows, labels)
        if not self.gram.by_class:
            self._add_gram(rows, 0)
            return
        order = np.argsort(labels, kind="stable")
        rows, labels = rows[order], labels[order]
        for label in np.unique(labels[labels >= 0]):
            first, last = np.searchsorted(labels, [label, label + 1])
            self._add_gram(rows[first:last], int(label))

    def total(self) -> IntArray:
        """Return all sums, (values,): upper triangles row by row, then (d, c) label sums."""
        self._flush()
        sums = self._label_sums
        if self.gram.classes > 1:
            sums = self.gram.classes * sums - sums.sum(axis=0)
        self._total[len(self._total) - sums.size :] = sums.T.reshape(-1)
        return self._total

    def _sums(self, rows: IntegerRows, labels: IntArray) -> IntArray:
        """Return the sums of rows by label, (c, d): of each class, or times the number."""
        if self.gram.classes == 1:
            return np.asarray((rows.T @ labels.astype(np.float64))[None, :], np.int64)
        (labelled,) = np.nonzero(labels >= 0)
        members: Any = sparse.csr_array(
            (np.ones(len(labelled)), (labels[labelled], labelled)),
            shape=(self.gram.classes, len(labels)),
        )
        sums = members @ rows
        dense = sums.toarray() if is_sparse(sums) else sums
        return np.asarray(dense, np.int64)

    def _add_gram(self, rows: IntegerRows, matrix: int) -> None:
        if is_sparse(rows):
            self._add_sparse(rows, matrix)
            return
        if self._pending is None:
            shape = (len(self._triangles), self.gram.dimension, self.gram.dimension)
            self._pending = np.zeros(shape)
        # To Fortran all is transposed: its lower triangle is our upper one, and nothing is copied.
        dsyrk(1.0, rows.T, beta=1.0, c=self._pending[matrix].T, overwrite_c=1, lower=1)

    def _add_sparse(self, rows: IntegerRows, matrix: int) -> None:
        # The product is symmetric, so whether it lies by rows or by columns is the same.
        product: Any = rows.T @ rows
        d = self.gram.dimension
        i = np.repeat(np.arange(d), np.diff(product.indptr))
        upper = product.indices >= i
        i, j = i[upper], product.indices[upper].astype(np.int64)
        # Row i of the triangle begins after those of d, d - 1, ... numbers; no pair occurs twice.
        triangle = self._triangles[matrix]
        triangle[i * d - i * (i - 1) // 2 + j - i] += product.data[upper].astype(np.int64)

    def _flush(self) -> None:
        """Add what is in float64 to the integers."""
        self._pending_rows = 0
        if self._pending is None:
            return
        first = 0
        for i in range(self.gram.dimension):
            row = self._pending[:, i, i:]
            self._triangles[:, first : first + row.shape[1]] += row.astype(np.int64)
            first += row.shape[1]
        self._pending[:] = 0.0
