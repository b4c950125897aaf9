"""What stands in the folder of a run: only the rest of a beginning may ever be cleared away."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput, PrivplanError, kind_of
from ...accountant.regular_file import first_bytes
from ..files import atomic
from ..log.hash_chain import LOG, SEALED
from ..parties.transcripts import FOLDER as TRANSCRIPTS_FOLDER
from .checkpoint import MODELS_FOLDER

CONFIG_FILE: Final = "config.toml"

CLAIM_FILE: Final = "ledger.json"
"""Which claim on a budget ledger a run made, by the key under which it was made."""

_MAX_BEGINNING_BYTES: Final = 2**24
"""What is looked at of a log or a sidecar whose run may not have begun: 16 MiB."""


def folder_at(given: object) -> Path:
    """Return the folder of a run; raise `InvalidInput` for what can be the path of none."""
    if not isinstance(given, (str, os.PathLike)) or not isinstance(os.fspath(given), str):
        raise InvalidInput(
            f"`folder` must be a path; it is {kind_of(given)}.",
            "A run keeps its log and its model in a folder.",
            "Give a text or a `Path`.",
        )
    folder = Path(given)
    reason = ""
    try:
        folder.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # whether it can be made is seen when it is
    except UnicodeError:
        reason = "it holds half a character"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        raise InvalidInput(
            f"The folder {str(folder)!r:.60} cannot be used: {reason}.",
            "A run keeps its log and its model in a folder.",
            "Give another folder.",
        )
    return folder


def is_new_or_empty(folder: Path) -> bool:
    """Return whether a folder is empty, or can be made."""
    if folder.is_dir():
        return not any(folder.iterdir())
    return not folder.exists() and not folder.is_symlink()


def is_empty_log(log: Path) -> bool:
    """Return whether a log holds nothing."""
    return not log.exists() or not log.stat().st_size


def holds_unconfigured_start(folder: Path) -> bool:
    """Return whether a folder holds only what a start left that kept no configuration.

    A whole line of a log is no such thing: the configuration is kept before the first.
    """
    if not folder.is_dir() or folder.is_symlink():
        return False
    paths = list(folder.iterdir())
    empty = is_empty_log(folder / LOG) and not has_items_sealed_in_rounds(folder)
    return bool(paths) and all(_before_configuration(path.name) for path in paths) and empty


def holds_unbegun_run(folder: Path) -> bool:
    """Return whether a folder holds only what a run leaves that was cut off before its start."""
    return all(_before_first_line(path.name) for path in folder.iterdir())


def has_items_sealed_in_rounds(folder: Path) -> bool:
    """Return whether the sidecar holds what only a run that had begun can have sealed.

    Before the first line of its log a run seals one item, on which records it is made.  Whatever
    stands behind it, or says that a line stood before it, was sealed in a round.
    """
    sidecar = folder / SEALED
    if not sidecar.is_file():
        return False
    first, _, rest = first_bytes(sidecar, _MAX_BEGINNING_BYTES, within=folder).partition(b"\n")
    return bool(rest.strip(b"\0")) or bool(re.match(rb'\{"after":[0-9]', first))


def require_unbegun(folder: Path) -> None:
    """Raise `InvalidInput` where a folder is not the rest of a mere beginning.

    What is cleared away must be worth nothing: a log that lost its lines, next to a model that it
    had released, or next to what was sealed for a release, is evidence.
    """
    log = folder / LOG
    begun = first_bytes(log, _MAX_BEGINNING_BYTES, within=folder) if log.exists() else b""
    lines = begun.count(b'"prev":')
    if lines > 1 or not holds_unbegun_run(folder) or has_items_sealed_in_rounds(folder):
        raise first_line_lost(folder)


def first_line_lost(folder: Path) -> InvalidInput:
    """Return that a log lost its first line, and with it what was spent."""
    return InvalidInput(
        f"The log in {folder} has lost its first line, and the run had begun.",
        "What was spent can no longer be told from it, so the run cannot go on.",
        "Restore the log from a copy, or start a new run in another folder.",
    )


def require_own_folders(folder: Path) -> None:
    """Raise `InvalidInput` where what a run writes into, in its folder, is not its own.

    A link there leads where whoever put it chose, and files elsewhere would be written over.
    """
    for name in (MODELS_FOLDER, TRANSCRIPTS_FOLDER):
        inner = folder / name
        if inner.is_symlink() or (inner.exists() and not inner.is_dir()):
            raise _not_its_own(inner, "it is a link" if inner.is_symlink() else "it is no folder")
    transcripts = folder / TRANSCRIPTS_FOLDER
    for path in transcripts.iterdir() if transcripts.is_dir() else ():
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise _not_its_own(path, "it is a link, or no regular file")


def _not_its_own(path: Path, reason: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be written to: {reason}.",
        "A run writes into its own folder, and follows nothing that leads out of it.",
        "Find out who put it there, and put the run's own in its place.",
    )


def save_configuration(content: bytes, folder: Path) -> None:
    """Keep a configuration next to its log; raise `PrivplanError` where it cannot be written."""
    try:
        atomic.write(folder / CONFIG_FILE, content)
    except OSError as error:
        raise PrivplanError(
            f"{folder / CONFIG_FILE} cannot be written: {error.strerror or error}.",
            "A run keeps its configuration next to its log; without it nothing is begun or spent.",
            "Make room on the disk, or give another folder.",
        ) from None


def discard_unbegun_run(folder: Path) -> None:
    """Clear what a run has left that was cut off before its first line: nothing was drawn."""
    for path in [each for each in folder.iterdir() if _before_first_line(each.name)]:
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _before_configuration(name: str) -> bool:
    """Return whether a run that was cut off before its configuration may have left a file."""
    return name in (LOG, SEALED) or atomic.unfinished_name(name) == CONFIG_FILE


def _before_first_line(name: str) -> bool:
    """Return whether a run that was cut off before its first line may have left a file."""
    of_claim = CLAIM_FILE in (name, atomic.unfinished_name(name))
    return name == CONFIG_FILE or of_claim or _before_configuration(name)
