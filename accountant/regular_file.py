"""Regular files alone, opened so that nothing waits, and read up to a limit; folders to write in.

A pipe, a device or a link to one may never end, and whoever gives a folder away chooses what stands
in it.  So a file is looked at before it is opened, and again once it is open, since its name may
stand for another by then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, Final

OPENING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How files are opened: to wait for nothing, and to change nothing of what is read."""

_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)

_OWN_STREAM: Final = re.compile(r"/dev/stdin|/dev/fd/[0-9]+")

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


def is_own_stream(path: str | Path) -> bool:
    """Return whether a path names what this program was started with: /dev/stdin or /dev/fd/N."""
    return bool(_OWN_STREAM.fullmatch(str(path)))


def first_bytes_given(path: str | Path, limit: int) -> bytes:
    """Return what `first_bytes` does of a path in the user's own command line.

    There a pipe that the user connected (`is_own_stream`) is read as well, up to the limit.
    """
    if not is_own_stream(path):
        return first_bytes(path, limit)
    with Path(path).open("rb") as stream:
        return stream.read(limit + 1)


def first_bytes(path: str | Path, limit: int, *, within: Path | None = None) -> bytes:
    """Return the first bytes of a regular file: one more than `limit` tells a file too large."""
    with open_regular(path, within=within) as file:
        # Not to the limit at once, for which memory would be set aside.
        size = max(os.fstat(file.fileno()).st_size, READ_BUFFER_BYTES)
        return file.read(min(size, limit) + 1)


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


def own_folder(path: Path, rights: int | None = None) -> None:
    """Make a folder in which a program writes, unless it is there, and give it these rights.

    A link in its place is not followed: whoever put it there chose where it leads.  Raises
    `OSError`, as for anything else that is no folder.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o777 if rights is None else rights)
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a link, which is not followed", str(path))
    if not stat.S_ISDIR(status.st_mode):
        raise FileExistsError(errno.EEXIST, "it is in the way, and no folder", str(path))
    if rights is not None:
        descriptor = os.open(path, os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fchmod(descriptor, rights)
        finally:
            os.close(descriptor)


def open_appended(path: Path) -> int:
    """Open a file of one's own to append to, for its owner alone; return its descriptor.

    It is made where there is none.  Raises `OSError` for a link of either kind, which would write
    to a file elsewhere, and for what is no regular file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | _NO_LINK
    descriptor = os.open(path, flags, 0o600)
    try:
        status = os.fstat(descriptor)
        _require_regular(status, path)
        if status.st_nlink > 1:
            raise OSError(errno.EMLINK, "it has another name elsewhere (a hard link)", str(path))
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


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
