"""The manifest of a folder of canaries: what was fixed beforehand, and that they were opened once.

    manifest.jsonl   a chain of at most three lines; it holds no coin, and may be given to others
        canaries.drawn    before the training: kind, number, guesses, the commitment to the coins,
                          the digest of the file to score
        canaries.opened   the first scores, by their digest, and what they are judged by; it is on
                          the disk before anything of the coins is shown
        canaries.judged   what they showed

A chain shows that nothing was changed to whoever has kept the hash of a line, its head.  Nobody can
be kept from copying a folder before it is opened and opening each copy, or from cutting its
manifest back: only who holds the manifest of the first opening sees that.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import regular_content
from ...fl.log.append_file import AppendFile, sync_folder
from ...fl.log.hash_chain import CHAIN, LOG, START, canonical, chained, is_hash, parsed
from ...fl.tables.schema import ENCODINGS
from .example_files import SUFFIXES

MANIFEST: Final = "manifest.jsonl"

DRAWN: Final = "canaries.drawn"
OPENED: Final = "canaries.opened"
JUDGED: Final = "canaries.judged"

_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {
    DRAWN: {
        "kind": str,
        "canaries": int,
        "unit": str,
        "records_each": int,
        "guesses": int,
        "label": str,
        "user": object,
        "made_from": dict,
        "commitment": str,
        "score": str,
        "suffix": str,
        "delimiter": str,
        "encoding": str,
        "removed": int,
    },
    OPENED: {"delta": str, "claimed": object, "event": object, "scores": str},
    JUDGED: {"correct": int, "epsilon_lower": str, "confidence": str, "contradicted": object},
}
"""What each line holds, the lines in their order."""

_ORDER: Final = tuple(_FIELDS)

MOST_MANIFEST_BYTES: Final = 2**20

LEAST_HEAD: Final = 32
"""Digits of a head that is given, at least."""

COPIES: Final = (
    "a folder that was copied before it was opened, or whose manifest was cut back, can be opened "
    "again: whoever needs to know keeps the manifest, or its head, of the first opening"
)


@dataclass(frozen=True)
class Manifest:
    """The lines of a manifest without the fields of the chain, and the hash of each."""

    records: tuple[Mapping[str, Any], ...]
    hashes: tuple[str, ...]

    @property
    def drawn(self) -> Mapping[str, Any]:
        """What was fixed before the training."""
        return self.records[0]

    @property
    def opened(self) -> Mapping[str, Any] | None:
        """What the canaries were opened for; None as long as they are closed."""
        return self.records[1] if len(self.records) > 1 else None

    @property
    def judged(self) -> Mapping[str, Any] | None:
        """What the first scores showed; None before."""
        return self.records[2] if len(self.records) > 2 else None

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self.hashes[-1]

    def require_head(self, head: str) -> None:
        """Raise `InvalidInput` unless a line has this hash, of which the first 32 digits do."""
        if len(head) < LEAST_HEAD or not any(each.startswith(head) for each in self.hashes):
            raise InvalidInput(
                "No line of the manifest has this head.",
                "These are not the canaries that were committed to, or their lines were changed.",
                f"Give the head that was printed when they were drawn, {LEAST_HEAD} digits or all.",
            )


def begin(folder: Path, drawn: Mapping[str, object]) -> str:
    """Write the first line of a manifest, on the disk; return its hash.  Raises `InvalidInput`."""
    line, head = chained({**drawn, "type": DRAWN}, 0, START)
    with closing(AppendFile.create(folder / MANIFEST, 0o600)) as file:
        file.write(line.encode("ascii") + b"\n", durable=True)
    sync_folder(folder)
    return head


class OpenManifest:
    """The manifest of a folder while this process alone may add to it; close it afterwards."""

    def __init__(self, folder: Path) -> None:
        """Lock and read it; raises `InvalidInput` where it is missing, changed or in use."""
        read_manifest(folder)  # says what is wrong with it better than who opens it
        self._file = AppendFile.open(folder / MANIFEST)
        try:
            self.manifest = read_manifest(folder)
        except BaseException:
            self.close()
            raise

    def add(self, kind: str, record: Mapping[str, object]) -> None:
        """Add a line, which is on the disk when this returns."""
        held = self.manifest
        line, head = chained({**record, "type": kind}, len(held.records), held.head)
        self._file.write(line.encode("ascii") + b"\n", durable=True)
        self.manifest = Manifest((*held.records, {**record, "type": kind}), (*held.hashes, head))

    def close(self) -> None:
        """Let another process have it."""
        self._file.close()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, each line checked against the chain.

    Raises `InvalidInput` for one that is missing or changed; a line that was cut off is changed.
    """
    path = folder / MANIFEST
    try:
        content = regular_content(path, MOST_MANIFEST_BYTES, within=folder)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.",
            "A folder of canaries has a manifest of what was fixed beforehand.",
            f"privplan audit attack {folder}"  # canary gradients are judged there
            if (folder / LOG).exists()
            else "Draw canaries: privplan audit canaries make",
        ) from None
    records: list[Mapping[str, Any]] = []
    hashes: list[str] = []
    *lines, rest = content.split(b"\n")
    for number, line in enumerate(lines):
        record = _record(line, number, hashes[-1] if hashes else START)
        if record is None:
            raise _changed(path, number + 1)
        hashes.append(record["hash"])
        records.append({name: value for name, value in record.items() if name not in CHAIN})
    if rest or not records:
        raise _changed(path, len(lines) + 1)
    return Manifest(tuple(records), tuple(hashes))


def _record(line: bytes, number: int, prev: str) -> dict[str, Any] | None:
    """Return what a line says; None where it is not the line that was written there."""
    try:
        text = line.decode("ascii")
        record = parsed(text)
        right = (
            number < len(_ORDER)
            and isinstance(record, dict)
            and canonical(record) == text
            and is_hash(record.get("hash"))
            and record.get("type") == _ORDER[number]
        )
        if not right:
            return None
        content = {name: value for name, value in record.items() if name not in CHAIN}
        fields = _FIELDS[_ORDER[number]]
        if set(content) != {*fields, "type"}:
            return None
        if not all(isinstance(content[name], kind) for name, kind in fields.items()):
            return None
        if number == 0 and not _is_possible(content):
            return None
        return record if chained(content, number, prev)[0] == text else None
    except (ValueError, RecursionError):
        return None


def _is_possible(drawn: Mapping[str, Any]) -> bool:
    """Return whether canaries can have been drawn so: a stranger's file decides no name or size."""
    return (
        1 <= drawn["guesses"] <= drawn["canaries"]
        and drawn["records_each"] >= 1
        and drawn["suffix"] in SUFFIXES
        and drawn["encoding"] in ENCODINGS
        and len(drawn["delimiter"]) == 1
        and drawn["delimiter"].isascii()
        and (drawn["delimiter"].isprintable() or drawn["delimiter"] == "\t")
    )


def _changed(path: Path, number: int) -> InvalidInput:
    return InvalidInput(
        f"Line {number} of {path} is not what was written there.",
        "A manifest that was changed, or cut off, fixes nothing beforehand.",
        "Take the manifest from a copy that nobody has touched; or draw new canaries and train "
        "again.",
    )
