"""Work over processes: in order, in even parts, and never through a file."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingExtra

pytest.importorskip("gmpy2")

from privplan.fl.crypto.paillier.processes import SERIAL, Workers

from ...cases import for_each


@for_each("processes", [1, 2, 3, 7])
@for_each("count", [0, 1, 2, 5, 14, 100])
@for_each("longest", [None, 1, 4, 1000])
def test_parts_are_even_and_cover_everything(
    processes: int, count: int, longest: int | None
) -> None:
    parts = Workers(processes).parts(count, longest)
    assert [one for part in parts for one in range(count)[part]] == list(range(count))
    lengths = [part.stop - part.start for part in parts]
    assert all(lengths)
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert all(one <= (longest or count) for one in lengths)
    assert len(parts) <= max(processes, -(-count // (longest or count or 1)))


@for_each("processes", [0, -1, 1.5, None])
def test_impossible_numbers_of_processes_are_refused(processes: Any) -> None:
    with pytest.raises(InvalidInput):
        Workers(processes)


def test_results_come_in_order_and_nothing_is_written_to_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memmapping: Any = pytest.importorskip("joblib._memmapping_reducer")
    written = []
    monkeypatch.setattr(memmapping, "dump", lambda *args: written.append(args))
    large = np.arange(400_000)  # joblib's own limit is 1 MB
    found = Workers(2).concatenated(operator.add, [([], [place]) for place in range(5)])
    assert found == list(range(5))
    (first, second) = Workers(2).concatenated(list, [([large],), ([large + 1],)])
    np.testing.assert_array_equal(first, large)
    np.testing.assert_array_equal(second, large + 1)
    assert not written


def test_several_processes_need_joblib_and_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    Workers(2).start()
    monkeypatch.setitem(sys.modules, "joblib", None)
    SERIAL.start()
    with pytest.raises(MissingExtra) as caught:
        Workers(2).start()
    assert "joblib" in caught.value.what


def test_one_process_is_this_one() -> None:
    seen = []
    assert SERIAL.spread(lambda items, more: seen.append(more) or list(items), [1, 2], 3) == [1, 2]
    assert seen == [3]
