"""Files: find them, read them, check them, and say clearly what is wrong with them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import regular_content

MAX_DATA_BYTES: Final = 2**33


def folder(name: str, path: str | Path | None, holds: Sequence[str]) -> Path:
    """Return the folder of a data set, or refuse a path that is missing or no folder."""
    listed = ", ".join(holds)
    if path is None:
        raise InvalidInput(
            f"The data set {name} is read from a folder, and no `path` is given.",
            "It is not bundled and not downloaded.",
            f"Give the folder that holds {listed}.",
        )
    folder_path = expanded(path)
    if not is_there(folder_path, Path.is_dir):
        raise InvalidInput(
            f"There is no folder {folder_path!s:.200}.",
            f"The data set {name} is read from it.",
            f"Give the folder that holds {listed}.",
        )
    return folder_path


def expanded(path: str | Path) -> Path:
    """Return a path with its `~` replaced, or refuse what is no path or names no home."""
    if not isinstance(path, (str, Path)):
        raise InvalidInput(f"`path` must be a text; it is {path!r:.60}.")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(
            f"`path` begins with {str(path).split('/')[0]:.60}, and there is no such user here.",
            next_step="Write the folder out.",
        ) from None


def is_there(path: Path, kind: Callable[[Path], bool]) -> bool:
    """Return whether there is a file or a folder (`kind`); a name too long for one is none."""
    try:
        return kind(path)
    except (OSError, ValueError):
        return False


def content(path: Path, field: str = "path") -> bytes:
    """Return the bytes of a file, or refuse one that is missing or cannot be read.

    `field` is the key of the configuration that names it, for the message.
    """
    try:
        return regular_content(path, MAX_DATA_BYTES)
    except FileNotFoundError:
        raise InvalidInput(
            f"There is no file {path.name} in {path.parent}.",
            "The data set needs it.",
            f"Check `{field}`.",
        ) from None
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.", next_step=f"Check `{field}`."
        ) from None


def text(path: Path, raw: bytes) -> str:
    """Return the bytes as text, or refuse what is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path.name} is no text file in UTF-8.",
            "Letters in another encoding would be read as others.",
            "Give the CSV file itself, unpacked and saved as UTF-8.",
        ) from None


def table(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the named columns of a CSV file with a header, as text.

    Raises `InvalidInput` for a missing file, what is no CSV, a missing column and a row of another
    length.
    """
    try:
        rows = list(csv.reader(io.StringIO(text(path, content(path)))))
    except csv.Error:
        raise InvalidInput(
            f"{path.name} is no CSV file.", next_step="Give the CSV file itself, unpacked."
        ) from None
    header = rows[0] if rows else []
    indices = column_places(path, header, columns)
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InvalidInput(
                f"Line {line} of {path.name} has {len(row)} values; its header has {len(header)}.",
                next_step="Fetch the file again.",
            )
    return {
        name: [row[index] for row in rows[1:]] for name, index in zip(columns, indices, strict=True)
    }


def column_places(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return where each column stands in the header, or refuse the file and name what it lacks."""
    missing = [name for name in columns if name not in header]
    if missing:
        raise InvalidInput(
            f"{path.name} has no column {missing[0]}.",
            f"It lacks {len(missing)} of the {len(columns)} columns that are read.",
            "Check that this is the right file.",
        )
    return [header.index(name) for name in columns]


def numbers(path: Path, column: str, values: Sequence[str]) -> FloatArray:
    """Return a column as float64, or refuse the first value that is no finite number, by line."""
    try:
        parsed = np.array(values, np.float64)
    except ValueError:
        parsed = np.array([_number(value) for value in values])
    wrong = np.flatnonzero(~np.isfinite(parsed))
    if wrong.size:
        raise InvalidInput(
            f"Line {wrong[0] + 2} of {path.name}, column {column}, is no finite number.",
            next_step="Fetch the file again.",
        )
    return parsed


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")
