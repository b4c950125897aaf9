"""How far the log of a folder says that its run had come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...accountant.errors import InvalidInput
from ...accountant.records import Progress, Record, RunOpen
from ..log.anchors import Anchors
from ..log.reader import BadLine, Scan


@dataclass(frozen=True)
class LogProgress:
    """What one pass over a log has seen.

    `records` lines are good, and `first_bad` is the number of the first bad one and what is wrong
    with it.  `complete` says that the run is closed and nothing is wrong.  `anchored` says whether
    a line has the expected head; None where none was expected.  `progress` is None before the
    first line; `last` is the last record.
    """

    records: int
    first_bad: BadLine | None
    complete: bool
    progress: Progress | None
    anchored: bool | None
    last: Record | None

    @property
    def opened(self) -> RunOpen | None:
        """The first line; None where there is none."""
        return None if self.progress is None else self.progress.opened


def read_log_progress(folder: Path, expected_head: str | None = None) -> LogProgress:
    """Return how far the run in a folder had come, without changing its log.

    Signatures are held against the keys that stand next to them.  Raises `InvalidInput` where there
    is no log, and for a head that is none.
    """
    check = Anchors(expected=expected_head)
    scan = Scan(folder)
    bad, last = None, None
    try:
        for line in scan:
            check.take(line, scan.path)
            last = line.record
    except BadLine as error:
        bad = error
    return LogProgress(
        records=check.records,
        first_bad=bad,
        complete=scan.record_order.closed and bad is None and scan.torn is None,
        progress=scan.record_order.progress(),
        anchored=None if expected_head is None else check.anchor is not None,
        last=last,
    )


def require_progress(seen: LogProgress, folder: Path) -> Progress:
    """Return how far a run had come; raise `BadLine` or `InvalidInput` where that is not known."""
    if seen.first_bad is not None:
        raise seen.first_bad
    if seen.progress is None:
        raise InvalidInput(f"The log in {folder} opens no run.")
    return seen.progress
