"""Regular files alone, opened so that nothing waits, and read to the size that they state.

Files of /proc and their like are regular by name and have the size 0: reading one may wait for
ever, or never end.  Nothing of them is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from ...accountant.errors import InvalidInput

OPENING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How files are opened: to wait for nothing, and to change nothing of what is read."""


def is_folder(path: str | Path) -> bool:
    """Return whether a path is a folder; not for what is no path at all."""
    try:
        return Path(path).is_dir()
    except OSError:
        return False


@contextmanager
def open_regular(path: str | Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file, and give it with its size in bytes.

    Raises `InvalidInput` for what is no regular file, is empty, or cannot be read.
    """
    name = str(path)
    try:
        # Opening a device or a pipe can already do something or wait, so it is looked at before,
        # and what was opened is looked at again, since the name may stand for another file by now.
        _require_regular(Path(path).stat(), name)
        number = os.open(path, OPENING)
        with os.fdopen(number, "rb") as file:
            status = os.fstat(number)
            _require_regular(status, name)
            yield file, status.st_size
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        trouble = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"{name} cannot be read: {trouble}.",
            "The file has to be there and readable.",
            "Check the path and the permissions.",
        ) from None


def whole_content(file: BinaryIO, head: bytes, size: int, name: str) -> bytes:
    """Return a file of which `head` was read; raises `InvalidInput` if its size changed since."""
    content = head + file.read(size + 1 - len(head))
    if len(content) != size:
        raise InvalidInput(
            f"{name} changed while it was read.",
            "A file that is being written says what the run was until now, or less.",
            "Give the file when the run has ended, or a copy.",
        )
    return content


def _require_regular(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(
            f"{name} is no regular file.",
            "Reading a pipe or a device may never end.",
            "Save what it gives into a file.",
        )
    if status.st_size == 0:
        raise InvalidInput(
            f"{name} is empty, or no file on a disk.",
            "It states the size 0, as the files of /proc do; nothing of it was read.",
            "Name the file that holds the run's numbers, or save what this one gives.",
        )
