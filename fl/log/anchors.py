"""What ties a chain to something outside of it: a head that was kept elsewhere, or a key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput, MissingExtra
from ...accountant.records import Head
from . import signing
from .hash_chain import is_hash
from .reader import BadLine, Line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MIN_HEAD_DIGITS: Final = 32
"""Fewest digits of a head: 128 bits, so that nobody makes a line with the same."""


class Anchors:
    """Holds each line of one pass against a key and a head, where they are given.

    `records` lines were taken, and `head` is the hash of the last.  `anchor` is the number of the
    line with the expected head, `signed` that of the last line that a signature of the given key
    covers, 0 for none; each is None where nothing was given, or nothing met.  `keys` are those of
    the signatures that were met, `covered` the last line that any covers, and `checkable` says
    whether the package is there that checks them.

    Raises `InvalidInput` for an expected head that is none.
    """

    def __init__(self, key: Ed25519PublicKey | None = None, expected: str | None = None) -> None:
        if expected is not None and not _is_head(expected):
            raise InvalidInput(
                f"The expected head must be {MIN_HEAD_DIGITS} to 64 hexadecimal digits (0-9a-f); "
                f"it is {expected!r:.80}.",
                "A head is the SHA-256 of a line; fewer digits could be those of another line.",
                "Give the head as it was printed.",
            )
        self.key = key
        self.expected = expected
        self.records = 0
        self.head: str | None = None
        self.anchor: int | None = None
        self.signed: int | None = None if key is None else 0
        self.keys: list[str] = []
        self.covered = 0
        self.checkable = True

    def take(self, line: Line, path: Path) -> None:
        """Take the next line of the log at `path`; raise `BadLine` for a signature that is bad."""
        if isinstance(line.record, Head):
            complaint = self._complaint(line.record, line.prev)
            if complaint is not None:
                raise BadLine(path, line.number, complaint)
            self.keys.append(line.record.key)
            self.covered = line.number - 1
            if self.key is not None:
                self.signed = line.number - 1
        if self.expected is not None and line.hash.startswith(self.expected):
            self.anchor = line.number
        self.records, self.head = line.number, line.hash

    def mismatch(self) -> str | None:
        """Return how the lines that were taken do not fit what was given; None where they do."""
        if self.expected is not None and self.anchor is None:
            return "no line has the expected head: lines were cut off, or it is another log"
        if self.signed == 0:
            return "nothing is signed by the key"
        if self.signed is not None and self.signed < self.records - 1:
            return f"the end is not signed: the last signature covers line {self.signed}"
        return None

    def _complaint(self, head: Head, prev: str) -> str | None:
        """Return what is wrong with a signature, by the key that was given or its own."""
        if self.key is not None:
            return signing.complaint(self.key, head, prev)
        # A key that the line names itself proves nothing of who signed, but a bad signature is bad.
        try:
            stated = signing.stated_key(head)
        except MissingExtra:
            self.checkable = False
            return None
        return "its key is none" if stated is None else signing.complaint(stated, head, prev)


def _is_head(given: object) -> bool:
    if not isinstance(given, str):
        return False
    return MIN_HEAD_DIGITS <= len(given) <= 64 and is_hash(given.ljust(64, "0"))
