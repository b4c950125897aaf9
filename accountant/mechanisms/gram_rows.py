"""Rows of records on the grid of a Gram matrix, and their exact products: integers throughout.

    x  ->  q = trunc(2^b rho (sqrt(1 - v) clip_R(x) / R, sqrt(v))),      rho = sqrt(T / k)

v is the share of the norm that a public constant, the intercept, has.  |q|^2 <= 4^b T / k holds
between integers (`clip.clipped`, and integer square roots for both limits).  Products of blocks of
2^13 rows are sums of integers below 2^53, so float64 has them exactly, in whatever order a library
adds; blocks are added as 64-bit integers, modulo 2^64 (`gram_noise`, overflow).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray
from .clip import clipped
from .gram_noise import NoisyGram

BLOCK_ROWS: Final = 2**13
"""Rows whose products are added in float64: 2^13 2^20 2^20 = 2^53."""


@dataclass(frozen=True, eq=False, repr=False)
class GramTotal:
    """The exact sum of one silo, (values,) int64, and facts for the sealed sidecar alone.

    `rows` were there, of which `clipped` were longer than the row norm and `dropped` lay beyond
    the cap on the rows of their unit.
    """

    total: IntArray
    rows: int
    clipped: int
    dropped: int


def gram_total(
    mechanism: NoisyGram,
    features: FloatArray,
    labels: IntArray | FloatArray | None = None,
    *,
    intercept: float = 0.0,
    units: IntArray | None = None,
    most_rows: int | None = None,
) -> GramTotal:
    """Return the sum of x x^T and x y^T over the rows of one silo, in steps of the grid.

    - `features`: (n, p) in raw units; d is p, and one more with an `intercept`.
    - `labels`: (n,) classes from 0 to c - 1, or numbers in [-1, 1], or None.
    - `intercept`: v, the share of the squared norm that a constant has, from 0 to below 1.
    - `units`: (n,) the unit of each row, of which the first `most_rows` rows here are kept.
    """
    kept = _kept(len(features), units, most_rows)
    total = np.zeros(mechanism.gram.values, np.int64)
    beyond = 0
    for block in _blocks(kept):
        rows, longer = grid_rows(mechanism, features[block], intercept=intercept)
        beyond += longer
        total += _products(mechanism, rows, None if labels is None else labels[block])
    return GramTotal(total, len(features), beyond, len(features) - len(kept))


def grid_rows(
    mechanism: NoisyGram, features: FloatArray, *, intercept: float = 0.0
) -> tuple[FloatArray, int]:
    """Return rows on the grid, (n, d) integers in float64, and how many were longer than R."""
    square = mechanism.gram.row_square * 4**mechanism.bits
    share = Fraction(intercept)
    most = math.isqrt(math.floor(square * (1 - share)))
    constant = math.isqrt(math.floor(square * share))
    # One grid step in raw units, at or below R / (2^b rho sqrt(1 - v)): rows are not stretched.
    grid = mechanism.row_norm / float(most + 1)
    ones = np.ones(len(features))
    rows = clipped(features, ones, np.full(len(features), float(most)), grid, "l2")
    norms = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
    longer = int(np.count_nonzero(norms > mechanism.row_norm))
    table = rows.astype(np.float64)
    if share:
        table = np.hstack([table, np.full((len(table), 1), float(constant))])
    return table, longer


def _products(
    mechanism: NoisyGram, rows: FloatArray, labels: IntArray | FloatArray | None
) -> IntArray:
    """Return G above and on its diagonal, and L, of one block of rows: exact integers."""
    gram = mechanism.gram
    upper = np.triu_indices(gram.dimension)
    parts: list[FloatArray] = []
    if gram.by_class:
        assert labels is not None
        members = [rows[labels == label] for label in range(gram.classes)]
        parts += [(member.T @ member)[upper] for member in members]
    else:
        parts.append((rows.T @ rows)[upper])
    if gram.classes:
        assert labels is not None
        parts.append((rows.T @ label_integers(mechanism, labels)).reshape(-1))
    return np.concatenate(parts).astype(np.int64)


def label_integers(mechanism: NoisyGram, labels: IntArray | FloatArray) -> FloatArray:
    """Return s y of each label, (n, c) integers in float64: c e_j - 1, or trunc(2^b y)."""
    classes = mechanism.gram.classes
    if classes == 1:
        return np.trunc(np.clip(labels, -1.0, 1.0) * mechanism.label_scale)[:, None]
    table = np.full((len(labels), classes), -1.0)
    table[np.arange(len(labels)), labels.astype(np.int64)] += classes
    return table


def _kept(count: int, units: IntArray | None, most_rows: int | None) -> IntArray:
    """Return the rows that are kept: of each unit the first `most_rows` that lie here."""
    if units is None or most_rows is None:
        return np.arange(count)
    order = np.argsort(units, kind="stable")
    ordered = units[order]
    starts = np.searchsorted(ordered, ordered)  # where each unit's rows begin
    return np.sort(order[np.arange(count) - starts < most_rows])


def _blocks(kept: IntArray) -> Iterator[IntArray]:
    for first in range(0, len(kept), BLOCK_ROWS):
        yield kept[first : first + BLOCK_ROWS]
