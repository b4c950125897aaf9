"""Files that are whole or absent: written beside their place, forced to disk, then renamed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put a file in its place at once; a crash at any moment leaves the old one, or the new one.

    A `private` file can be read by its owner only, from its first byte on.  Raises `OSError` (a
    full disk) and then leaves what was there before.
    """
    beside = _beside(path)
    try:
        if private:  # what an earlier write left, if it was cut off, may have other rights
            beside.unlink(missing_ok=True)
        mode = 0o600 if private else 0o666
        with os.fdopen(os.open(beside, _WRITE_FLAGS, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    settle(path.parent)


def remove(path: Path) -> None:
    """Remove a file, and what a write of it may have left that was cut off."""
    path.unlink(missing_ok=True)
    _beside(path).unlink(missing_ok=True)


def settle(folder: Path) -> None:
    """Force a folder's list of names to disk, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")
