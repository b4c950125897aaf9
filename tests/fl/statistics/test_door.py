"""What is refused at the door: before the intent, by field and range, with no values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import privplan as pp
from privplan.accountant.errors import InvalidInput, PrivplanError, TargetUnreachable, Unsupported
from privplan.fl.statistics.door import admitted

from ...cases import for_each
from .small import classified, statistics
from .test_private_statistics import Memory

FEATURES, LABELS = classified(rows=50)
SECRET = 123456.75


def spoilt(value: float, row: int = 17) -> np.ndarray:
    table = FEATURES * 0 + SECRET
    table[row, 2] = value
    return table


INFINITE, NAN = float("inf"), float("nan")
WRONG: dict[str, list[Any]] = {
    "row_norm": [None, 0.0, INFINITE, "max", 1e-101, 1e101],
    "epsilon": [0.0, NAN],
    "delta": [0.0, 1.0, -1e-5],
    "neighbours": ["next door"],
    "noise": ["uniform"],
    "classes": [1, ["a", "a"], [0, NAN], 2000, "ab", [1, "a"], [0, 10**400]],
    "label_range": [(1.0, 1.0), (0.0, INFINITE), 3.0, "19", (0, 10**400), (-1e308, 1e308), "data"],
    "rows_per_user": [0],
    "silo_rows": [-1],
    "silos": [0],
    "intercept": [1.0, -0.1, 5e-324, 1 - 1e-9],
    "label_weight": [0.0],
    "most_rows": [0, 2.5],
    "observer": ["nobody"],
    "odometer": [1.0],
    "recorder": [5],
    "bound_source": ["the data"],
}
"""By key, which a refusal names: what it must not be."""


@for_each(
    "terms, named",
    [
        *(({key: value}, key) for key, values in WRONG.items() for value in values),
        ({"neighbours": "zero-out"}, "zero-out"),
        ({"classes": 2, "label_range": (0, 1)}, "classes or numbers"),
        ({"label_range": (0, 1), "by_class": True}, "two classes"),
        ({"rows_per_user": 3, "silos": 4}, "rows_per_user"),
        ({"rows_per_user": 3, "silo_rows": 4}, "one unit"),
    ],
)
def test_terms_are_refused_when_they_are_stated(terms: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        statistics(**terms)


def test_bounds_from_the_data_are_refused() -> None:
    with pytest.raises(Unsupported, match="from private data gives no sensitivity"):
        statistics(bound_source="private")


@for_each(
    ("terms", "given", "named"),
    [
        ({}, {"X": spoilt(np.nan)}, "row 17"),
        ({}, {"X": spoilt(np.inf)}, "row 17"),
        ({}, {"X": sparse.csr_array(spoilt(np.nan))}, "row 17"),
        ({}, {"X": spoilt(np.nan).astype(np.float32)}, "row 17"),
        ({}, {"X": FEATURES[:, 0]}, "table of real numbers"),
        ({}, {"X": FEATURES[:, :0]}, "table of real numbers"),
        ({}, {"X": FEATURES + 1j}, "table of real numbers"),
        ({}, {"X": [["a"] * 4] * 50}, "table of real numbers"),
        ({}, {"X": np.array([[10**400] * 4] * 50, dtype=object)}, "table of real numbers"),
        ({}, {"X": sparse.coo_array(FEATURES[:, 0])}, "table of real numbers"),
        ({}, {"X": sparse.csr_array(FEATURES[:, :0])}, "table of real numbers"),
        ({}, {"X": sparse.csr_array(FEATURES + 1j)}, "table of real numbers"),
        ({}, {"X": np.ma.masked_greater(FEATURES, 0.0)}, "table of real numbers"),
        ({}, {"y": np.array([10**400] * 50, dtype=object)}, "row 0"),
        ({}, {"y": [[1], [2, 3]] * 25}, "`y` must have one value"),
        ({"label_range": (0, 2)}, {"y": LABELS + 0j}, "row 0"),
        ({"label_range": (0, 2)}, {"y": LABELS.astype("M8[s]")}, "row 0"),
        ({}, {"aggregation": "masked"}, "`silos` is 1"),
        ({}, {"y": None}, "`y` is missing"),
        ({}, {"y": LABELS[:-1]}, "`y` must have one value"),
        ({}, {"y": np.where(np.arange(50) == 9, 3, LABELS)}, "row 9"),
        ({}, {"y": np.where(np.arange(50) == 9, -1, LABELS)}, "row 9"),
        ({}, {"y": np.where(np.arange(50) == 9, np.nan, LABELS)}, "row 9"),
        ({}, {"y": np.where(np.arange(50) == 9, 0.5, LABELS)}, "row 9"),
        ({"classes": ["a", "b"]}, {"y": ["a"] * 49 + ["c"]}, "row 49"),
        ({"label_range": (0, 2)}, {"y": np.where(np.arange(50) == 9, 2.01, LABELS)}, "row 9"),
        ({"label_range": (0, 2)}, {"y": np.where(np.arange(50) == 9, np.nan, LABELS)}, "row 9"),
        ({"label_range": (0, 2)}, {"y": ["a"] * 50}, "row 0"),
        ({"classes": None}, {}, "neither `classes` nor"),
        ({"silos": 2}, {}, "`silo` is missing"),
        ({"silos": 2}, {"silo": np.full(50, 2)}, "from 0 to 1"),
        ({"silos": 2}, {"silo": np.full(50, -1)}, "from 0 to 1"),
        ({"silos": 2}, {"silo": np.full(50, 0.5)}, "from 0 to 1"),
        ({"silos": 2}, {"silo": np.zeros(49, int)}, "`silo` must have one value"),
        ({"rows_per_user": 2}, {}, "`user` is missing"),
        ({"rows_per_user": 2}, {"user": np.zeros((50, 2))}, "`user` must have one value"),
        ({}, {"user": np.zeros(50)}, "`user` has no use"),
        ({}, {"aggregation": "loud"}, "aggregation"),
        ({"observer": "peer"}, {}, "nobody whom noise"),
        ({"most_rows": 10**18}, {}, "do not fit into 64 bits"),
        ({"silo_rows": 10**9, "most_rows": 10**15}, {}, "do not fit into 64 bits"),
    ],
)
def test_rows_are_refused_before_the_intent_and_nothing_of_them_is_shown(
    terms: dict[str, Any], given: dict[str, Any], named: str
) -> None:
    recorder = Memory()
    made = statistics(recorder=recorder, **terms)
    labels = given.pop("y", LABELS)
    features = given.pop("X", FEATURES)
    with pytest.raises(PrivplanError, match=named) as refusal:
        made.release(features, labels, **given)
    assert recorder.lines == []
    assert not made._streams._streams
    assert "123456" not in str(refusal.value)
    # The same statistics release once the mistake is mended: nothing was spent.
    if not terms:
        made.release(FEATURES, LABELS)


def test_an_epsilon_that_no_noise_reaches_is_refused_before_the_intent() -> None:
    recorder = Memory()
    with pytest.raises((TargetUnreachable, InvalidInput)):
        statistics(recorder=recorder, epsilon=1e-12, delta=1e-14).release(FEATURES, LABELS)
    assert recorder.lines == []


@for_each("labels", [np.zeros(50, int), np.full(50, 2), np.arange(50) % 2, LABELS[:0]])
def test_which_labels_occur_or_that_there_are_none_is_no_reason_to_refuse(labels: Any) -> None:
    released = statistics().release(FEATURES[: len(labels)], labels).released
    assert released.classes == (0, 1, 2)
    assert released.labels.shape == (5, 3)
    assert np.isfinite(released.gram).all()


@for_each(
    ("classes", "labels", "codes"),
    [
        (3, [2, 0, 1], [2, 0, 1]),
        (["no", "yes"], ["yes", "no", "yes"], [1, 0, 1]),
        ([-1, 1], [1.0, -1.0, 1.0], [1, 0, 1]),
        ([False, True], [True, False, True], [1, 0, 1]),
        (np.array([7, 5]), [5, 7, 5], [1, 0, 1]),
        ([0, 1], np.array([[0], [1], [1]]), [0, 1, 1]),
        (["a", "b"], np.array(["b", "a", "b"], dtype=object), [1, 0, 1]),
        ([0, 1], np.array([1, 0, True], dtype=object), [1, 0, 1]),
        ([0, 1], np.array([np.int64(1), 0, np.True_], dtype=object), [1, 0, 1]),
        ([2**60, 2**60 + 1], np.array([2**60 + 1, 2**60] * 2, dtype=object)[:3], [1, 0, 1]),
    ],
)
def test_labels_are_coded_in_the_order_of_the_classes(
    classes: Any, labels: Any, codes: list[int]
) -> None:
    terms = statistics(classes=classes).terms
    assert terms is not None
    held = admitted(terms, np.zeros((3, 2)), labels)
    assert held.labels is not None
    assert held.labels.tolist() == codes


def test_numbers_are_scaled_from_their_range_and_sums_may_overflow() -> None:
    terms = pp.PrivateStatistics(row_norm=1.0, epsilon=1.0, label_range=(10, 20), seed=1).terms
    assert terms is not None
    held = admitted(terms, np.full((3, 2), 1e308), [10, 15, 20])
    assert held.features.shape == (3, 2)
    assert held.labels is not None
    assert held.labels.tolist() == [-1.0, 0.0, 1.0]
