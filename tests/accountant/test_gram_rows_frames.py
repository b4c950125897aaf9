"""Tables that are sliced by labels: no row counts twice, and none is left out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import gram_rows
from privplan.accountant.mechanisms.gram_rows import gram_total

from .gram_sums import mechanism


class LabelledRows:
    """Rows whose slices go from label to label, both ends included, as some data frames' do."""

    def __init__(self, table: Any, labels: Any) -> None:
        self.table, self.labels = np.asarray(table), np.asarray(labels)
        self.shape = self.table.shape

    def __getitem__(self, rows: slice) -> Any:
        first = -math.inf if rows.start is None else rows.start
        return self.table[(self.labels >= first) & (self.labels <= rows.stop)]


class Frame(LabelledRows):
    """A data frame, of which some columns may hold what is no number."""

    iloc = None

    @property
    def dtypes(self) -> Any:
        return [np.dtype(object) if self.table.dtype.kind == "O" else self.table.dtype] * 2

    def to_numpy(self, *, dtype: Any, na_value: float) -> Any:
        assert math.isnan(na_value)
        return self.table.astype(dtype)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_rows, "_block_rows", lambda _: 4)


# Without the label 3 the first slice, of the labels 0 to 4, has its four rows.
@pytest.mark.parametrize("labels", [np.arange(8.0), [0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 8.0, 9.0]])
def test_a_row_of_a_frame_counts_once(labels: Any) -> None:
    features = np.zeros((8, 2))
    features[3] = features[4] = [1.0, 0.0]
    release = mechanism(2)
    due = gram_total(release, features).total
    np.testing.assert_array_equal(gram_total(release, Frame(features, labels)).total, due)


def test_a_slice_of_other_rows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="A slice of 4 rows"):
        gram_total(mechanism(2), LabelledRows(np.ones((8, 2)), np.arange(8.0)))


def test_a_frame_with_other_columns_is_refused_whatever_they_hold() -> None:
    for value in (1.0, "1.0", None):
        table = np.full((8, 2), value, object)
        with pytest.raises(InvalidInput, match="table of numbers"):
            gram_total(mechanism(2), Frame(table, np.arange(8.0)))
