"""Is this log whole, in order and unchanged?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ..accountant.records import RunOpen
from ..fl.log.anchors import Anchors
from ..fl.log.reader import BadLine, Line, Scan, Torn

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


_KEY_DIGITS_SHOWN: Final = 8
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
        names = " and ".join(f"{key[:_KEY_DIGITS_SHOWN]}..." for key in self.keys)
        tail = "whose owner is not known"
        if self.checked == "none":
            tail = "not checked: that needs the package cryptography"
        return f"lines 1 to {self.lines:,}, by key {names}, {tail}"


@dataclass(frozen=True)
class Verification:
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
) -> Verification:
    """Check the log in a folder, and name the first bad line.

    `expected_head` is a hash that was kept elsewhere, or its first 32 digits or more: some line
    must have it, so whole lines that were cut off at the end are missed.  With `public_key`, every
    signature must be of that key, there must be one, and one must cover all lines, so that nobody
    else adds any.  Without, signatures are held against the keys that stand beside them.  `each`
    is handed every good line, in the same pass.

    Raises `InvalidInput` where there is no log or `expected_head` is no hash, `MissingExtra` for a
    key without `cryptography`.  A bad log is not an error: it is the answer.
    """
    check = Anchors(public_key, expected_head)
    scan = Scan(folder)
    bad: tuple[int, str] | None = None
    try:
        for line in scan:
            check.take(line, scan.path)
            if each is not None:
                each(line)
    except BadLine as error:
        bad = (error.number, error.reason)
    # A bad line is named before a mismatch: it may be the reason for it.
    mismatch = check.mismatch()
    problem = _problem(scan, bad) or mismatch
    return Verification(
        records=check.records,
        head=check.head,
        complete=scan.record_order.closed and problem is None,
        first_bad=bad,
        torn=scan.torn,
        opened=scan.record_order.opened,
        dangling=scan.record_order.dangling,
        recoveries=scan.record_order.recoveries,
        anchor=check.anchor,
        signed=check.signed,
        problem=problem,
        signature=_signature(check),
        mismatch=mismatch,
    )


def _signature(check: Anchors) -> Signature | None:
    """Return the signatures that were met; None where there is none."""
    if not check.keys:
        return None
    beside: Literal["beside", "none"] = "beside" if check.checkable else "none"
    checked = beside if check.key is None else "given"
    return Signature(tuple(dict.fromkeys(check.keys)), check.covered, checked)


def _problem(scan: Scan, bad: tuple[int, str] | None) -> str | None:
    if bad is not None:
        return f"line {bad[0]} is bad: {bad[1]}"
    if scan.torn is not None:
        return (
            f"line {scan.torn.number} is torn: the last {scan.torn.size} bytes were cut off while "
            "they were written"
        )
    return None
