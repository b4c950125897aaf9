"""Ratings as a sparse matrix of users and films, dealt to nodes by whole rows.

What the matrix is made of must not follow from private ratings.  So its columns are those of a
public list; or the owner says that the lists of users and films are public, and then both are
filtered until each has enough ratings.  Such a filter looks at all rows: one user's absence can
move others, so nothing could be guaranteed of lists that are private.

How many users there are, and who they are, is a public constant of a run, as in `Federation`: a
neighbour has the same list, of which one user has no ratings.  Rows are numbered and dealt by a
public random order of that list, and a user who rated nothing that is listed has a row of zeros: so
no user's ratings move the row or the node of another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...accountant import validate
from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from ..data.rating_federation import RatingFederation, row_silos
from .rating_files import RatingLines, listed_films, rating_lines

RATINGS: Final = "ratings"
"""The name of the data set."""

FEWEST_RATINGS: Final = 50
"""Ratings that each user and each film has after the filter, unless it is told otherwise."""

LARGEST_RATING: Final = 5.0
"""The largest rating, unless it is told otherwise."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ratings:
    """A sparse matrix of ratings, by row and then by column.

    - `users`, `films`: the names of rows and columns, each once.
    - `row`, `column`: (ratings,) int64, indices into them; no pair stands there twice.
    - `value`: (ratings,) float32.
    """

    users: tuple[str, ...]
    films: tuple[str, ...]
    row: IntArray
    column: IntArray
    value: Float32Array

    @property
    def digest(self) -> str:
        """SHA-256 of names and ratings.  It is of private data: for a sealed record only."""
        content = hashlib.sha256(repr((self.users, self.films)).encode())
        for array, kind in ((self.row, "<i8"), (self.column, "<i8"), (self.value, "<f4")):
            content.update(np.ascontiguousarray(array, kind).tobytes())
        return content.hexdigest()


def read_ratings(
    path: str | Path,
    *,
    columns: str | Path | None = None,
    fewest: int | None = None,
    largest: float = LARGEST_RATING,
) -> Ratings:
    """Return the ratings of a file, above 0 and at most `largest` (see `.rating_files`).

    Give one of the two:

    - `columns`: the file of a public list of films.  Ratings of others are left out, and every user
      of the file stays, with or without a rating that is left.
    - `fewest`: lists are public, and users and films are left out, again and again, until every one
      of them has so many ratings.

    Raises `InvalidInput` for neither or both, for a user who rated a film twice, where no rating is
    left, and as `rating_lines` and `listed_films` do.
    """
    if (columns is None) == (fewest is None):
        raise InvalidInput(
            "Ratings need one of `columns` and `fewest`.",
            "What the columns are must not follow from private ratings.",
            "Give a public list of films, or say that the lists are public.",
        )
    top = validate.positive(largest=largest)
    lines = rating_lines(path, top)
    if columns is not None:
        films = listed_films(columns)
        matrix = _on_list(_matrix(path, lines), films)
        if not matrix.row.size:
            raise InvalidInput(
                f"No rating of {Path(path).name} is of a film of {Path(columns).name}.",
                "Names of films must be the same in both files.",
                "Give the list that belongs to these ratings.",
            )
        return matrix
    kept = filtered(_matrix(path, lines), validate.count(fewest=fewest))
    if not kept.row.size:
        raise InvalidInput(
            f"No users and films of {Path(path).name} have {fewest} ratings of one another.",
            "The filter leaves nothing.",
            "Write a smaller `fewest_ratings` under [data].",
        )
    return kept


def filtered(ratings: Ratings, fewest: int) -> Ratings:
    """Return what is left when users and films with fewer ratings are left out until none has.

    Which users that are depends on all rows, so it is for lists that are public.
    """
    left = ratings
    while True:
        rows = np.bincount(left.row, minlength=len(left.users)) >= fewest
        columns = np.bincount(left.column, minlength=len(left.films)) >= fewest
        if rows.all() and columns.all():
            return left
        left = _kept(left, rows, columns)


def federate_ratings(
    ratings: Ratings, users: int, silos: int, rng: Generator, *, lists_are_public: bool
) -> RatingFederation:
    """Return the federation of a matrix, its rows dealt evenly to silos in a random order.

    `users` is the public number of rows.  `rng` draws the order, which is public set-up, and
    depends on `users` alone.  With `lists_are_public`, an error may say how many rows there are.
    Raises `InvalidInput` for another number of rows, and for fewer rows than silos.
    """
    rows, nodes = validate.count(users=users), validate.count(silos=silos)
    if rows != len(ratings.users):
        raise _another_number(rows, len(ratings.users) if lists_are_public else None)
    silo_of_row = row_silos(rows, nodes)
    user = _inverse(rng.permutation(rows))[ratings.row]
    order = np.lexsort((ratings.column, user))
    user = user[order]
    return RatingFederation(
        name=RATINGS,
        task="binary",
        classes=2,
        users=rows,
        silos=nodes,
        columns=len(ratings.films),
        features=np.column_stack((ratings.column, ratings.value))[order].astype(np.float32),
        labels=np.zeros(user.size, np.int64),
        user=user,
        silo=silo_of_row[user],
        test_features=np.empty((0, 2), np.float32),
        test_labels=np.empty(0, np.int64),
    )


def _matrix(path: str | Path, lines: RatingLines) -> Ratings:
    """Return the ratings of a file, users and films in the order of their names.

    Raises `InvalidInput`, with the later line, where a user rated a film twice.
    """
    users, row = _sorted(lines.users, lines.user)
    films, column = _sorted(lines.films, lines.film)
    order = np.lexsort((column, row))  # stable: of two that are the same, the later comes later
    row, column = row[order], column[order]
    again = order[1:][(np.diff(row) == 0) & (np.diff(column) == 0)]
    if again.size:
        raise InvalidInput(
            f"Line {lines.line[again].min()} of {Path(path).name} is a second rating of a film by "
            "one user.",
            "Each user has one rating of a film.",
            "Leave one of them out.",
        )
    return Ratings(users=users, films=films, row=row, column=column, value=lines.value[order])


def _sorted(names: tuple[str, ...], index: IntArray) -> tuple[tuple[str, ...], IntArray]:
    """Return names in their order, and the same names by their new places."""
    order = sorted(range(len(names)), key=names.__getitem__)
    return tuple(names[old] for old in order), _inverse(np.array(order, np.int64))[index]


def _on_list(ratings: Ratings, films: tuple[str, ...]) -> Ratings:
    """Return the ratings of listed films, which become the columns; every user stays."""
    listed = {film: column for column, film in enumerate(films)}
    column = np.array([listed.get(film, -1) for film in ratings.films], np.int64)[ratings.column]
    held = column >= 0
    order = np.lexsort((column[held], ratings.row[held]))
    return replace(
        ratings,
        films=films,
        row=ratings.row[held][order],
        column=column[held][order],
        value=ratings.value[held][order],
    )


def _kept(ratings: Ratings, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Ratings:
    """Return the ratings of these rows and columns, which are numbered anew in their order."""
    held = rows[ratings.row] & columns[ratings.column]
    return Ratings(
        users=tuple(np.array(ratings.users, object)[rows]),
        films=tuple(np.array(ratings.films, object)[columns]),
        row=(np.cumsum(rows) - 1)[ratings.row[held]],
        column=(np.cumsum(columns) - 1)[ratings.column[held]],
        value=ratings.value[held],
    )


def _inverse(order: IntArray) -> IntArray:
    """Return the place of each index in `order`, which is a permutation."""
    position = np.empty(order.size, np.int64)
    position[order] = np.arange(order.size)
    return position


def _another_number(users: int, found: int | None) -> InvalidInput:
    """Return the refusal of a wrong `users`; `found` is None where the number is not public."""
    why = "How many rows there are is a public constant, and the log states it."
    if found is None:
        return InvalidInput(
            f"`users` is {users:,}, and the file has another number of users.",
            f"{why}  The message keeps the file's number to itself, as it may be private.",
            "Count the users that the file names, and write that number as `users` under [data] "
            "if it may be public.",
        )
    return InvalidInput(
        f"`users` is {users:,}, and the filter leaves {found:,} users.",
        why,
        f"Write users = {found} under [data], or another `fewest_ratings`.",
    )
