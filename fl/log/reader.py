"""Reading a log line by line, and naming the first line that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from ...accountant.errors import InvalidInput
from ...accountant.records import Record
from ...accountant.regular_file import open_regular
from .decoding import Decoder
from .hash_chain import CHAIN, LOG, LONGEST, START, canonical, digest, parsed
from .record_order import RecordOrder

UNBEGUN: Final = "as far as the log tells, no run was begun: it holds no record"

WHY: Final = (
    "A start that was cut off leaves such a log, and has released nothing; with a model or "
    "measurements, it has lost its lines."
)

NEXT: Final = "Begin the run anew: privplan run CONFIG.toml --out DIR; or give the folder of a run."


@dataclass(frozen=True)
class Line:
    """One good line: its `number` in the file (from 1), its place in the chain, its record."""

    number: int
    seq: int
    prev: str
    hash: str
    record: Record


class BadLine(InvalidInput):
    """A line that its writer cannot have written there; `number` counts from 1."""

    def __init__(self, path: Path, number: int, reason: str) -> None:
        super().__init__(
            f"Line {number} of {path} is bad: {reason}.",
            "A line is changed, missing or out of place; nothing after it can be trusted.",
            "Take the log from a copy that nobody has touched.",
        )
        self.number = number
        self.reason = reason


@dataclass(frozen=True)
class Torn:
    """A last line that was cut off while it was written: a crash leaves this, and no more."""

    number: int
    size: int


class Scan:
    """One pass over a log; it yields the good lines, and knows afterwards what it has seen.

    Checked are, in this order: the text is JSON, in its canonical form; `hash` is the hash of the
    rest; `seq` counts from 0; `prev` is the hash of the line before; the record is of a known kind
    with exactly its fields; it may stand where it stands (`RecordOrder`).

    A last line that does not end, or is no JSON, is `torn`: its writer was cut off before it could
    go on, so nothing rests on it.  Anything else raises `BadLine`.  Whoever can rewrite the whole
    end of a log, or cut it off between two lines, is found by a head that was kept elsewhere, or
    by a signature, and by nothing else.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = log_of(folder)
        self.record_order = RecordOrder()
        self.records = 0
        self.size = 0
        self.head: str | None = None
        self.torn: Torn | None = None
        self._decoder = Decoder()

    def __iter__(self) -> Iterator[Line]:
        with _opened(self.path) as file:
            while raw := file.readline(LONGEST + 1):
                line = self._line(raw, file)
                if line is None:
                    return
                yield line

    def _line(self, raw: bytes, file: BinaryIO) -> Line | None:
        """Return the next line; None, and remember it, where it is torn."""
        number = self.records + 1
        if len(raw) > LONGEST:
            raise BadLine(self.path, number, f"it is longer than {LONGEST} bytes")
        text, source = _parsed(raw)
        if source is _NOTHING:
            # Only at the very end may a line be torn; anywhere else its writer went on after it.
            if not file.read(1):
                self.torn = Torn(number, len(raw))
                return None
            raise BadLine(self.path, number, "it is not JSON")
        try:
            line = self._checked(text, source)
        except (_Wrong, InvalidInput) as error:
            raise BadLine(self.path, number, _reason(error)) from None
        self.records += 1
        self.size += len(raw)
        self.head = line.hash
        return line

    def _checked(self, text: str, source: Any) -> Line:
        if not isinstance(source, dict):
            raise _Wrong("it is not an object")
        if not source.keys() >= _CHAIN:
            missing = next(name for name in CHAIN if name not in source)
            raise _Wrong(f"it lacks the field `{missing}`")
        # One text for one value: else two readers could take one line for two different records.
        if _canonical(source) != text:
            raise _Wrong("it is not in canonical form")
        stated_hash, prev, seq = source.pop("hash"), source["prev"], source["seq"]
        if digest(_without_hash(text, stated_hash, source)) != stated_hash:
            raise _Wrong("`hash` is not the hash of the line, so the line was edited")
        expected = self.records
        if isinstance(seq, bool) or not isinstance(seq, int):
            raise _Wrong("`seq` is not an integer")
        if seq > expected:
            raise _Wrong(f"`seq` is {seq} where {expected} belongs: lines were removed or moved")
        if seq < expected:
            raise _Wrong(f"`seq` is {seq} where {expected} belongs: a line is repeated or moved")
        if prev != (self.head or START):
            raise _Wrong(
                "`prev` is not the hash of the line before: a line was inserted or exchanged"
            )
        del source["prev"], source["seq"]
        record = self._decoder.record(source)
        refusal = self.record_order.refusal(record)
        if refusal is not None:
            raise _Wrong(refusal)
        self.record_order.accept(record, seq)
        return Line(expected + 1, seq, prev, stated_hash, record)


def read(folder: str | Path) -> Iterator[Line]:
    """Yield the good lines of the log in a folder; raise `BadLine` at the first bad one.

    A torn last line ends the log (`verify` says that it is there).  Raises `InvalidInput` where
    there is no log.
    """
    yield from Scan(folder)


def log_of(folder: str | Path) -> Path:
    """Return the path of a folder's log; raise `InvalidInput` where there is none."""
    path = Path(folder) / LOG
    if path.is_file():
        return path
    what = f"{folder} holds no {LOG}."
    if not Path(folder).exists():
        what = f"There is no folder {folder}."
    elif not Path(folder).is_dir():
        what = f"{folder} is not a folder."
    raise InvalidInput(
        what, "A run writes its log into its output folder.", "Give the folder of a run."
    )


_NOTHING: Final = object()

_CHAIN: Final = frozenset(CHAIN)


class _Wrong(Exception):
    """Why a line is bad."""


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path, within=path.parent)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.",
            "The log must be readable to be checked.",
            "Give yourself the right to read it.",
        ) from None


def _parsed(raw: bytes) -> tuple[str, Any]:
    """Return the text of a line and what it says; `_NOTHING` where it has no end or is no JSON."""
    try:
        text = raw.decode("ascii")
        if text.endswith("\n"):
            return text[:-1], parsed(text[:-1])
    except (ValueError, RecursionError):
        pass
    return "", _NOTHING


def _canonical(source: object) -> str | None:
    try:
        return canonical(source)
    except InvalidInput:
        return None


def _without_hash(text: str, own: object, source: dict[str, Any]) -> str:
    """Return the canonical text of a line without its hash.

    The text is canonical, so the hash can be cut out, unless it stands in there twice.
    """
    before, _, after = text.partition(f'"hash":"{own}",')
    return canonical(source) if f'"hash":"{own}",' in after else before + after


def _reason(error: Exception) -> str:
    if isinstance(error, InvalidInput):
        step = error.next_step if error.next_step.startswith("Did you") else ""
        return f"{error.what.rstrip('.')}. {step}".rstrip(" .") if step else error.what.rstrip(".")
    return str(error)
