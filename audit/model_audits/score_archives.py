"""Arrays of scores in `.npz` files, read by their headers first, so that none is larger than said.

An archive of a stranger may declare terabytes, unpack to more than it says, or hold objects, whose
reading would execute code.  So the header of every array is read before its cells, arrays that no
layout names are left alone, and what all of them take in memory is counted as numbers of 8 bytes,
since a truth of one byte becomes one.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.regular_file import open_regular
from ...fl.tables.array_header import ArrayHeader, Unreadable, header_in

MOST_BYTES: Final = 4 * 2**30
"""Most bytes that the arrays of an archive may take, each cell as a number of 8 bytes."""

CELL_BYTES: Final = 8

_SCORES: Final = ("logits", "loss", "phi", "labels")
_SIDES: Final = ("train", "test")

NAMES: Final = frozenset(
    (
        *_SCORES,
        *(f"population_{name}" for name in _SCORES),
        *(f"{name}_{side}" for name in ("logits", "loss", "labels") for side in _SIDES),
        *("membership", "target", "user", "group", "records", "coins"),
        *("signals", "memberships", "population_signals"),
    )
)
"""Names that a layout knows; all others are not read."""

Arrays = Mapping[str, NDArray[np.generic]]


def arrays_in(path: str | Path) -> Arrays:
    """Return the arrays of an archive that a layout of scores names; raises `InvalidInput`."""
    return archive_arrays(path, NAMES)


def archive_arrays(path: str | Path, names: Collection[str] | None = None) -> Arrays:
    """Return the arrays of an archive, none of them of objects; raises `InvalidInput`.

    Of `names` alone, where they are given: numbers and texts, which count as 8 bytes a cell.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as packed:
            headers = _headers(packed, path, names)
            return {name: _cells(packed, header) for name, header in headers.items()}
    except PrivplanError:
        raise
    except (OSError, EOFError, ValueError, RuntimeError, MemoryError) as error:
        raise _refused(path, type(error).__name__) from None
    except (zipfile.BadZipFile, zlib.error, struct.error):
        raise _refused(path, "it is damaged, or no archive") from None


def _headers(
    packed: zipfile.ZipFile, path: str | Path, names: Collection[str] | None
) -> dict[str, ArrayHeader]:
    """Return the headers of all named arrays, whose cells fit in memory together."""
    least = 0 if names is None else CELL_BYTES
    headers: dict[str, ArrayHeader] = {}
    for info in packed.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename or (names is not None and name not in names):
            continue
        if name in headers:
            raise InvalidInput(f"{path} has two arrays of the name `{name}`.")
        try:
            headers[name] = header = header_in(packed, info)
            if names is not None and not (header.holds_numbers or header.holds_texts):
                raise Unreadable("of a type that is not read")
        except Unreadable as why:
            raise InvalidInput(
                f"{path}: `{name}` is an array {why}.",
                "Archives of Python objects are not read: reading them would execute code.",
                "Save plain arrays by numpy.savez.",
            ) from None
    size = sum(max(math.prod(header.shape) * least, header.size) for header in headers.values())
    if size > MOST_BYTES:
        raise InvalidInput(
            f"{path} takes {size:,} bytes in memory, and the limit is {MOST_BYTES:,}.",
            next_step="Give phi or loss in place of logits, or fewer records.",
        )
    return headers


def _cells(packed: zipfile.ZipFile, header: ArrayHeader) -> NDArray[np.generic]:
    with packed.open(header.member) as file:
        cells: NDArray[np.generic] = np.lib.format.read_array(file, allow_pickle=False)
    return cells


def _refused(path: str | Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is no readable .npz archive of numbers: {why}.",
        "Archives of Python objects are not read: reading them would execute code.",
        "Save plain arrays by numpy.savez.",
    )
