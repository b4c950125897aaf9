"""Regular files alone, opened so that nothing waits, and read up to a limit.

A pipe, a device or a link to one may never end, and whoever gives a folder away chooses what stands
in it.  So a file is looked at before it is opened, and again once it is open, since its name may
stand for another by then.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

OPENING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How files are opened: to wait for nothing, and to change nothing of what is read."""

READ_BUFFER_BYTES: Final = 2**20


class NoRegularFile(OSError):
    """What has this name is a pipe, a device or a socket: reading it may never end."""


def open_regular(path: str | Path, *, within: Path | None = None) -> BinaryIO:
    """Open a regular file for reading.

    A file of a folder that others may have written is opened `within` it: a link is followed to a
    place in that folder alone.  Raises `OSError`, whose `strerror` says what the trouble is.
    """
    _require_regular(Path(path).stat(), path)
    descriptor = os.open(path if within is None else _inside(Path(path), within), OPENING)
    try:
        _require_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb", buffering=READ_BUFFER_BYTES)
    except BaseException:
        os.close(descriptor)
        raise


def first_bytes(path: str | Path, limit: int, *, within: Path | None = None) -> bytes:
    """Return the first bytes of a regular file: one more than `limit` tells a file too large."""
    with open_regular(path, within=within) as file:
        return file.read(limit + 1)


def regular_content(path: str | Path, limit: int, *, within: Path | None = None) -> bytes:
    """Return what a regular file of at most `limit` bytes holds; raises `OSError` for another.

    >>> regular_content("/dev/zero", 10)
    Traceback (most recent call last):
    privplan.accountant.regular_file.NoRegularFile: [Errno 22] it is no regular file: '/dev/zero'
    """
    held = first_bytes(path, limit, within=within)
    if len(held) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {_size(limit)}", str(path))
    return held


def _require_regular(status: os.stat_result, path: str | Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise NoRegularFile(errno.EINVAL, "it is no regular file", str(path))


def _inside(path: Path, folder: Path) -> Path:
    """Return where a path leads, which must be in this folder."""
    target, root = path.resolve(strict=True), folder.resolve(strict=True)
    if not target.is_relative_to(root):
        raise OSError(errno.ELOOP, "it is a link out of its folder", str(path))
    return target


def _size(limit: int) -> str:
    for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if limit >= size:
            return f"{limit / size:g} {name}"
    return f"{limit} bytes"
