"""Files of arrays (`.npz`), read as a stranger's: bounded, and without running anything in them.

`numpy.savez` writes arrays one behind the other, none of them compressed.  Only such files are
read, so what a file may make a reader allocate is no more than the file itself.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...accountant.regular_file import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_ARRAYS: Final = 16

_ZIP_END: Final = struct.Struct("<4sHHHHIIH")
_MAX_LIST_BYTES: Final = 2**20
_KINDS: Final = frozenset("biuf")
"""Numbers alone: an array of objects would be a pickle."""


@contextmanager
def opened(path: Path, *, within: Path | None = None) -> Iterator[zipfile.ZipFile]:
    """Open a file of at most 16 arrays that are not compressed; raise `ValueError` for another.

    Raises `OSError` where it cannot be read, or is no regular file (`open_regular`).
    """
    with open_regular(path, within=within) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - _ZIP_END.size, 0))
        tail = file.read(_ZIP_END.size)
        # Read before the list of arrays is: a list may be as long as the file.
        end = _ZIP_END.unpack(tail) if len(tail) == _ZIP_END.size else (b"",)
        if end[0] != b"PK\5\6" or end[4] > MAX_ARRAYS or end[5] > _MAX_LIST_BYTES or end[7]:
            raise ValueError
        file.seek(0)
        try:
            archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError) as error:
            raise ValueError from error
        with archive:
            held = archive.infolist()
            if any(member.compress_type != zipfile.ZIP_STORED for member in held):
                raise ValueError
            # Stored members cannot be longer than the file: nothing is decompressed, so nothing
            # can swell.
            names = {member.filename for member in held}
            if sum(member.file_size for member in held) > size or len(names) != len(held):
                raise ValueError
            yield archive


def read(path: Path, limit: int, *, within: Path | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of numbers in a file of at most `limit` bytes, by name.

    Raises `ValueError` for a file that holds anything else, and `OSError` for one that cannot be
    read, or is no regular file.
    """
    with opened(path, within=within) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > limit:
            raise ValueError
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array whose header says how long it is."""
    import numpy as np

    try:
        with archive.open(member) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise ValueError
            shape, by_columns, kind = np.lib.format.read_array_header_1_0(file)
            left = member.file_size - file.tell()
            if kind.kind not in _KINDS or math.prod(shape) * kind.itemsize != left:
                raise ValueError
            numbers = np.frombuffer(file.read(left), kind)
    # Whatever a stranger's file makes the readers of zip and npy raise.
    except Exception as error:
        raise ValueError("this is no array of numbers") from error
    return numbers.reshape(shape, order="F" if by_columns else "C").copy()
