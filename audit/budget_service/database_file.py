"""The file of a ledger, which is one server's alone under every name that it has.

Two locks keep a second server away: one on the file itself, whatever path leads to it, and one next
to it, which stays where the file is replaced by another one.  A file with two names is refused: a
journal stands next to the name by which it was opened, and is not seen by the other one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...accountant.errors import InvalidInput, Unsupported


class DatabaseFile:
    """A file that this process holds until `close`; `is_new` where it was not there before.

    Raises `InvalidInput` for a file that another server holds, that has several names, that is no
    regular file or cannot be written, and where its folder was left with a journal but no file.
    """

    def __init__(self, path: Path) -> None:
        self._descriptors: list[int] = []
        self.is_new = False
        try:
            self._hold(path.with_name(path.name + ".lock"), path)
            self.is_new = not path.exists()
            if self.is_new:
                _require_no_journal(path)
            # It stays open for as long as SQLite has it: closing it would end SQLite's own locks.
            _require_single_name(self._hold(path, path), path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file, after every connection to it was closed."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def _hold(self, name: Path, path: Path) -> os.stat_result:
        """Open and lock a file, and return what it is."""
        try:
            import fcntl
        except ModuleNotFoundError:
            raise Unsupported(
                "A ledger in a file can be served only where the system has `flock`.",
                "Without a lock two servers could serve one file.",
                "Run it on Linux or macOS, or give a PostgreSQL database.",
            ) from None
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(name, flags, 0o600)
        except OSError as error:
            raise InvalidInput(
                f"{name} cannot be written: {error.strerror}.",
                "A lock keeps a second server away from the same file.",
                "Give a file in a folder that can be written.",
            ) from None
        self._descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidInput(
                f"{path} is being served by another process.",
                "Two servers would spend the same budget twice.",
                "Stop the other server, or give another file.",
            ) from None
        return os.fstat(descriptor)


def _require_single_name(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise InvalidInput(
            f"{path} is no file of a single name.",
            "By another name (a hard link) a server would not see the journal of this one.",
            "Remove the other names, and keep the one next to its journal.",
        )


def _require_no_journal(path: Path) -> None:
    if path.with_name(path.name + "-wal").exists():
        raise InvalidInput(
            f"{path} is gone, and its journal is still there.",
            "What it held is lost, and a new ledger would give everybody a second budget.",
            "Restore a backup; for a new ledger give another name.",
        )


__all__ = ["DatabaseFile"]
