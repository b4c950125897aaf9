"""Is this log whole, in order and unchanged?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput
from ...accountant.records import Head, RunOpen
from . import signing
from .canonical import is_hash
from .reader import BadLine, Line, Scan, Torn

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


@dataclass(frozen=True)
class Verified:
    """What a log turned out to be.

    `records` lines are good, and `head` is the hash of the last of them.  `complete` says that
    the run was closed and that nothing is wrong.  `first_bad` is the number of the first bad line
    and what is wrong with it; `torn` a last line that was cut off.  `dangling` are the intents
    without a release, all of them spent.

    `anchor` is the number of the line with the expected head; None where none was expected or it
    was not found (`problem` tells).  `signed` is the number of the last line that a good signature
    covers, 0 for none, None where no key was given.
    """

    records: int
    head: str | None
    complete: bool
    first_bad: tuple[int, str] | None
    torn: Torn | None
    opened: RunOpen | None
    dangling: tuple[int, ...]
    recoveries: int
    anchor: int | None
    signed: int | None
    problem: str | None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; a run that is not closed is not wrong."""
        return self.problem is None


def verify(
    folder: str | Path,
    public_key: Ed25519PublicKey | None = None,
    *,
    expected_head: str | None = None,
) -> Verified:
    """Check the log in a folder, and name the first bad line.

    `expected_head` is a hash that was kept elsewhere: some line must have it, so whole lines that
    were cut off at the end are missed.  With `public_key`, every signature must be of that key,
    there must be one, and once the run is closed one must cover all lines, so that nobody else
    adds a result to it.

    Raises `InvalidInput` where there is no log or `expected_head` is no hash, `MissingExtra` for a
    key without `cryptography`.  A bad log is not an error: it is the answer.
    """
    if expected_head is not None and not is_hash(expected_head):
        raise InvalidInput(
            f"The expected head must be 64 hexadecimal digits (0-9a-f); it is "
            f"{expected_head!r:.80}.",
            "A head is the SHA-256 of a line.",
            "Give the head as it was printed.",
        )
    scan = Scan(folder)
    check = _Anchors(public_key, expected_head)
    bad: tuple[int, str] | None = None
    try:
        for line in scan:
            check.take(line, scan.path)
    except BadLine as error:
        bad = (error.number, error.reason)
    problem = _problem(scan, bad) or check.problem(closed=scan.course.closed)
    return Verified(
        records=check.records,
        head=check.head,
        complete=scan.course.closed and problem is None,
        first_bad=bad,
        torn=scan.torn,
        opened=scan.course.opened,
        dangling=scan.course.dangling,
        recoveries=scan.course.recoveries,
        anchor=check.anchor,
        signed=check.signed,
        problem=problem,
    )


class _Anchors:
    """What ties the chain to something outside: a head that was kept, or a key."""

    def __init__(self, key: Ed25519PublicKey | None, expected: str | None) -> None:
        self.key = key
        self.expected = expected
        self.records = 0
        self.head: str | None = None
        self.anchor: int | None = None
        self.signed: int | None = None if key is None else 0

    def take(self, line: Line, path: Path) -> None:
        if self.key is not None and isinstance(line.record, Head):
            complaint = signing.complaint(self.key, line.record, line.prev)
            if complaint is not None:
                raise BadLine(path, line.number, complaint)
            self.signed = line.number - 1
        if line.hash == self.expected:
            self.anchor = line.number
        self.records, self.head = line.number, line.hash

    def problem(self, *, closed: bool) -> str | None:
        if self.expected is not None and self.anchor is None:
            return "no line has the expected head: lines were cut off, or it is another log"
        if self.signed == 0:
            return "nothing is signed by the key"
        if self.signed is not None and closed and self.signed < self.records - 1:
            return f"the end is not signed: the last signature covers line {self.signed}"
        return None


def _problem(scan: Scan, bad: tuple[int, str] | None) -> str | None:
    if bad is not None:
        return f"line {bad[0]} is bad: {bad[1]}"
    if scan.torn is not None:
        return (
            f"line {scan.torn.number} is torn: the last {scan.torn.size} bytes were cut off while "
            "they were written"
        )
    return None
