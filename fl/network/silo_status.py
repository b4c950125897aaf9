"""How far a silo has come: what it gave out, and what is left of its plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...accountant.regular_file import first_bytes
from ..running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from ..running.folder import is_new_or_empty
from ..running.log_progress import read_log_progress
from .guard_log import FILE
from .journal import RUN_FOLDER

_MAX_LOG_BYTES: Final = 2**26
_SHOWN: Final = 5


@dataclass(frozen=True)
class SiloStatus:
    """What a silo has spent of a plan.

    `spent` rounds were begun, of `planned`, and `released` ended in a release; `epsilon` is a
    reading by observer of what was spent by the last of them.  `refused` counts requests that were
    refused, and `last` are the last things that happened.
    """

    spent: int
    released: int
    planned: int | None
    closed: bool
    epsilon: Mapping[str, float]
    refused: int
    last: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> SiloStatus:
        """Return the status of the silo in a folder; raises `InvalidInput` for a broken log."""
        lines = _lines(folder / FILE)
        refused = sum(line.get("what") == "refused" for line in lines)
        last = tuple(_said(line) for line in lines[-_SHOWN:])
        run = folder / RUN_FOLDER
        if is_new_or_empty(run):
            return cls(0, 0, None, False, {}, refused, last)
        seen = read_log_progress(run)
        progress = seen.progress
        if progress is None:
            return cls(0, 0, None, False, {}, refused, last)
        kept = next(
            (run / name for name in (CHECKPOINT_FILE, MODEL_FILE) if (run / name).exists()), None
        )
        measured = () if kept is None else Checkpoint.read(kept).measured
        return cls(
            len(progress.intents),
            len(progress.releases),
            progress.opened.plan.rounds,
            seen.complete,
            measured[-1].epsilon if measured else {},
            refused,
            last,
        )


def _lines(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        return []
    lines = []
    for raw in first_bytes(path, _MAX_LOG_BYTES).splitlines():
        try:
            line = json.loads(raw)
        except ValueError:  # a line that is being written
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines


def _said(line: Mapping[str, object]) -> str:
    about = [f"{name} {line[name]}" for name in ("round", "phase", "why") if name in line]
    return f"{line.get('time')}  {line.get('what')}: {', '.join(about) or 'nothing more'}"
