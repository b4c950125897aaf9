"""The sealed sidecar: what was computed before the noise, for a trusted auditor's eyes only.

The log shows of each item a commitment, SHA-256 over the canonical JSON of its name, its value and
a blind of 256 fresh random bits.  Whoever does not have the sidecar learns nothing from it, even
if the item has two possible values; whoever has it can check that the item was not changed later.

The sidecar is made readable for its owner only.  It is never to be published, nor its size or its
times: they may depend on the data.  Whoever opens it sees behind the noise, so no guarantee holds
against them, and what they find out is not for the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, SupportsFloat, SupportsIndex

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.records import AuditResult, RoundRelease, RunOpen
from ...accountant.regular_file import regular_content
from .append_file import AppendFile, sync_folder
from .hash_chain import SEALED, canonical, digest, is_hash, parsed
from .reader import read

BLIND_BYTES: Final = 32
MAX_SIDECAR_BYTES: Final = 2**30
"""Length of a blind in bytes."""


@dataclass(frozen=True)
class SealedItem:
    """One item with its blind, and `after`, the `seq` of the line before (None: the log is empty).

    Numbers with a fraction are decimal strings in `value`, as in the log.
    """

    name: str
    value: object
    blind: str
    commitment: str
    after: int | None

    def __repr__(self) -> str:
        """Name the item; a value must not slip into a message."""
        return f"SealedItem({self.name!r})"


@dataclass(frozen=True)
class UnopenedCommitment:
    """A commitment in line `number` of the log that the sidecar does not open, and why."""

    number: int
    name: str
    commitment: str
    why: str


def commitment(name: str, value: object, blind: str) -> str:
    """Return SHA-256 over the canonical JSON object of `name`, `value` and `blind`, in hex."""
    return digest(canonical({"name": name, "value": value, "blind": blind}))


def sealed_lines(items: Mapping[str, object], after: int | None) -> tuple[bytes, dict[str, str]]:
    """Return the lines that keep some items, and the commitment to each by its name.

    Raises `InvalidInput` for what JSON cannot carry; the message names the item, not its value.
    """
    lines: list[str] = []
    commitments: dict[str, str] = {}
    for name, given in items.items():
        value = _plain(given, name)
        # Fresh for each item: equal values get commitments that look as different as any two.
        blind = os.urandom(BLIND_BYTES).hex()
        commitments[name] = commitment(name, value, blind)
        line = {"name": name, "value": value, "blind": blind, "after": after}
        lines.append(canonical({**line, "commitment": commitments[name]}) + "\n")
    return "".join(lines).encode("ascii"), commitments


def whole_size(data: bytes) -> int:
    """Return the length of a sidecar without a torn end.

    That is a last line that does not end, and whatever a machine that failed left behind as NUL
    bytes, if nothing readable stands behind them.
    """
    # A file system that lost power may leave the end of a file as zeros of the right length.
    hole = data.find(b"\0")
    size = data.rfind(b"\n", 0, hole if hole >= 0 else len(data)) + 1
    rest = data[size:].splitlines() if hole >= 0 else []
    return len(data) if any(line.startswith(b"{") and b"\0" not in line for line in rest) else size


@dataclass(frozen=True)
class Sidecar:
    """The items of a sealed sidecar, every one checked against its own commitment.

    `torn` is the length of an end that was cut off, or that a failing machine left as NUL bytes;
    what was sealed there is lost.
    """

    items: tuple[SealedItem, ...]
    torn: int = 0

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Return the sidecar of a folder.

        Raises `InvalidInput` where there is none, or where an item does not fit its commitment.
        """
        path = Path(folder) / SEALED
        try:
            data = regular_content(path, MAX_SIDECAR_BYTES, within=path.parent)
        except OSError as error:
            raise InvalidInput(
                f"{path} cannot be read: {error.strerror}.",
                "Only the owner of a run, and whom they trust, can open what is sealed.",
                "Ask the owner for the sidecar.",
            ) from None
        size = whole_size(data)
        lines = data[:size].splitlines()
        items = [_item(line, path, number) for number, line in enumerate(lines, 1)]
        return cls(tuple(items), len(data) - size)

    def opening(self, commitment: str) -> SealedItem | None:
        """Return the item behind a commitment; None where it is not here."""
        return next((item for item in self.items if item.commitment == commitment), None)

    def unopened(self, folder: str | Path) -> tuple[UnopenedCommitment, ...]:
        """Return the commitments of a folder's log that this sidecar does not open.

        An item opens a commitment if it has the same name and was sealed before the line was
        written.  Raises `BadLine` for a bad log.
        """
        known = {item.commitment: item for item in self.items}
        unopened: list[UnopenedCommitment] = []
        for line in read(folder):
            given: Mapping[str, str] = {}
            if isinstance(line.record, RoundRelease):
                given = line.record.sealed
            elif isinstance(line.record, RunOpen) and line.record.dataset is not None:
                given = {"dataset": line.record.dataset}
            elif isinstance(line.record, AuditResult):
                given = _of_result(line.record)
            for name, value in given.items():
                why = _why_not(known.get(value), name, line.seq)
                if why:
                    unopened.append(UnopenedCommitment(line.number, name, value, why))
        return tuple(unopened)


def _of_result(record: AuditResult) -> Mapping[str, str]:
    """Return the commitment that a result is, where it is one."""
    sealed = record.result.get("sealed")
    return {f"audit.{record.tier}": sealed} if isinstance(sealed, str) and is_hash(sealed) else {}


def _why_not(item: SealedItem | None, name: str, seq: int) -> str:
    if item is None:
        return "it is not in the sidecar"
    if item.name != name:
        return f"it was sealed as `{item.name}`"
    if (-1 if item.after is None else item.after) >= seq:
        return "it was sealed after the line was written"
    return ""


def _item(raw: bytes, path: Path, number: int) -> SealedItem:
    try:
        text = raw.decode("ascii")
        source = parsed(text)
        good = isinstance(source, dict) and canonical(source) == text and _shaped(source)
    except (ValueError, RecursionError):
        good = False
    if not good:
        raise _bad(path, number, "is not an item in canonical form")
    if commitment(source["name"], source["value"], source["blind"]) != source["commitment"]:
        raise _bad(path, number, "does not fit its commitment, so it was edited")
    return SealedItem(**source)


def _shaped(source: dict[str, Any]) -> bool:
    after = source.get("after")
    return (
        set(source) == {"name", "value", "blind", "commitment", "after"}
        and isinstance(source["name"], str)
        and is_hash(source["blind"])
        and is_hash(source["commitment"])
        and (after is None or (isinstance(after, int) and not isinstance(after, bool)))
    )


def _bad(path: Path, number: int, why: str) -> InvalidInput:
    return InvalidInput(
        f"Line {number} of {path} {why}.",
        "What is sealed must be what the log committed to.",
        "Take the sidecar from a copy that nobody has touched.",
    )


def _plain(value: object, name: str) -> object:
    """Return a value as JSON has it, every number with a fraction as a decimal string.

    NaN and infinities are strings too: whether a value is sealed must not depend on the value.
    """
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float:  # most items are made of these and of lists: it saves asking on
        return repr(value)
    if type(value) is list:
        return [_plain(item, name) for item in value]
    if hasattr(value, "tolist"):  # an array or a scalar of numpy
        return _plain(value.tolist(), name)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, SupportsIndex):
        return int(value)
    if isinstance(value, SupportsFloat):
        return repr(float(value))
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, name) for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)):
        return [_plain(item, name) for item in value]
    raise InvalidInput(
        f"The item `{name}` cannot be sealed: it holds {kind_of(value)}.",
        "The sidecar is JSON.",
        "Give texts, numbers, lists and objects with text keys.",
    )


def checked_sidecar(folder: Path) -> AppendFile:
    """Return the sidecar to add to; whatever stands there must be one."""
    path = folder / SEALED
    if path.exists():
        Sidecar.read(folder)
    return opened_sidecar(path)


def opened_sidecar(path: Path) -> AppendFile:
    """Return the sidecar without a torn last line, whose commitments were never given out."""
    if not path.exists():
        return new_sidecar(path)
    file = AppendFile.open(path)
    try:
        file.restrict_to_owner()
        file.truncate(whole_size(regular_content(path, MAX_SIDECAR_BYTES, within=path.parent)))
    except BaseException:
        file.close()
        raise
    return file


def new_sidecar(path: Path) -> AppendFile:
    """Return a new sidecar whose name, and those next to it, are on the disk."""
    file = AppendFile.create(path, 0o600)
    try:
        sync_folder(path.parent)
    except BaseException:
        file.close()
        raise
    return file
