"""Which rows of a unit are kept: by that unit's rows in this silo alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import gram_rows
from privplan.accountant.mechanisms.gram_rows import gram_total

from ..cases import for_each
from .gram_sums import mechanism


def release(rows: int = 3, unit: str = "user") -> Any:
    return mechanism(5, 3, rows=rows, unit=unit, bits=16)


@for_each("cap", [0, 1, 2, 3, None])
@for_each("sparse_ids", [False, True])
def test_another_unit_never_changes_which_rows_are_kept(cap: int | None, sparse_ids: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        count = int(rng.integers(1, 60))
        features, labels = rng.normal(size=(count, 5)), rng.integers(0, 3, count)
        units = rng.integers(0, 9, count)
        if sparse_ids:
            units = units * 10**15 - 4 * 10**15
        together = gram_total(release(), features, labels, units=units, most_rows=cap)
        parts, kept = np.zeros_like(together.total), 0
        for unit in np.unique(units):
            rows = np.flatnonzero(units == unit)[: 3 if cap is None else cap]
            kept += len(rows)
            parts += gram_total(
                release(), features[rows], labels[rows], units=np.zeros(len(rows), int)
            ).total
        np.testing.assert_array_equal(together.total, parts)
        assert together.dropped == count - kept


def test_a_unit_that_comes_moves_the_sum_by_its_rows_alone() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        units = rng.integers(0, 6, 50)
        features, labels = rng.normal(size=(50, 5)) * 3, rng.integers(0, 3, 50)
        whole = gram_total(release(), features, labels, units=units).total
        gone = units != 2
        rest = gram_total(release(), features[gone], labels[gone], units=units[gone]).total
        unit = gram_total(release(), features[~gone], labels[~gone], units=units[~gone]).total
        np.testing.assert_array_equal(whole - rest, unit)
        # With at most 3 rows of squared norm 1/3, its matrix has a trace of at most 1.
        diagonal = release().diagonal
        assert unit[diagonal].sum() <= 4**16


def test_rows_stay_in_their_order_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    features, labels = rng.normal(size=(500, 5)), rng.integers(0, 3, 500)
    units = rng.integers(0, 100, 500)
    usual = gram_total(release(), features, labels, units=units, most_rows=2)
    assert 0 < usual.dropped < 500
    for step in (1, 3, 64):
        monkeypatch.setattr(gram_rows, "_block_rows", lambda _, step=step: step)
        again = gram_total(release(), features, labels, units=units, most_rows=2)
        np.testing.assert_array_equal(again.total, usual.total)
        assert (again.dropped, again.clipped) == (usual.dropped, usual.clipped)


def test_a_silo_is_one_unit() -> None:
    rng = np.random.default_rng(4)
    features, labels = rng.normal(size=(10, 5)), rng.integers(0, 3, 10)
    silo = release(rows=7, unit="silo")
    capped = gram_total(silo, features, labels)
    assert capped.dropped == 3
    np.testing.assert_array_equal(capped.total, gram_total(silo, features[:7], labels[:7]).total)
    assert gram_total(silo, features, labels, most_rows=2).dropped == 8
    assert gram_total(silo, features[:7], labels[:7]).dropped == 0


def test_a_record_is_one_row() -> None:
    features, labels = np.ones((10, 5)), np.zeros(10, int)
    record = release(rows=1, unit="record")
    assert gram_total(record, features, labels).dropped == 0
    assert gram_total(record, features, labels, most_rows=1).dropped == 0
    none = gram_total(record, features, labels, most_rows=0)
    assert none.dropped == 10
    assert not none.total.any()


def test_caps_and_units_are_checked() -> None:
    features, labels = np.zeros((4, 5)), np.zeros(4, int)
    with pytest.raises(InvalidInput, match="whose each row is"):
        gram_total(release(), features, labels)
    for units in ([0, 1], [[0, 1, 2, 3]], [0.0, 1.0, 2.0, 3.0], ["a", "b", "c", "d"], [None] * 4):
        with pytest.raises(InvalidInput, match="`units` must be integers"):
            gram_total(release(), features, labels, units=units)
    for cap in (4, -1, 1.5, True):
        with pytest.raises(InvalidInput, match="most_rows"):
            gram_total(release(), features, labels, units=np.arange(4), most_rows=cap)
