"""Append-only files on disk: each line is one write, and one process at a time may write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

from ...accountant.errors import InvalidInput, LogBroken, Unsupported

_CLOSED: Final = -1
"""The file descriptor of a file that is closed."""

_OPEN_FLAGS: Final = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
"""Append only; a symbolic link is not followed where the system can refuse it."""


class AppendFile:
    """A file that is open for appending, under an exclusive lock.

    The lock (`flock`) is released when the last descriptor of the file is closed, so also when the
    process ends, in whatever way.  Raises `InvalidInput` where another process holds the lock, and
    `Unsupported` where the system has no `flock`.
    """

    _descriptor = _CLOSED  # so that `close` works on an object whose `__init__` failed

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        _lock(path, descriptor)
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @classmethod
    def create(cls, path: Path, mode: int) -> Self:
        """Create the file with these permission bits; raises `InvalidInput` where it exists."""
        try:
            return cls(path, os.open(path, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, mode))
        except OSError as error:
            raise _unusable(path, error) from None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing file; raises `InvalidInput` where there is none, as for any fault."""
        try:
            return cls(path, os.open(path, _OPEN_FLAGS))
        except OSError as error:
            raise _unusable(path, error) from None

    def write(self, data: bytes, *, durable: bool) -> None:
        """Append `data` by one `write`; with `durable`, force it to the disk before returning.

        Raises `LogBroken` if only a part was written, if the disk failed, or if another process
        changed the file.  The end of the file is then unknown, so a second try is no remedy.
        """
        try:
            status = os.fstat(self._descriptor)
            # The lock is advisory: a program that ignores it can still change or remove the file.
            if status.st_size != self._size or status.st_nlink == 0:
                raise LogBroken(
                    f"{self.path} was changed or removed by somebody else.",
                    "A log that others write proves nothing.",
                    "Find out who, and start again in a new folder.",
                )
            written = os.write(self._descriptor, data)
            self._size += written
            if written != len(data):
                raise LogBroken(
                    f"{self.path} took {written} of {len(data)} bytes.",
                    "Nothing is released that is not in the log.",
                    "Make room on the disk, and resume the run.",
                )
            if durable:
                os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritten(self.path, error) from None

    def sync(self) -> None:
        """Force the file to the disk (`fsync`); raises `LogBroken` where that fails."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritten(self.path, error) from None

    def truncate(self, size: int) -> None:
        """Cut the file to its first `size` bytes, on the disk too; raises `InvalidInput`."""
        if size == self._size:
            return
        try:
            os.ftruncate(self._descriptor, size)
            os.fsync(self._descriptor)
        except OSError as error:
            raise _unusable(self.path, error) from None
        self._size = size

    def restrict_to_owner(self) -> None:
        """Let nobody but the owner read or write the file (mode 600)."""
        os.fchmod(self._descriptor, 0o600)

    def close(self) -> None:
        """Close the file, which releases its lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def __del__(self) -> None:
        """Close the file of a caller that was interrupted before it could."""
        self.close()


def new_folder(folder: Path) -> None:
    """Create a folder, with its parents, and force its name to the disk.

    Raises `InvalidInput` for a folder that is not empty, as one folder holds one run, and where it
    cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filled = any(folder.iterdir())
    except OSError as error:
        raise _unusable(folder, error) from None
    if filled:
        raise InvalidInput(
            f"The folder {folder} is not empty.",
            "One folder holds one run, and nothing that was logged is written over.",
            "Give a new folder, or resume the run that it holds.",
        )
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Force the directory entries of a folder to the disk; raises `InvalidInput`."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unusable(folder, error) from None


def _lock(path: Path, descriptor: int) -> None:
    """Lock a file without waiting; close it and raise where that is not possible."""
    try:
        import fcntl
    except ModuleNotFoundError:
        os.close(descriptor)
        raise Unsupported(
            "Logs can be written only where the system has `flock`.",
            "Without a lock two runs could write one log.",
            "Run it on Linux or macOS; logs can be read anywhere.",
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InvalidInput(
            f"{path} is being written by another process.",
            "Two writers would spend the same budget twice.",
            "Wait until that run ends, or give another folder.",
        ) from None


def _unwritten(path: Path, error: OSError) -> LogBroken:
    return LogBroken(
        f"{path} cannot be written: {error.strerror}.",
        "Nothing is released that is not in the log.",
        "Mend the disk or make room on it, and resume the run.",
    )


def _unusable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used: {error.strerror}.",
        "A run writes its log before anything else.",
        "Give a folder that can be written.",
    )
