"""A copy of a file in which ids of users are keyed hashes, made inside a silo.

All silos use one key, so that one user has one id everywhere.  The hashes hide ids from a server
that has no key and that no silo tells it to; how many users there are, and which silos they share,
shows all the same.

    id in the copy     HMAC-SHA256(key, normalised id), 32 hexadecimal digits
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import tempfile
from pathlib import Path
from typing import Final, TextIO

from ...accountant.errors import InvalidInput
from ...accountant.randomness import Secret
from ...accountant.regular_file import regular_content
from .batches import BatchReport, unheard
from .csv_file import TextFile
from .schema import TextFormat
from .user_names import normalised_ids

LEAST_KEY_BYTES: Final = 32
MOST_KEY_BYTES: Final = 4096
_ID_DIGITS: Final = 32


def key_of(path: Path) -> Secret:
    """Return the key that a file holds; raises `InvalidInput` for one that is too short."""
    try:
        content = regular_content(path, MOST_KEY_BYTES)
    except OSError as error:
        raise InvalidInput(
            f"The key file {path.name} cannot be read: {error.strerror}.",
            "Ids are hidden by a key that all silos share.",
            "Make one: head -c 32 /dev/urandom > ids.key",
        ) from None
    if len(content) < LEAST_KEY_BYTES:
        raise InvalidInput(
            f"The key file {path.name} has fewer than {LEAST_KEY_BYTES} bytes.",
            "Whoever guesses a short key knows every id again.",
            "Make one: head -c 32 /dev/urandom > ids.key",
        )
    return Secret(content)


def hide_ids(
    source: Path,
    target: Path,
    column: str,
    key: Secret,
    format: TextFormat,
    report: BatchReport = unheard,
) -> int:
    """Write a copy of a text file whose ids are keyed hashes, and return how many rows it has.

    Rows that are no rows (`.text_file`) or have no id are left out of it; `report` hears of them.
    The copy is UTF-8, and is written next to `target` and then renamed, so that no part of it looks
    whole.  Raises `InvalidInput` for another file, and where `target` is there.
    """
    file = TextFile.open(source, format)
    if file.names.count(column) != 1 or len(set(file.names)) < len(file.names):
        raise InvalidInput(
            f"{source.name} has not one column {column!r:.60} among columns that differ.",
            "It says whose record a row is, and a column of the same name would stay as it is.",
            "See that the first line is a header, and name the column of the ids.",
        )
    if target.suffix == ".gz":
        raise InvalidInput(
            f"{target.name} is called as a zipped file, and the copy is plain text.",
            next_step="Give a name without .gz.",
        )
    if target.exists():
        raise InvalidInput(
            f"{target.name} is there already.",
            "A copy is never written over a file.",
            "Give another name, or move it away.",
        )
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".part")
    except OSError as error:
        raise InvalidInput(
            f"{target.name} cannot be written: {error.strerror}.",
            "Its folder must be there, and be yours to write in.",
            "Give another place.",
        ) from None
    # A name that nobody had: what stands next to the target is nobody's to write over.
    unfinished = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as copy:  # noqa: PTH123
            rows = _write(file, copy, column, key, report)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows


def _write(file: TextFile, copy: TextIO, column: str, key: Secret, report: BatchReport) -> int:
    writer = csv.writer(copy, delimiter=file.format.delimiter, lineterminator="\n")
    writer.writerow(file.names)
    id_column, rows = file.names.index(column), 0
    for batch in file.batches(report):
        ids = normalised_ids(batch.columns[column], file.format.id_case).to_pylist()
        cells = [batch.columns[name].to_pylist() for name in file.names]
        cells[id_column] = [hidden_id(user, key) if user else "" for user in ids]
        for line, row in zip(batch.lines.tolist(), zip(*cells, strict=True), strict=True):
            if row[id_column]:
                writer.writerow(row)
                rows += 1
            else:
                report(line, column, "the id is missing, and the row is left out")
    return rows


def hidden_id(user: str, key: Secret) -> str:
    """Return the hidden form of a normalised id."""
    content = user.encode("utf-8", "surrogatepass")
    return hmac.new(key, content, hashlib.sha256).hexdigest()[:_ID_DIGITS]
