"""Files that only grow, each line by one write, and that one process alone may write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

from ...accountant.errors import InvalidInput, LogBroken, Unsupported

_CLOSED: Final = -1
"""A descriptor of no file."""

_APPENDING: Final = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


class AppendFile:
    """A file that is open for appending, and locked against every other writer.

    The lock (`flock`) ends with the process, however it ends, and with the last who holds the file.
    """

    _descriptor = _CLOSED

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        _lock(path, descriptor)
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @classmethod
    def create(cls, path: Path, mode: int) -> Self:
        """Make the file; it must not be there."""
        try:
            return cls(path, os.open(path, _APPENDING | os.O_CREAT | os.O_EXCL, mode))
        except OSError as error:
            raise _unusable(path, error) from None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the file; it must be there."""
        try:
            return cls(path, os.open(path, _APPENDING))
        except OSError as error:
            raise _unusable(path, error) from None

    def write(self, data: bytes, *, durable: bool) -> None:
        """Append by a single write; with `durable`, return when it is on the disk.

        Raises `LogBroken` if not all of it was written, if the disk did not take it, or if
        somebody else changed the file: then its end is not what it should be, and a second try
        could not mend that.
        """
        try:
            status = os.fstat(self._descriptor)
            # Under the lock only a program that ignores it can change the file.
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

    def settle(self) -> None:
        """Return when the file is on the disk; raises `LogBroken` if the disk does not take it."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritten(self.path, error) from None

    def cut(self, size: int) -> None:
        """Drop what stands behind the first `size` bytes, on the disk too."""
        if size == self._size:
            return
        try:
            os.ftruncate(self._descriptor, size)
            os.fsync(self._descriptor)
        except OSError as error:
            raise _unusable(self.path, error) from None
        self._size = size

    def protect(self) -> None:
        """Take all rights from everybody but the owner."""
        os.fchmod(self._descriptor, 0o600)

    def close(self) -> None:
        """Let go of the file and of its lock."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def __del__(self) -> None:
        """Let go: who was interrupted before it was told of the file cannot close it."""
        self.close()


def new_folder(folder: Path) -> None:
    """Make a folder; one that is there must be empty.

    Raises `InvalidInput` otherwise: one folder is one run.
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
    """Return when the names of a folder's files are on the disk."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unusable(folder, error) from None


def _lock(path: Path, descriptor: int) -> None:
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
