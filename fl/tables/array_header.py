"""Headers of arrays in .npz files: what they declare, and whether it can be read.

Names, types and shapes are public, but for how many rows there are and how wide texts are: NumPy
makes each text as wide as the longest one.  So no message states either.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

MOST_ARRAY_ROWS: Final = 2**31
"""Most rows of an array: a file that declares more is none but a bomb."""

_MOST_HEADER_BYTES: Final = 2**12
_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LARGEST_NUMBER_BYTES: Final = 8

_READERS: Final = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

NO_ARRAY: Final = "which is no array"
OBJECTS: Final = "of objects, which are never unpickled"


class Unreadable(ValueError):
    """An array cannot be read, as its header alone says."""


@dataclass(frozen=True)
class ArrayHeader:
    """What the header of an array declares; `start` is how many bytes of its file come before."""

    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_rows: bool
    start: int

    @property
    def row_numbers(self) -> int:
        """How many numbers a row has."""
        return math.prod(self.shape[1:])

    @property
    def size(self) -> int:
        """How many bytes all cells have."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def holds_texts(self) -> bool:
        """Whether cells are texts or bytes."""
        return self.dtype.kind in "US"

    @property
    def holds_numbers(self) -> bool:
        """Whether cells are numbers or truths of a type that is read."""
        return self.dtype.kind in "biuf" and self.dtype.itemsize <= _LARGEST_NUMBER_BYTES

    @property
    def holds_whole_numbers(self) -> bool:
        """Whether cells are whole numbers."""
        return self.dtype.kind in "iu"


def header_in(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> ArrayHeader:
    """Return what an array declares; raises `Unreadable` for what no array that is read does."""
    if info.compress_type not in _PACKED:
        raise Unreadable("packed as numpy.savez packs none")
    try:
        with packed.open(info) as file:
            version = np.lib.format.read_magic(file)
            shape, by_columns, dtype = _READERS[version](file, max_header_size=_MOST_HEADER_BYTES)
            start = file.tell()
    except (ValueError, KeyError, TypeError, SyntaxError, tokenize.TokenError, OverflowError):
        raise Unreadable(NO_ARRAY) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise Unreadable("that is damaged") from None
    if dtype.hasobject:
        raise Unreadable(OBJECTS)
    if dtype.names is not None or dtype.subdtype is not None:
        raise Unreadable("of a type that is not read")
    if min(shape, default=0) < 0 or 0 in shape[1:]:
        raise Unreadable("whose rows hold no numbers")
    header = ArrayHeader(info.filename, shape, dtype, not by_columns or len(shape) < 2, start)
    if start + header.size != info.file_size:
        raise Unreadable("of another size than it declares")
    return header
