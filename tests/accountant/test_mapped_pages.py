"""Memory-mapped rows: their pages are given back, and nothing that was written is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.mechanisms import NoisyGram
from privplan.accountant.mechanisms.gram_rows import give_back, gram_total
from privplan.accountant.sensitivity.gram import GramBound


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.npy"
    np.save(path, np.random.default_rng(1).normal(size=(40_000, 64)))  # 20 MB
    return path


def resident(path: Path) -> int:
    """Return how many kB of a file are mapped into this process and in memory."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.endswith(str(path)))
    return next(int(line.split()[1]) for line in lines[first:] if line.startswith("Rss:"))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux says what is resident")
def test_pages_that_were_read_are_given_back(rows: Path) -> None:
    table = np.load(rows, mmap_mode="r")
    assert np.isfinite(np.asarray(table).sum())
    assert resident(rows) > 15_000
    give_back(np.asarray(table)[5:9])
    assert resident(rows) < 1_000
    mechanism = NoisyGram(gram=GramBound(dimension=64), std=5.0, bits=14)
    total = gram_total(mechanism, table).total
    assert resident(rows) < 1_000
    assert np.array_equal(total, gram_total(mechanism, np.load(rows)).total)


@pytest.mark.parametrize("mode", ["c", "r+"])
def test_what_was_written_stays(rows: Path, mode: str) -> None:
    table = np.load(rows, mmap_mode=mode)  # type: ignore[call-overload]
    table[7] = 3.0
    give_back(table)
    assert (table[7] == 3.0).all()


def test_what_is_not_mapped_is_left_alone() -> None:
    for other in (np.zeros((3, 2)), [[1.0]], None):
        give_back(other)
