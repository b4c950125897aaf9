"""Regular files of strangers, read to the size that they state.

Files of /proc and their like are regular by name and have the size 0: reading one may wait for
ever, or never end.  Nothing of them is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...accountant import regular_file
from ...accountant.errors import InvalidInput


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
        with regular_file.open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise _empty(name)
            yield file, size
    except (regular_file.NoRegularFile, IsADirectoryError):
        raise _no_regular(name) from None
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


def _no_regular(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is no regular file.",
        "Reading a pipe or a device may never end.",
        "Save what it gives into a file.",
    )


def _empty(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is empty, or no file on a disk.",
        "It states the size 0, as the files of /proc do; nothing of it was read.",
        "Name the file that holds the run's numbers, or save what this one gives.",
    )
