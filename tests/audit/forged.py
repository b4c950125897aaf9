"""Folders of honest runs to edit: the whole chain is built anew, as their owner could."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .logs import rechained

RUNS = Path(__file__).parent / "earlier" / "runs.zip"

Records = list[dict[str, Any]]
Edit = Callable[[Records], object]


def earlier(folder: Path, name: str) -> Path:
    """Unpack the folder of an earlier run, and return it."""
    with zipfile.ZipFile(RUNS) as packed:
        for item in packed.namelist():
            if item.startswith(f"{name}/"):
                packed.extract(item, folder)
    return folder / name


def forged(folder: Path, name: str, edit: Edit) -> Path:
    """Return an earlier run whose records were edited, under a chain that holds."""
    made = earlier(folder, name)
    rechained(made, edit)
    return made


def set_in(kind: str, path: str, value: object, *, phase: str = "train") -> Edit:
    """Return an edit of one field in all records of a kind; intents of one phase alone."""

    def edit(records: Records) -> None:
        hits = 0
        for record in records:
            if record["type"] != kind or record.get("phase", phase) != phase:
                continue
            *outer, last = path.split(".")
            part = record
            for name in outer:
                part = part[name]
            assert part[last] != value
            part[last] = value
            hits += 1
        assert hits

    return edit


def first_line(path: str, value: object) -> Edit:
    """Return an edit of one field of the first line."""
    return set_in("run.open", path, value)


def records_of(folder: Path) -> Records:
    """Return the records of a log, with what the chain adds to them."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
