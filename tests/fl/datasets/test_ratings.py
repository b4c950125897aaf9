"""Ratings as a matrix: the filter, public columns, and rows that no other user's ratings move."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets import ratings as room
from privplan.fl.datasets.ratings import Ratings, federate_ratings, filtered, read_ratings
from privplan.fl.declarations.toml_key import RATINGS

from ...cases import for_each
from ..fedpower.matrices import csv_file

MOVIELENS = Path(
    os.environ.get(
        "PRIVPLAN_MOVIELENS_SMALL",
        Path(__file__).parents[4] / "shared" / "data" / "ratings" / "movielens-small.csv",
    )
)
"""MovieLens' small ratings, which may not be redistributed: a file that you have, or none."""


def random_lines(users: int, films: int, share: float, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [
        f"u{user},f{film},{rng.integers(1, 11) / 2}"
        for user, film in product(range(users), range(films))
        if rng.random() < share
    ]


def cells(ratings: Ratings) -> dict[tuple[str, str], float]:
    return {
        (ratings.users[row], ratings.films[column]): float(value)
        for row, column, value in zip(ratings.row, ratings.column, ratings.value, strict=True)
    }


def filtered_slowly(
    held: dict[tuple[str, str], float], fewest: int
) -> dict[tuple[str, str], float]:
    """Leave out one user or film at a time that has too few ratings, until there is none."""
    left = dict(held)
    while True:
        few = [
            (side, name)
            for side in (0, 1)
            for name in sorted({pair[side] for pair in left})
            if sum(pair[side] == name for pair in left) < fewest
        ]
        if not few:
            return left
        side, name = few[0]
        left = {pair: value for pair, value in left.items() if pair[side] != name}


@for_each("seed", range(6))
def test_the_filter_is_the_one_that_takes_away_one_at_a_time(tmp_path: Path, seed: int) -> None:
    path = csv_file(tmp_path / "r.csv", random_lines(14, 12, 0.45, seed))
    everything = read_ratings(path, fewest=1)
    for fewest in (2, 4, 5, 6):
        expected = filtered_slowly(cells(everything), fewest)
        found = filtered(everything, fewest)
        assert cells(found) == expected
        assert set(found.users) == {user for user, _ in expected}
        assert set(found.films) == {film for _, film in expected}


def test_the_filter_goes_on_until_nothing_changes(tmp_path: Path) -> None:
    # Without c, film z has one rating; without z, user b has one; and so on, to nothing.
    path = csv_file(tmp_path / "r.csv", ["a,x,1", "a,y,1", "b,y,1", "b,z,1", "c,z,1"])
    with pytest.raises(InvalidInput, match="2 ratings of one another") as caught:
        read_ratings(path, fewest=2)
    assert "fewest_ratings" in str(caught.value.next_step)
    assert len(read_ratings(path, fewest=1).users) == 3


def test_public_columns_leave_every_user_in(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "r.csv", ["a,x,1", "b,y,2", "b,x,3", "c,z,4"])
    films = tmp_path / "films.csv"
    films.write_text("y\nnever\nx\n")
    found = read_ratings(path, columns=films)
    assert found.users == ("a", "b", "c")
    assert found.films == ("y", "never", "x")
    assert cells(found) == {("a", "x"): 1.0, ("b", "y"): 2.0, ("b", "x"): 3.0}
    made = federate_ratings(found, 3, 3, np.random.default_rng(0), lists_are_public=False)
    assert (made.columns, made.users, made.records) == (3, 3, 3)
    assert sorted(made.counts.sum(axis=1).tolist()) == [0, 1, 2]  # c has a row of zeros


def test_one_users_ratings_move_no_other_row_node_or_column(tmp_path: Path) -> None:
    lines = random_lines(9, 6, 0.6, 3)
    films = tmp_path / "films.csv"
    films.write_text("".join(f"f{film}\n" for film in range(6)))

    def dealt(held: list[str]):
        read = read_ratings(csv_file(tmp_path / "r.csv", held), columns=films)
        return read, federate_ratings(read, 9, 4, np.random.default_rng(7), lists_are_public=False)

    def matrix(made):
        table = np.zeros((9, 6))
        table[made.user, made.features[:, 0].astype(int)] = made.features[:, 1]
        return table

    read, made = dealt(lines)
    for user in range(9):
        # The list of users stays: of this user, one rating that is not listed is left.
        other = [line for line in lines if not line.startswith(f"u{user},")] + [f"u{user},zzz,1"]
        again, neighbour = dealt(other)
        assert again.users == read.users
        changed = np.flatnonzero((matrix(neighbour) != matrix(made)).any(axis=1))
        assert len(changed) == 1
        assert (matrix(neighbour)[changed] == 0.0).all()
        assert (matrix(made.without(int(changed[0]))) == matrix(neighbour)).all()
        assert neighbour.columns == made.columns


def test_the_order_of_lines_changes_nothing(tmp_path: Path) -> None:
    lines = random_lines(8, 5, 0.7, 1)
    one = read_ratings(csv_file(tmp_path / "a.csv", lines), fewest=1)
    other = read_ratings(csv_file(tmp_path / "b.csv", lines[::-1]), fewest=1)
    assert one.digest == other.digest
    changed = [*lines[:-1], lines[-1].rsplit(",", 1)[0] + ",0.25"]
    assert read_ratings(csv_file(tmp_path / "c.csv", changed), fewest=1).digest != one.digest


@for_each(("users", "silos"), [(9, 4), (9, 9), (9, 1), (10, 3)])
def test_rows_are_dealt_as_array_split_deals_a_permutation(
    tmp_path: Path, users: int, silos: int
) -> None:
    path = csv_file(tmp_path / "r.csv", [f"u{user},f,{(user + 1) / 2}" for user in range(users)])
    read = read_ratings(path, fewest=1)
    made = federate_ratings(read, users, silos, np.random.default_rng(5), lists_are_public=True)
    expected = np.array_split(np.random.default_rng(5).permutation(users), silos)
    for silo, rows in enumerate(expected):
        values = made.features[made.silo == silo, 1]
        assert values.tolist() == [(row + 1) / 2 for row in rows]


def test_a_second_rating_of_a_film_is_refused_by_its_line(tmp_path: Path) -> None:
    lines = ["anna,x,1", "bob,x,2", "anna,y,3", "bob,x,2", "anna,x,4"]
    with pytest.raises(InvalidInput, match=r"Line 5 of r\.csv is a second rating") as caught:
        read_ratings(csv_file(tmp_path / "r.csv", lines), fewest=1)
    assert "bob" not in str(caught.value)


def test_the_number_of_rows_is_told_only_where_it_is_public(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "r.csv", [f"u{user},f,1" for user in range(7)])
    read = read_ratings(path, fewest=1)
    with pytest.raises(InvalidInput, match="the filter leaves 7 users") as caught:
        federate_ratings(read, 6, 2, np.random.default_rng(0), lists_are_public=True)
    assert "users = 7" in str(caught.value.next_step)
    with pytest.raises(InvalidInput) as caught:
        federate_ratings(read, 6, 2, np.random.default_rng(0), lists_are_public=False)
    assert "7" not in str(caught.value)
    assert "another number of users" in str(caught.value)
    with pytest.raises(InvalidInput, match="7 users are too few for 8 silos"):
        federate_ratings(read, 7, 8, np.random.default_rng(0), lists_are_public=False)


def test_columns_and_a_filter_are_two_ways(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "r.csv", ["a,x,1"])
    for how in ({}, {"columns": path, "fewest": 1}):
        with pytest.raises(InvalidInput, match="one of `columns` and `fewest`"):
            read_ratings(path, **how)
    films = tmp_path / "films.csv"
    films.write_text("other\n")
    with pytest.raises(InvalidInput, match=r"No rating of r\.csv"):
        read_ratings(path, columns=films)


def test_the_name_is_that_of_a_configuration() -> None:
    assert room.RATINGS == RATINGS


@pytest.mark.skipif(not MOVIELENS.is_file(), reason=f"there is no {MOVIELENS}")
def test_the_small_movielens_has_its_published_size_and_the_filter_leaves_a_dense_core() -> None:
    everything = read_ratings(MOVIELENS, fewest=1)
    sizes = (len(everything.users), len(everything.films), everything.row.size)
    assert sizes == (671, 9_066, 100_004)
    core = filtered(everything, 50)
    assert (len(core.users), len(core.films), core.row.size) == (236, 294, 24_328)
    made = federate_ratings(core, 236, 100, np.random.default_rng(0), lists_are_public=True)
    assert np.bincount(made.silo, minlength=100).min() >= 50  # one row or more in each node
    assert made.columns == 294
