"""The statistics that a finished run has released, read from its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .statistics import ReleasedStatistics


def statistics_of_run(folder: str | Path) -> ReleasedStatistics:
    """Return what the run in a folder has released."""
    raise NotImplementedError(folder)


def fit_recorder(folder: str | Path) -> Callable[[str, dict[str, str]], None] | None:
    """Return what tells the log of a run about a later fit."""
    raise NotImplementedError(folder)
