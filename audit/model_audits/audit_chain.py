"""The log of an audit of a training: a hash chain, in which the plan stands before the training.

    audit.plan       what was fixed beforehand, with commitments to coins and seeds
    audit.model      one model was trained and scored: a commitment to its scores
    audit.resume     the audit was cut off, and goes on
    audit.failure    a training failed; it keeps its coins and its seed
    audit.result     what the attacks gave, or a commitment to it

Lines are chained as those of a run's log are.  What a line seals stands in `sealed.jsonl`.  All
files can be read by their owner alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import regular_content
from ...fl.log.append_file import AppendFile
from ...fl.log.hash_chain import (
    LONGEST,
    SEALED,
    START,
    canonical,
    chained,
    digest,
    is_hash,
    parsed,
)
from ...fl.log.sidecar import MAX_SIDECAR_BYTES, Sidecar, new_sidecar, opened_sidecar, sealed_lines

AUDIT_LOG: Final = "audit.jsonl"

PLAN: Final = "audit.plan"
MODEL: Final = "audit.model"
RESUME: Final = "audit.resume"
FAILURE: Final = "audit.failure"
RESULT: Final = "audit.result"

_KINDS: Final = (PLAN, MODEL, RESUME, FAILURE, RESULT)
_PRIVATE: Final = 0o600


@dataclass(frozen=True)
class AuditLine:
    """One good line: its `number` from 1, its hash, and its record without the chain's fields."""

    number: int
    hash: str
    record: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What the line says."""
        return str(self.record["type"])


def is_model_audit(folder: str | Path) -> bool:
    """Return whether a folder is that of an audit of a training."""
    return (Path(folder) / AUDIT_LOG).exists()


class BadAuditLine(InvalidInput):
    """A line that its writer cannot have written there; `number` counts from 1."""

    def __init__(self, path: Path, number: int, reason: str) -> None:
        super().__init__(
            f"Line {number} of {path} is bad: {reason}.",
            "A line is changed, missing or moved; nothing after it can be trusted.",
            "Take the folder from a copy that nobody has touched.",
        )
        self.number = number
        self.reason = reason


def read_lines(folder: Path) -> tuple[tuple[AuditLine, ...], int]:
    """Return the good lines of an audit's log, and their length in bytes; a torn end is left out.

    Raises `InvalidInput` where there is no log, and `BadAuditLine` at the first line that its
    writer cannot have written there.
    """
    path = folder / AUDIT_LOG
    try:
        data = regular_content(path, MAX_SIDECAR_BYTES, within=folder)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.",
            "An audit writes its log into its folder.",
            "Give the folder of an audit by privplan.audit_model.",
        ) from None
    lines: list[AuditLine] = []
    size, head = 0, START
    for raw in data.splitlines(keepends=True):
        if not raw.endswith(b"\n") and len(data) == size + len(raw):
            break  # cut off while it was written: nothing rests on it
        line = _line(raw, len(lines), head, path)
        wrong = _out_of_order(line, lines)
        if wrong:
            raise BadAuditLine(path, line.number, wrong)
        lines.append(line)
        size, head = size + len(raw), line.hash
    return tuple(lines), size


def _line(raw: bytes, seq: int, prev: str, path: Path) -> AuditLine:
    number = seq + 1
    try:
        text = raw.decode("ascii").removesuffix("\n")
        source = parsed(text)
        good = isinstance(source, dict) and len(raw) <= LONGEST and canonical(source) == text
    except (ValueError, RecursionError, InvalidInput):
        good = False
    if not good:
        raise BadAuditLine(path, number, "it is no object in canonical form")
    stated = source.pop("hash", None)
    if not is_hash(stated) or digest(canonical(source)) != stated:
        raise BadAuditLine(
            path, number, "`hash` is not the hash of the line, so the line was edited"
        )
    if source.pop("prev", None) != prev or source.pop("seq", None) != seq:
        raise BadAuditLine(path, number, "it follows another line: lines were moved or cut")
    if source.get("type") not in _KINDS or not isinstance(source.get("sealed"), dict):
        raise BadAuditLine(path, number, "it is no line of an audit, or seals nothing by name")
    return AuditLine(number, stated, source)


def _out_of_order(line: AuditLine, before: list[AuditLine]) -> str:
    if (line.kind == PLAN) != (not before):
        return "the plan is the first line, and no other"
    if any(each.kind == RESULT for each in before):
        return "nothing stands after the result"
    if line.kind == MODEL:
        models = [each.record.get("model") for each in before if each.kind == MODEL]
        if line.record.get("model") in models:
            return "the model was trained before"
    return ""


class AuditChain:
    """Writes the log of an audit and what it seals; one process at a time.

    Raises `InvalidInput` where another process writes, and `LogBroken` where the disk fails.
    """

    def __init__(self, log: AppendFile, sealed: AppendFile, lines: tuple[AuditLine, ...]) -> None:
        self._log, self._sealed = log, sealed
        self.lines = list(lines)

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Begin a log in a folder that is there."""
        return cls(
            AppendFile.create(folder / AUDIT_LOG, _PRIVATE), new_sidecar(folder / SEALED), ()
        )

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Take up a log that was cut off; every line is checked first, and a torn end dropped."""
        read_lines(folder)
        log = AppendFile.open(folder / AUDIT_LOG)
        try:
            log.restrict_to_owner()
            lines, size = read_lines(folder)
            log.truncate(size)
            Sidecar.read(folder)
            return cls(log, opened_sidecar(folder / SEALED), lines)
        except BaseException:
            log.close()
            raise

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self.lines[-1].hash if self.lines else START

    def append(self, record: Mapping[str, object], sealed: Mapping[str, object]) -> None:
        """Write a line, and before it what it seals; both are on the disk when this returns."""
        after = len(self.lines) - 1 if self.lines else None
        kept, commitments = sealed_lines(sealed, after)
        if kept:
            self._sealed.write(kept, durable=True)
        whole = {**record, "sealed": commitments}
        text, line_hash = chained(whole, len(self.lines), self.head)
        self._log.write(text.encode("ascii") + b"\n", durable=True)
        self.lines.append(AuditLine(len(self.lines) + 1, line_hash, whole))

    def close(self) -> None:
        """Let go of the files."""
        self._log.close()
        self._sealed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def opened_items(folder: Path, lines: tuple[AuditLine, ...]) -> dict[str, Any]:
    """Return what the lines seal, by name; each was checked against its commitment in the log.

    Raises `InvalidInput` where the sidecar is missing or lacks an item.
    """
    sidecar = Sidecar.read(folder)
    items: dict[str, Any] = {}
    known = {item.commitment: item for item in sidecar.items}
    for line in lines:
        for name, commitment in line.record["sealed"].items():
            item = known.get(commitment)
            before = -1 if item is None or item.after is None else item.after
            if item is None or item.name != name or before >= line.number - 1:
                raise InvalidInput(
                    f"What line {line.number} of {folder / AUDIT_LOG} seals as `{name}` is not in "
                    f"{SEALED}.",
                    "What was sealed is what the log committed to, before the line was written.",
                    "Take the folder from a copy that nobody has touched.",
                )
            items[name] = item.value
    return items
