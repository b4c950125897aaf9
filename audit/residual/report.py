"""The sealed report: what a trusted auditor measured behind the noise, for nobody else's eyes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput
from ...accountant.records import RunOpen
from ...accountant.regular_file import regular_content
from ...fl.files import atomic
from ...fl.log import Line, read
from ..measurement import Measurement

SEALED_REPORT: Final = "sealed-report.json"

_MAX_REPORT_BYTES: Final = 2**26

NOT_FOR_PUBLICATION: Final = (
    "Not to be published: what stands here was computed from what was there before the noise, and "
    "no guarantee holds against who reads it. That it was written, and how long it is, may tell of "
    "data as well."
)


def write_sealed_report(folder: str | Path, measurements: Sequence[Measurement]) -> Path:
    """Write measurements into the sealed report beside a run's log, and return its path.

    The file is readable for its owner only, and whole or absent.  Measurements of the same tiers
    that it held are replaced, those of other tiers of the same run are kept; of two audits at once,
    the second waits.  Raises `InvalidInput` for no measurements, for a report that is not this
    run's, and for a file that cannot be written; `LogBroken` for a log whose chain is broken.
    """
    given = [measurement.to_json() for measurement in measurements]
    if not given:
        raise InvalidInput("A sealed report needs a measurement.")
    lines = list(read(folder))
    run_id = _run_id(lines)
    path = Path(folder) / SEALED_REPORT
    tiers = {row["tier"] for row in given}
    try:
        with _locked(path.parent):
            # Read and replaced under the lock; written aside and renamed, whole or not at all.
            kept = [row for row in _previous(path, run_id) if row["tier"] not in tiers]
            report = {
                "note": NOT_FOR_PUBLICATION,
                "run_id": run_id,
                "head": lines[-1].hash,
                "measurements": [*kept, *given],
            }
            content = json.dumps(report, indent=2, sort_keys=True, allow_nan=True) + "\n"
            atomic.write(path, content.encode("utf-8"), private=True)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.",
            next_step="Make room on the disk, or give yourself the right to write there.",
        ) from None
    return path


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: of two audits at once, each keeps the other's results."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _run_id(lines: Sequence[Line]) -> str:
    if not lines or not isinstance(lines[0].record, RunOpen):
        raise InvalidInput("A sealed report belongs to a run; this log holds none.")
    return lines[0].record.run_id


def _previous(path: Path, run_id: str) -> list[dict[str, Any]]:
    """Return the measurements of a report that is there already."""
    try:
        source = parsed_json(
            regular_content(path, _MAX_REPORT_BYTES, within=path.parent), parse_constant=float
        )
        rows, owner = list(source["measurements"]), source["run_id"]
        _ = [row["tier"] for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        raise _foreign(path, "cannot be read as one") from None
    if owner != run_id:
        raise _foreign(path, "is that of another run")
    return rows


def _foreign(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} should be a sealed report, and {why}.",
        "It is not written over: nobody could say what was lost.",
        "Move it away.",
    )
