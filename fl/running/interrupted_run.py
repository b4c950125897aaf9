"""A run that stopped: what it has spent by that, and how it goes on."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...accountant.errors import PrivplanError, ProtocolFault
from ...accountant.records import RoundAbort
from ..log import LogWriter
from .folder import CONFIG_FILE
from .log_progress import read_log_progress, require_progress
from .resumption import require_block_left, require_moments_released


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted (Ctrl-C, or SIGTERM): what, why, and how it goes on.

    It is a `KeyboardInterrupt`, so that whatever interruptions end is ended by it too.
    """

    def __init__(self, what: str, why: str, next_step: str) -> None:
        super().__init__(what, why, next_step)
        self.what, self.why, self.next_step = what, why, next_step

    def __str__(self) -> str:
        return f"{self.what} {self.why} {self.next_step}"


def how_to_resume(folder: Path, head: str | None = None, absolute: Path | None = None) -> str:
    """Return what to do about a run that stopped: resume it where that can help, or audit it.

    `head` is that of its log: with it, a backup that was restored since is found.  `absolute` is
    the folder wherever the program has gone since; `folder` is its name in what is said.
    """
    try:
        seen = read_log_progress(folder if absolute is None else absolute)
        if seen.complete:
            return audit_command(folder)
        progress = require_progress(seen, folder)
        require_moments_released(progress)
        require_block_left(progress)
    except PrivplanError as error:
        return error.next_step or _resume_command(folder, head)
    except Exception:  # a log that cannot be read: whatever resumes it says why
        return _resume_command(folder, head)
    return _resume_command(folder, head)


def spent_by_fault(folder: Path) -> str:
    """Return what a run that stopped in a protocol has spent by that, as its log tells it."""
    last = None
    with contextlib.suppress(Exception):  # what is wrong with a log is for its audit to say
        last = read_log_progress(folder).last
    if isinstance(last, RoundAbort) and last.intent is None:
        return "It was before the round began, so nothing is spent by it."
    return "The round is spent, and the log says so."


def audit_command(folder: Path) -> str:
    """Return the command that audits the run in a folder."""
    return f"privplan audit budget {shlex.quote(str(folder))}"


@contextmanager
def stops_explained(folder: Path, absolute: Path, writer: LogWriter) -> Iterator[None]:
    """Say of whatever stops the rounds of a run what is spent by it, and how the run goes on.

    `folder` and `absolute` are as for `how_to_resume`.
    Raises `RunInterrupted`, `PrivplanError` for an `OSError`, and faults of a protocol with what
    its session cannot know; anything else as it is.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise RunInterrupted(
            "The run was interrupted.",
            "What was begun is spent, and the log says so.",
            how_to_resume(folder, writer.head, absolute),
        ) from None
    except OSError as error:
        raise PrivplanError(
            f"The run stopped: {error.strerror or error}.",
            "What was begun is spent; no file is left half-written.",
            f"When that is mended: {how_to_resume(folder, writer.head, absolute)}",
        ) from None
    except ProtocolFault as error:  # what a party says of its next step is for its session
        raise type(error)(
            error.what,
            f"{error.why} {spent_by_fault(absolute)}",
            f"Find out what it was; then: {how_to_resume(folder, writer.head, absolute)}",
        ) from None


def between_rounds(error: KeyboardInterrupt, folder: Path, head: str | None) -> RunInterrupted:
    """Return how to go on after an interruption, which may have come while no round was made."""
    if isinstance(error, RunInterrupted):
        return error
    step = "Begin it again."
    if (folder / CONFIG_FILE).is_file():
        step = how_to_resume(folder, head)
    return RunInterrupted("The run was interrupted.", "No round was under way.", step)


def _resume_command(folder: Path, head: str | None = None) -> str:
    newest = f" --head {head}" if head else ""
    return f"privplan run --resume --out {shlex.quote(str(folder))}{newest}"
