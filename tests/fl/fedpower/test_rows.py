"""Rows of a federation, node by node: the matrix itself, whoever holds which part of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from privplan.accountant.errors import InvalidInput
from privplan.fl.fedpower import rows

from ...cases import for_each
from .matrices import rated, recorded

CELLS = [(0, 1, 5.0), (0, 3, 1.0), (1, 0, 2.5), (3, 3, 4.0), (4, 2, 0.5)]
DENSE = np.array([[0, 5, 0, 1], [2.5, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 4], [0, 0, 0.5, 0]])


def dense(found: rows.Rows) -> np.ndarray:
    return found if isinstance(found, np.ndarray) else found.toarray()


def test_nodes_hold_the_rows_of_their_users_sparse() -> None:
    made = rated(CELLS, users=5, silos=2, columns=4)
    assert rows.dimension(made) == 4
    assert rows.row_counts(made).tolist() == [3, 2]
    parts = [rows.node_rows(made, silo) for silo in range(2)]
    assert all(isinstance(part, csr_array) and part.dtype == np.float64 for part in parts)
    assert (np.concatenate([dense(part) for part in parts]) == DENSE).all()
    assert (dense(rows.all_rows(made)) == DENSE).all()


def test_the_order_of_ratings_changes_no_row() -> None:
    one = rated(CELLS, users=5, silos=2, columns=4)
    other = rated(CELLS[::-1], users=5, silos=2, columns=4)
    assert (dense(rows.all_rows(one)) == dense(rows.all_rows(other))).all()


@for_each("user", range(5))
def test_a_user_who_is_absent_leaves_a_row_of_zeros_and_moves_nobody(user: int) -> None:
    made = rated(CELLS, users=5, silos=2, columns=4)
    neighbour = made.without(user)
    assert rows.row_counts(neighbour).tolist() == rows.row_counts(made).tolist()
    expected = DENSE.copy()
    expected[user] = 0.0
    assert (dense(rows.all_rows(neighbour)) == expected).all()
    assert (dense(rows.all_rows(made)) == DENSE).all()  # what was kept is of its own federation


@for_each("shape", [(3,), (2, 2)])
def test_records_are_dense_rows_in_the_order_of_the_federation(shape: tuple[int, ...]) -> None:
    made = recorded(shape=shape)
    flat = made.features.reshape(12, -1).astype(np.float64)
    assert rows.dimension(made) == flat.shape[1]
    assert rows.row_counts(made).tolist() == [4, 4, 4]
    for silo in range(3):
        found = rows.node_rows(made, silo)
        assert isinstance(found, np.ndarray)
        assert not found.flags.writeable
        assert (found == flat[made.silo == silo]).all()


@for_each("silo", [2, -1])
def test_nodes_that_there_are_not_are_refused(silo: int) -> None:
    with pytest.raises(InvalidInput):
        rows.node_rows(rated(CELLS, users=5, silos=2, columns=4), silo)


def test_rows_are_gathered_once_and_let_go_with_the_federation() -> None:
    made = rated(CELLS, users=5, silos=2, columns=4)
    assert rows.all_rows(made) is rows.all_rows(made)
    kept = len(rows._GATHERED)
    del made
    assert len(rows._GATHERED) < kept
