"""Is this log whole, in order and unchanged?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ..accountant.errors import InvalidInput, MissingExtra
from ..accountant.records import Head, RunOpen
from ..fl.log import signing
from ..fl.log.canonical import is_hash
from ..fl.log.reader import BadLine, Line, Scan, Torn

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


FEWEST_DIGITS: Final = 32
"""Fewest digits of a head: 128 bits, so that nobody makes a line with the same."""

_SHOWN: Final = 8
"""Digits of a key that are shown."""

Checked = Literal["chain only", "chain and head", "chain and key"]
"""Against what a log was held; `privplan explain log` says what each excludes."""


@dataclass(frozen=True)
class Signature:
    """The signatures of a log: by which public `keys` (hex), and up to which line.

    `checked` says against which key they hold: the one that was `given`, the one `beside` each of
    them, whose owner is not known, or `none`, as the package that checks them is not installed.
    """

    keys: tuple[str, ...]
    lines: int
    checked: Literal["given", "beside", "none"]

    def to_json(self) -> dict[str, object]:
        """Return the signatures as a JSON object."""
        return {"keys": list(self.keys), "lines": self.lines, "checked": self.checked}

    def __str__(self) -> str:
        """Return the signatures in words."""
        if self.checked == "given":
            return f"lines 1 to {self.lines:,}, by the key that was given"
        names = " and ".join(f"{key[:_SHOWN]}..." for key in self.keys)
        tail = "whose owner is not known"
        if self.checked == "none":
            tail = "not checked: that needs the package cryptography"
        return f"lines 1 to {self.lines:,}, by key {names}, {tail}"


@dataclass(frozen=True)
class Verified:
    """What a log turned out to be.

    `records` lines are good, and `head` is the hash of the last of them.  `complete` says that
    the run was closed and that nothing is wrong.  `first_bad` is the number of the first bad line
    and what is wrong with it; `torn` a last line that was cut off.  `dangling` are the intents
    without a release, all of them spent.

    `anchor` is the number of the line with the expected head; None where none was expected or it
    was not found (`problem` tells).  `signed` is the number of the last line that a good signature
    covers, 0 for none, None where no key was given.  `signature` is what stands there, whoever's
    key it is; `mismatch` says how the log does not fit the head or the key that was given.
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
    signature: Signature | None = None
    mismatch: str | None = None

    @property
    def checked(self) -> Checked:
        """Against what the log was held, and fits."""
        if self.first_bad is None and self.mismatch is None:
            if self.signed is not None:
                return "chain and key"
            if self.anchor is not None:
                return "chain and head"
        return "chain only"

    @property
    def up_to(self) -> int | None:
        """The last line that a head covers, where others follow; None where it covers all."""
        if self.checked != "chain and head" or self.anchor == self.records:
            return None
        return self.anchor

    @property
    def unbegun(self) -> bool:
        """Whether the log has no whole line, so that no run was begun: not bad, and no run."""
        return self.records == 0 and self.first_bad is None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; a run that is not closed is not wrong."""
        return self.problem is None


def verify(
    folder: str | Path,
    public_key: Ed25519PublicKey | None = None,
    *,
    expected_head: str | None = None,
    each: Callable[[Line], None] | None = None,
) -> Verified:
    """Check the log in a folder, and name the first bad line.

    `expected_head` is a hash that was kept elsewhere, or its first 32 digits or more: some line
    must have it, so whole lines that were cut off at the end are missed.  With `public_key`, every
    signature must be of that key, there must be one, and one must cover all lines, so that nobody
    else adds any.  Without, signatures are held against the keys that stand beside them.  `each`
    is handed every good line, in the same pass.

    Raises `InvalidInput` where there is no log or `expected_head` is no hash, `MissingExtra` for a
    key without `cryptography`.  A bad log is not an error: it is the answer.
    """
    if expected_head is not None and not _is_head(expected_head):
        raise InvalidInput(
            f"The expected head must be {FEWEST_DIGITS} to 64 hexadecimal digits (0-9a-f); it is "
            f"{expected_head!r:.80}.",
            "A head is the SHA-256 of a line; fewer digits could be those of another line.",
            "Give the head as it was printed.",
        )
    scan = Scan(folder)
    check = _Anchors(public_key, expected_head)
    bad: tuple[int, str] | None = None
    try:
        for line in scan:
            check.take(line, scan.path)
            if each is not None:
                each(line)
    except BadLine as error:
        bad = (error.number, error.reason)
    mismatch = check.mismatch()
    problem = _problem(scan, bad) or mismatch
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
        signature=check.signature(),
        mismatch=mismatch,
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
        self._keys: list[str] = []
        self._covered = 0
        self._checkable = True

    def take(self, line: Line, path: Path) -> None:
        if isinstance(line.record, Head):
            complaint = self._complaint(line.record, line.prev)
            if complaint is not None:
                raise BadLine(path, line.number, complaint)
            self._keys.append(line.record.key)
            self._covered = line.number - 1
            if self.key is not None:
                self.signed = line.number - 1
        if self.expected is not None and line.hash.startswith(self.expected):
            self.anchor = line.number
        self.records, self.head = line.number, line.hash

    def _complaint(self, head: Head, prev: str) -> str | None:
        """Return what is wrong with a signature, by the key that was given or its own."""
        if self.key is not None:
            return signing.complaint(self.key, head, prev)
        try:
            own = signing.key_beside(head)
        except MissingExtra:
            self._checkable = False
            return None
        return "its key is none" if own is None else signing.complaint(own, head, prev)

    def signature(self) -> Signature | None:
        """Return the signatures that were met; None where there is none."""
        if not self._keys:
            return None
        beside: Literal["beside", "none"] = "beside" if self._checkable else "none"
        checked = beside if self.key is None else "given"
        return Signature(tuple(dict.fromkeys(self._keys)), self._covered, checked)

    def mismatch(self) -> str | None:
        if self.expected is not None and self.anchor is None:
            return "no line has the expected head: lines were cut off, or it is another log"
        if self.signed == 0:
            return "nothing is signed by the key"
        if self.signed is not None and self.signed < self.records - 1:
            return f"the end is not signed: the last signature covers line {self.signed}"
        return None


def _is_head(given: str) -> bool:
    return FEWEST_DIGITS <= len(given) <= 64 and is_hash(given.ljust(64, "0"))


def _problem(scan: Scan, bad: tuple[int, str] | None) -> str | None:
    if bad is not None:
        return f"line {bad[0]} is bad: {bad[1]}"
    if scan.torn is not None:
        return (
            f"line {scan.torn.number} is torn: the last {scan.torn.size} bytes were cut off while "
            "they were written"
        )
    return None
