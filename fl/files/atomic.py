"""Files that are whole or absent: written next to their place, forced to disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

_WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
"""A new file alone: what somebody else has put there, a link above all, is never written to."""

_UNFINISHED: Final = re.compile(r"\.(?P<name>.+?)(?:\.[0-9a-f]{16})?\.part", re.DOTALL)
"""Also by the names that earlier versions gave."""


def write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put a file in its place at once; a crash at any moment leaves the old one, or the new one.

    A file that is replaced keeps its rights.  A `private` one can be read by its owner only, from
    its first byte on.  A link in its place is replaced, and where it leads is left alone.  Raises
    `OSError` (a full disk) and then leaves what was there before.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    rights = 0o600 if private else _rights(path)
    descriptor = os.open(part, _WRITE_FLAGS, 0o666 if rights is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if rights is not None:
                os.fchmod(descriptor, rights)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    settle(path.parent)


def remove(path: Path) -> None:
    """Remove a file, and what writes of it may have left that were cut off."""
    path.unlink(missing_ok=True)
    clear(path.parent, path.name)


def clear(folder: Path, name: str | None = None) -> None:
    """Remove what writes have left in a folder that were cut off, of one file or of all.

    Nobody else may be writing there.
    """
    for left in folder.iterdir():
        of_file = unfinished_name(left.name)
        if of_file is not None and name in (None, of_file):
            left.unlink(missing_ok=True)


def unfinished_name(name: str) -> str | None:
    """Return which file a write that was cut off was to be, by the name of what it left.

    >>> unfinished_name(".model.npz.0123456789abcdef.part"), unfinished_name("model.npz")
    ('model.npz', None)
    """
    left = _UNFINISHED.fullmatch(name)
    return None if left is None else left["name"]


def settle(folder: Path) -> None:
    """Force a folder's list of names to disk, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _rights(path: Path) -> int | None:
    """Return the rights of a file that stands there; None where a new one has the usual ones."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None
