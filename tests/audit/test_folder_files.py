"""Files beside a log: a model, a checkpoint or measurements that belong to another run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of

from ..cases import for_each
from .edited import BESIDE, MOMENTS, THRICE
from .forging import (
    EarlierRun,
)


@for_each("name", list(BESIDE))
def test_what_lies_beside_the_log_is_compared(
    earlier_run: EarlierRun, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(earlier_run(MOMENTS), folder)
    assert edits_of(folder) == ()
    change, said = BESIDE[name]
    change(folder)
    (one,) = edits_of(folder)
    assert said in one.says
    assert one.id in ("foreign-model", "foreign-metrics")
    report = audit_budget(folder)
    assert [own.id for own in report.hazards if own.severity == "error"] == [one.id]
    assert not report.ok


def test_what_is_not_there_is_not_missed(earlier_run: EarlierRun, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(earlier_run(MOMENTS), folder)
    for name in ("model.npz", "metrics.json"):
        (folder / name).unlink()
        assert edits_of(folder) == ()
        assert audit_budget(folder).ok


def written(folder: Path, *, compressed: bool = False, **arrays: Any) -> None:
    saved = np.savez_compressed if compressed else np.savez
    saved(folder / "model.npz", **arrays)


def test_a_model_is_read_without_running_it_and_within_bounds(
    earlier_run: EarlierRun, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(earlier_run(THRICE), folder)
    with np.load(folder / "model.npz") as held:
        good = dict(held)
    bad: list[dict[str, Any]] = [
        {"compressed": True, **good},  # a small file that says that it is large
        {**good, "parameters": np.array([object()], dtype=object)},
        {**good, "parameters": good["parameters"].astype(np.float32)},
        {**good, "parameters": good["parameters"][None]},
        {**good, "about": np.frombuffer(b"[" * 100_000, np.uint8)},
        {**good, **{f"more_{place}": np.zeros(1) for place in range(20)}},
    ]
    for content in bad:
        written(folder, **content)
        (one,) = edits_of(folder)
        assert one.says == "model.npz is no model of a run, or it was altered."
    written(folder, **{**good, "parameters": good["parameters"].astype(">f8")})
    assert edits_of(folder) == ()


def test_a_header_that_says_more_than_the_file_holds_is_refused(
    earlier_run: EarlierRun, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(earlier_run(THRICE), folder)
    path = folder / "model.npz"
    content = path.read_bytes()
    assert content.count(b"'shape': (31,)") == 1
    path.write_bytes(content.replace(b"'shape': (31,)", b"'shape': (99,)"))
    (one,) = edits_of(folder)
    assert one.says == "model.npz is no model of a run, or it was altered."
