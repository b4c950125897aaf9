"""Federations of ratings: rows and nodes by number, and neighbours that are of the same kind."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.data import rating_federation
from privplan.fl.data.rating_federation import MAX_COLUMNS, RatingFederation, row_silos

from ...cases import for_each
from ..fedpower.matrices import rated

CELLS = [(0, 1, 5.0), (0, 3, 1.0), (1, 0, 2.5), (3, 3, 4.0)]


def test_a_neighbour_keeps_columns_users_and_silos() -> None:
    made = rated(CELLS, users=5, silos=2, columns=4)
    for user in range(5):
        neighbour = made.without(user)
        assert type(neighbour) is RatingFederation
        assert (neighbour.columns, neighbour.users, neighbour.silos) == (4, 5, 2)
        assert (neighbour.user != user).all()
        assert neighbour.records == made.records - (made.user == user).sum()
    nobody = made.only(np.zeros(4, bool))
    assert (nobody.records, nobody.columns) == (0, 4)
    assert len(made.test_features) == 0


@for_each(
    ("cells", "sizes", "what"),
    [
        ([(0, 4, 1.0)], {}, "integer from 0 to 3"),
        ([(0, -1, 1.0)], {}, "integer from 0 to 3"),
        ([(0, 1.5, 1.0)], {}, "integer from 0 to 3"),
        ([(0, 1, 1.0), (1, 1, 2.0), (0, 1, 2.0)], {}, "two ratings in one column"),
        ([(0, 1, float("nan"))], {}, "NaN"),
        ([(5, 1, 1.0)], {}, "user"),
        ([(0, 1, 1.0)], {"users": 1}, "too few for 2 silos"),
        ([(0, 1, 1.0)], {"columns": 0}, "columns"),
        ([(0, 1, 1.0)], {"columns": MAX_COLUMNS + 1}, "16,777,216"),
    ],
)
def test_what_is_no_matrix_is_refused(cells: list, sizes: dict[str, int], what: str) -> None:
    made = rated(CELLS, users=5, silos=2, columns=4)
    changed = {
        "features": np.array([cell[1:] for cell in cells], np.float32),
        "labels": np.zeros(len(cells), int),
        "user": np.array([cell[0] for cell in cells]),
        "silo": np.zeros(len(cells), int),
    }
    with pytest.raises(InvalidInput, match=what):
        replace(made, **{**changed, **sizes})


def test_a_rating_lies_in_the_node_of_its_row() -> None:
    made = rated(CELLS, users=5, silos=2, columns=4)
    with pytest.raises(InvalidInput, match="Rating 1 lies in another silo"):
        replace(made, silo=np.array([0, 1, 0, 1]))
    with pytest.raises(InvalidInput, match=r"\(ratings, 2\)"):
        replace(made, features=np.zeros((4, 3)), test_features=np.zeros((0, 3)))


def test_rows_are_split_as_numpy_does() -> None:
    for users, silos in ((5, 2), (100, 7), (3, 3), (236, 100)):
        parts = np.array_split(np.arange(users), silos)
        found = row_silos(users, silos)
        assert [np.flatnonzero(found == silo).tolist() for silo in range(silos)] == [
            part.tolist() for part in parts
        ]


def test_examples_run() -> None:
    found = doctest.testmod(rating_federation)
    assert found.attempted > 0
    assert found.failed == 0
