"""The rows of a federation's matrix, node by node: sparse for ratings, dense for other records.

A record is one row; of ratings, a row is all ratings of one user, and zeros where none are.  Rows
are gathered once for a federation, and kept as long as it is.
"""

from __future__ import annotations

from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array

from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ..data.federation import Federation
from ..data.rating_federation import RatingFederation, row_silos

Rows: TypeAlias = csr_array | FloatArray
"""Rows of a matrix, (rows, d) float64: sparse of ratings, dense and read-only of others."""

_GATHERED: Final[WeakKeyDictionary[Federation, tuple[Rows, IntArray]]] = WeakKeyDictionary()
"""The rows of all nodes, one node behind the other, and where each node begins: (silos + 1,)."""


def dimension(federation: Federation) -> int:
    """Return d, how many columns the matrix has: of ratings `columns`, else features per record."""
    if isinstance(federation, RatingFederation):
        return federation.columns
    return int(np.prod(federation.features.shape[1:]))


def row_counts(federation: Federation) -> IntArray:
    """Return how many rows each node has: (silos,).

    Of ratings that follows from `users` and `silos`, which are public, and rows of zeros count.  Of
    other records it is how many there are, which one record more or less changes: private.
    """
    if isinstance(federation, RatingFederation):
        return np.bincount(
            row_silos(federation.users, federation.silos), minlength=federation.silos
        )
    return np.bincount(federation.silo, minlength=federation.silos)


def node_rows(federation: Federation, silo: int) -> Rows:
    """Return the rows of one node: (rows, d) float64.

    Rows of records stand in the order of the federation, those of users in the order of their
    numbers.  Raises `InvalidInput` for a silo that there is not.
    """
    node = validate.count_from(0, silo=silo)
    if node >= federation.silos:
        raise InvalidInput(
            f"`silo` must be below `silos` ({federation.silos}); it is {node}.",
            next_step="Silos are numbered from 0.",
        )
    rows, offsets = _gathered(federation)
    return rows[int(offsets[node]) : int(offsets[node + 1])]


def all_rows(federation: Federation) -> Rows:
    """Return the rows of all nodes, one node behind the other: (rows, d) float64."""
    return _gathered(federation)[0]


def _gathered(federation: Federation) -> tuple[Rows, IntArray]:
    if federation not in _GATHERED:
        offsets = np.concatenate(([0], np.cumsum(row_counts(federation)))).astype(np.int64)
        sparse = isinstance(federation, RatingFederation)
        rows = _sparse(federation) if sparse else _dense(federation)
        _GATHERED[federation] = rows, offsets
    return _GATHERED[federation]


def _sparse(federation: Federation) -> csr_array:
    """Return the matrix of ratings; users are numbered node by node, so rows stand in order."""
    column = federation.features[:, 0].astype(np.int64)
    value = federation.features[:, 1].astype(np.float64)
    shape = (federation.users, dimension(federation))
    rows = csr_array((value, (federation.user, column)), shape=shape)
    rows.sort_indices()
    return rows


def _dense(federation: Federation) -> FloatArray:
    # The width is written out, as -1 has no meaning where there are no records at all.
    flat = federation.features.reshape(len(federation.features), dimension(federation))
    rows: FloatArray = flat[federation.by_silo().order].astype(np.float64)
    rows.flags.writeable = False
    return rows
