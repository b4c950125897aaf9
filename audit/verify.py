"""Verification of a log: is its hash chain whole, in order and unchanged?

Verification reads no budget: a log can be unchanged and still claim too much.
"""

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
"""Hexadecimal digits of a public key that are printed."""

Checked = Literal["chain only", "chain and head", "chain and key"]
"""What a log was checked against; `privplan explain log` says what each excludes."""


@dataclass(frozen=True)
class Signature:
    """The signatures of a log: by public `keys` (hex), over lines 1 to `lines`.

    `checked` says which key they were verified with: the one that was `given`; the one `beside`
    each signature in the log, whose owner is not known; or `none`, because the package
    cryptography is not installed.
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
    """The result of verifying a log.

    - `records`: the number of good lines; `head`: the hash of the last of them, None if none is.
    - `complete`: the run was closed, and nothing is wrong.
    - `first_bad`: the number of the first bad line, and what is wrong with it.
    - `torn`: a last line that was cut off while it was written.
    - `opened`: the opening record of the run; `recoveries`: how often the run was resumed.
    - `dangling`: the intents without a release; the budget counts each of them as spent.
    - `anchor`: the number of the line with the expected head; None where no head was expected, or
      where no line has it (then `problem` says so).
    - `signed`: the number of the last line that a signature of the given key covers; 0 where there
      is none, None where no key was given.
    - `problem`: what is wrong, in words; None where nothing is.
    - `signature`: the signatures in the log, by whatever key.
    - `mismatch`: how the log disagrees with the head or the key that was given.
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
        """What the log was checked against and agrees with; the key before the head."""
        if self.first_bad is None and self.mismatch is None:
            if self.signed is not None:
                return "chain and key"
            if self.anchor is not None:
                return "chain and head"
        return "chain only"

    @property
    def up_to(self) -> int | None:
        """The line of the expected head, where lines follow that it does not cover; else None."""
        if self.checked != "chain and head" or self.anchor == self.records:
            return None
        return self.anchor

    @property
    def unbegun(self) -> bool:
        """Whether the log has no whole line: it is not bad, but no run was begun."""
        return self.records == 0 and self.first_bad is None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; a run that was not closed is not wrong."""
        return self.problem is None


def verify(
    folder: str | Path,
    public_key: Ed25519PublicKey | None = None,
    *,
    expected_head: str | None = None,
    each: Callable[[Line], None] | None = None,
) -> Verification:
    """Verify the log in a folder up to its first bad line.

    The hash chain alone does not show whole lines that were cut off at the end, nor a log that was
    rewritten from its first line.  `expected_head` is a hash of a line that was stored elsewhere,
    or its first 32 hexadecimal digits or more: some line must have it.  With `public_key` there
    must be a signature, every one must be by that key, and one must cover all lines, so that
    nobody else can add any.  Without it, each signature is verified with the key next to it in the
    log.  `each` is called with every good line, in the same pass.

    Raises `InvalidInput` where there is no log or `expected_head` is no hash, and `MissingExtra`
    for a key where the package cryptography is not installed.  A bad log raises nothing: the
    result says what is wrong.
    """
    anchors = Anchors(public_key, expected_head)
    scan = Scan(folder)
    bad: tuple[int, str] | None = None
    try:
        for line in scan:
            anchors.take(line, scan.path)
            if each is not None:
                each(line)
    except BadLine as error:
        bad = (error.number, error.reason)
    # A bad line is named first: it may be the reason for a mismatch of the head or the key.
    mismatch = anchors.mismatch()
    problem = _problem(scan, bad) or mismatch
    return Verification(
        records=anchors.records,
        head=anchors.head,
        complete=scan.record_order.closed and problem is None,
        first_bad=bad,
        torn=scan.torn,
        opened=scan.record_order.opened,
        dangling=scan.record_order.dangling,
        recoveries=scan.record_order.recoveries,
        anchor=anchors.anchor,
        signed=anchors.signed,
        problem=problem,
        signature=_signature(anchors),
        mismatch=mismatch,
    )


def _signature(anchors: Anchors) -> Signature | None:
    """Return the signatures in the log; None where there is none."""
    if not anchors.keys:
        return None
    without_key: Literal["beside", "none"] = "beside" if anchors.checkable else "none"
    checked = without_key if anchors.key is None else "given"
    return Signature(tuple(dict.fromkeys(anchors.keys)), anchors.covered, checked)


def _problem(scan: Scan, bad: tuple[int, str] | None) -> str | None:
    """Return the bad or the torn line in words; None where there is neither."""
    if bad is not None:
        return f"line {bad[0]} is bad: {bad[1]}"
    if scan.torn is not None:
        return (
            f"line {scan.torn.number} is torn: the last {scan.torn.size} bytes were cut off while "
            "they were written"
        )
    return None
