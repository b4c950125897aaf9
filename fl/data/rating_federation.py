"""A federation of ratings: a sparse matrix with one row for each user, whole rows in nodes.

Users are numbered in the public random order in which rows were dealt, so the node of a row follows
from its number alone (`row_silos`).  No rating moves it, and a user without any rating still has a
row, of zeros, in its node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant import validate
from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from .federation import Federation

MAX_COLUMNS: Final = 2**24
"""Most columns of a matrix of ratings: up to here float32 holds each column's number exactly."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RatingFederation(Federation):
    """Ratings, each with its row and its column; see `Federation` for what it shares with it.

    - `features`: (ratings, 2) float32, [column, value]: columns are integers from 0 to
      `columns` - 1, and no row has a column twice.
    - `labels`: (ratings,) zeros, of a task such as `binary`: ratings have no labels.
    - `user`: (ratings,), the row of each rating; `users` is how many rows there are.
    - `silo`: (ratings,), the node of each rating: that of its row, by `row_silos`.
    - `columns`: how many columns the matrix has, from 1 to 2^24: a public constant.
    - `test_features`: (0, 2).  Where ratings are public, results are measured on the rows
      themselves, and else on nothing.

    A row without ratings is one of zeros, so users and silos may lack records.  Raises
    `InvalidInput` as `Federation`, for a column that is out of range or twice in a row, and for a
    rating that lies in another node than its row.

    >>> two = RatingFederation(name="tiny", task="binary", classes=2, users=2, silos=2, columns=3,
    ...                        features=[[0, 5], [2, 1]], labels=[0, 0], user=[0, 1], silo=[0, 1],
    ...                        test_features=np.empty((0, 2)), test_labels=np.empty(0, int))
    >>> two.without(1).columns, two.without(1).records
    (3, 1)
    """

    absent_users: bool = True
    empty_silos: bool = True
    columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if validate.count(columns=self.columns) > MAX_COLUMNS:
            raise InvalidInput(
                f"`columns` must be from 1 to {MAX_COLUMNS:,}; it is {self.columns:,}.",
                next_step="List fewer columns.",
            )
        if self.features.shape[1:] != (2,):
            raise InvalidInput(
                f"`features` of ratings must be (ratings, 2); they are {self.features.shape}.",
                next_step="Give [column, value] for each rating.",
            )
        self._refuse_wrong_columns()
        elsewhere = np.flatnonzero(self.silo != row_silos(self.users, self.silos)[self.user])
        if elsewhere.size:
            raise InvalidInput(
                f"Rating {elsewhere[0]} lies in another silo than its row.",
                "The rows of a silo follow from their numbers alone, so that no rating moves one.",
                "Number users in the order in which they are dealt (`row_silos`).",
            )

    @property
    def test_records(self) -> int:
        """How many rows results are measured on, where ratings are public: all of them."""
        return self.users

    def _refuse_wrong_columns(self) -> None:
        column = self.features[:, 0]
        wrong = np.flatnonzero((column < 0) | (column >= self.columns) | (column % 1 != 0))
        if wrong.size:
            raise InvalidInput(
                f"The column of rating {wrong[0]} is no integer from 0 to {self.columns - 1}.",
                next_step="Number columns from 0.",
            )
        cells = np.sort(self.user * self.columns + column.astype(np.int64))
        if (cells[1:] == cells[:-1]).any():
            raise InvalidInput(
                "A row has two ratings in one column.",
                "Their sum could be above the largest rating.",
                "Keep one of them.",
            )

    def _refuse_empty_test(self, test: Float32Array) -> None:
        """Take an empty test set: rows are measured on themselves, or on nothing."""


def row_silos(users: int, silos: int) -> IntArray:
    """Return the silo of each row, (users,): equal parts in order, as `numpy.array_split`.

    Raises `InvalidInput` for fewer users than silos.

    >>> row_silos(5, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    rows, nodes = validate.count(users=users), validate.count(silos=silos)
    if rows < nodes:
        raise InvalidInput(
            f"{rows} users are too few for {nodes} silos.",
            "Each silo holds the rows of one user or more.",
            f"Ask for {rows} silos or fewer.",
        )
    sizes = np.full(nodes, rows // nodes)
    sizes[: rows % nodes] += 1
    return np.repeat(np.arange(nodes), sizes)
