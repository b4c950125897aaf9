"""The federation: indices agree with a slow count, neighbours differ in one user, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.fl.data.federation import Federation

from ..cases import for_each


def federation(**changes: Any) -> Federation:
    fields: dict[str, Any] = {
        "name": "tiny",
        "task": "binary",
        "classes": 2,
        "users": 3,
        "silos": 2,
        "features": np.arange(12.0).reshape(6, 2),
        "labels": [0, 1, 0, 1, 0, 1],
        "user": [2, 0, 1, 0, 2, 2],
        "silo": [1, 0, 0, 1, 1, 0],
        "test_features": [[0.0, 1.0]],
        "test_labels": [1],
    }
    return Federation(**{**fields, **changes})


@st.composite
def indices(draw: st.DrawFn) -> tuple[int, int, list[int], list[int]]:
    users, silos = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    records = draw(st.integers(1, 40))
    numbers = st.lists(st.integers(0, users - 1), min_size=records, max_size=records)
    places = st.lists(st.integers(0, silos - 1), min_size=records, max_size=records)
    return users, silos, draw(numbers), draw(places)


def of(made: tuple[int, int, list[int], list[int]]) -> Federation:
    users, silos, user, silo = made
    features = np.arange(len(user), dtype=np.float64)[:, None]
    given = {"users": users, "silos": silos, "user": user, "silo": silo, "features": features}
    tests = {"labels": [0] * len(user), "test_features": [[0.0]]}
    return federation(**given, **tests, absent_users=True, empty_silos=True)


@given(indices())
def test_counts_and_groups_agree_with_a_slow_count(
    made: tuple[int, int, list[int], list[int]],
) -> None:
    users, silos, user, silo = made
    one = of(made)
    where: dict[tuple[int, int], list[int]] = {}
    for record, key in enumerate(zip(silo, user, strict=True)):
        where.setdefault(key, []).append(record)
    counts = np.zeros((users, silos))
    for (place, holder), records in where.items():
        counts[holder, place] = len(records)
    assert (one.counts == counts).all()

    pairs = one.pairs()
    found = [(int(pairs.silo[g]), int(pairs.user[g])) for g in range(len(pairs))]
    assert found == sorted(where)
    assert [pairs.records(g).tolist() for g in range(len(pairs))] == [where[key] for key in found]
    assert pairs.sizes.tolist() == [len(where[key]) for key in found]
    assert (np.diff(pairs.silo) >= 0).all()  # those of one silo are neighbours

    groups = one.by_silo()
    assert len(groups) == silos
    expected = [[r for r, i in enumerate(silo) if i == g] for g in range(silos)]
    assert [groups.records(g).tolist() for g in range(silos)] == expected


@given(indices(), st.data())
def test_a_neighbour_lacks_one_users_records_and_nothing_else(
    made: tuple[int, int, list[int], list[int]], data: st.DataObject
) -> None:
    one = of(made)
    gone = data.draw(st.integers(0, one.users - 1))
    other = one.without(gone)
    assert (other.users, other.silos) == (one.users, one.silos)
    expected = one.counts
    expected[gone] = 0
    assert (other.counts == expected).all()
    kept = one.user != gone
    assert (other.features == one.features[kept]).all()
    assert (other.user == one.user[kept]).all()
    assert other.test_features is one.test_features or (other.test_features == 0).all()


def test_types_are_those_of_the_contract() -> None:
    one = federation()
    assert one.features.dtype == np.float32
    assert {a.dtype for a in (one.labels, one.user, one.silo, one.counts)} == {np.dtype(np.int64)}
    assert one.records == 6
    assert "0." not in repr(one)
    with pytest.raises(ValueError, match="read-only"):
        one.features[0, 0] = 7.0

    features = np.zeros((6, 2), np.float32)
    federation(features=features)
    features[0, 0] = 1.0  # the caller's arrays stay writable
    times = {"labels": [[1.0, 0.0]] * 6, "test_labels": [[2.0, 1.0]]}
    made = federation(task="survival", classes=1, **times)  # time and event
    assert made.labels.dtype == np.float32
    assert made.labels.shape == (6, 2)


NAN = np.arange(12.0).reshape(6, 2)
NAN[3, 1] = np.nan
INFINITE = np.zeros((6, 2, 3))
INFINITE[2, 1, 0] = np.inf
SURVIVAL: dict[str, Any] = {"task": "survival", "classes": 1, "test_labels": [[1.0, 0.0]]}


@for_each(
    ("changes", "message"),
    [
        ({"features": NAN}, "row 3, column 1"),
        ({"features": INFINITE, "test_features": np.zeros((1, 2, 3))}, r"row 2, column \(1, 0\)"),
        ({"features": np.full((6, 2), 1e300)}, "row 0, column 0"),  # infinite as float32
        ({"features": np.zeros(6)}, r"`features` must be an array"),
        ({"features": "abc"}, r"`features` must be an array"),
        ({"features": np.zeros((5, 2))}, r"`labels` must be of shape \(5,\)"),
        ({"test_features": [[1.0]]}, "test record has shape"),
        ({"test_features": np.zeros((0, 2)), "test_labels": []}, "test set is empty"),
        ({"test_features": [[np.nan, 0.0]]}, "`test_features` has a value"),
        ({"labels": [0, 1, 2, 0, 0, 0]}, "`labels` must be from 0 to 1; row 2"),
        ({"labels": [0.0] * 6}, "`labels` must hold integers"),
        ({"labels": [[0]] * 6}, r"`labels` must be of shape \(6,\)"),
        ({"test_labels": [-1]}, "`test_labels` must be from 0 to 1; row 0"),
        ({"user": [2, 0, 1, 0, 2, 3]}, "`user` must be from 0 to 2; row 5"),
        ({"user": [2, -1, 1, 0, 2, 0]}, "`user` must be from 0 to 2; row 1"),
        ({"silo": [0, 1, 2, 0, 0, 0]}, "`silo` must be from 0 to 1; row 2"),
        ({"test_silo": [2]}, "`test_silo` must be from 0 to 1; row 0"),
        ({"user": [2, 0, 0, 0, 2, 2]}, "User 1 has no record in any silo"),
        ({"silo": [0] * 6}, "Silo 1 has no records"),
        ({"users": 0}, "`users` must be a positive integer"),
        ({"task": "ranking"}, "`task` must be one of"),
        ({"classes": 3}, "does not fit the task binary"),
        ({**SURVIVAL, "labels": [[1.0, 0.5]] * 6}, "Row 0 of `labels` is no"),
        ({**SURVIVAL, "labels": [[1.0, 1.0]] * 5 + [[-1.0, 1.0]]}, "Row 5 of `labels` is no"),
        ({**SURVIVAL, "labels": [0] * 6}, r"`labels` must be of shape \(6, 2\)"),
    ],
)
def test_bad_input_is_refused_at_the_door(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        federation(**changes)


def test_absent_users_and_empty_silos_need_a_flag() -> None:
    made = federation(user=[2, 0, 0, 0, 2, 2], absent_users=True)
    assert made.counts[1].tolist() == [0, 0]
    made = federation(silo=[0] * 6, empty_silos=True)
    assert made.by_silo().sizes.tolist() == [6, 0]


def test_without_a_user() -> None:
    """One who is not on the list is refused; without the only one no records are left."""
    for user in (3, -1):
        with pytest.raises(InvalidInput, match="`user`"):
            federation().without(user)
    one = federation(users=1, user=[0] * 6).without(0)
    assert (one.records, len(one.pairs()), one.by_silo().sizes.tolist()) == (0, 0, [0, 0])
