"""Large tables: rows are gathered and trained on part by part, and nothing is another for it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.fl.running.configuration import Configuration
from privplan.fl.running.preparation import local_of, model_of
from privplan.fl.running.run_data import federation_of
from privplan.fl.tables import rows as gathering
from privplan.fl.tables.rows import GatheredRows, Rows
from privplan.fl.training import local_training

from ...cases import for_each
from .hospitals import configuration, write

WIDTH = 12


def drawn(count: int, seed: int, labelled: bool = True) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows(
        rng.integers(0, 3, (count, WIDTH)).astype(np.float32),
        rng.integers(0, 2, count) if labelled else None,
        rng.integers(0, 9, count),
        rng.integers(0, 3, count),
    )


def none(labelled: bool) -> Rows:
    return drawn(0, 0, labelled)


def sorted_whole(rows: Rows) -> list[Any]:
    """Return rows as tuples in the order of silo, user and content, as far as that is stated."""
    labels = np.zeros(len(rows.user), int) if rows.labels is None else rows.labels
    columns = (rows.silo, rows.user, labels, *rows.features.T)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@for_each("labelled", [True, False])
@for_each("limit", [2**26, 64, 1])
def test_rows_that_are_gathered_in_parts_are_the_same_rows(labelled: bool, limit: int) -> None:
    parts = [drawn(count, seed, labelled) for seed, count in enumerate((5, 0, 40, 1, 300))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gathering, "_LARGEST_STEP", limit)
        patched.setattr(gathering, "_SORTED_AT_A_TIME", limit)
        one, two = GatheredRows(none(labelled)), GatheredRows(none(labelled))
        for part in parts:
            one.add(part)
        one.sort(0)
        for part in reversed(parts):
            two.add(part.only(np.arange(len(part.user))[::-1]))
        two.sort(0)
        first, second = one.rows(), two.rows()
    assert sorted_whole(first) == sorted_whole(second)
    assert sum(len(part.user) for part in parts) == one.count == len(first.user)
    for name in ("features", "labels", "user", "silo"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert (np.diff(first.silo * 9 + first.user) >= 0).all()


def test_only_rows_behind_a_place_are_sorted() -> None:
    gathered = GatheredRows(none(True))
    first, second = drawn(20, 1), drawn(20, 2)
    gathered.add(first)
    gathered.add(second)
    gathered.sort(20)
    whole = gathered.rows()
    assert np.array_equal(whole.features[:20], first.features)
    assert sorted_whole(whole.only(np.arange(20, 40))) == sorted_whole(second)


def test_gathering_holds_rows_once() -> None:
    part = drawn(4000, 3)
    tracemalloc.start()
    try:
        gathered = GatheredRows(none(True))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(gathering, "_LARGEST_STEP", 2**16)
            patched.setattr(gathering, "_SORTED_AT_A_TIME", 2**16)
            for _ in range(50):
                gathered.add(part)
            whole = gathered.rows()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    held = sum(values.nbytes for values in (whole.features, whole.labels, whole.user, whole.silo))
    assert held == 200_000 * (4 * WIDTH + 3 * 8)
    assert peak < 1.2 * held


@for_each("method", ["user_deltas", "user_gradients"])
def test_users_who_train_in_parts_send_what_they_send_together(tmp_path: Path, method: str) -> None:
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        tables = configuration(training={"batch": 2, "local_epochs": 2, "model": "mlp"})
        settings = Configuration.of(tables).settings
        federation, _ = federation_of(settings)
    local = local_of(settings, federation, model_of(settings, federation))
    everybody = [np.arange(federation.users)] * federation.silos

    def sent(limit: int) -> dict[Any, Any]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(local_training, "_MAX_NUMBERS", limit)
            blocks = list(getattr(local, method)(local.initial(), everybody, 1))
            nobody = [np.zeros(0, np.int64)] * federation.silos
            assert not list(getattr(local, method)(local.initial(), nobody, 1))
        found = {
            (int(user), int(silo)): row
            for block in blocks
            for user, silo, row in zip(block.user, block.silo, block.rows, strict=True)
        }
        assert len(found) == sum(len(block.user) for block in blocks)
        return found

    whole, parts = sent(2**24), sent(500)
    assert whole.keys() == parts.keys()
    for pair, row in whole.items():
        assert np.array_equal(row, parts[pair])
