"""IDX files: arrays of bytes with their sizes in front, plain or gzipped.

Source of the format: LeCun, Cortes and Burges, *The MNIST database of handwritten digits*.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from math import prod
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from . import files
from .published import require_published_counts, require_published_file

_UNSIGNED_BYTE: Final = 0x08
_SIDE: Final = 28


def images_and_labels(
    folder: Path, stem: str, highest: int, publisher: str, of: str
) -> tuple[Float32Array, IntArray]:
    """Return images (records, 1, 28, 28) in [0, 1] and labels (records,) from 0 to `highest`.

    The files are `{stem}-images` and `{stem}-labels`; `publisher` names the data, for messages, and
    `of` says which of its records they are (`.published`).  Raises `InvalidInput` for a missing,
    truncated or wrong file, and for another than is published.
    """
    image_file, images = _idx(folder, f"{stem}-images", 3, publisher)
    label_file, labels = _idx(folder, f"{stem}-labels", 1, publisher)
    if images.shape[1:] != (_SIDE, _SIDE) or len(images) != len(labels):
        raise InvalidInput(
            f"{image_file} holds {images.shape} and {label_file} {labels.shape} values.",
            f"{publisher} has {_SIDE} x {_SIDE} pixels per record, and one label.",
            "Fetch the files again.",
        )
    if labels.size and labels.max() > highest:
        raise InvalidInput(
            f"{label_file} has a label above {highest}.", next_step="Fetch the file again."
        )
    require_published_counts(publisher.lower(), label_file, of, labels.astype(np.int64))
    pixels = images[:, None].astype(np.float32)
    pixels /= 255.0
    return pixels, labels.astype(np.int64)


def _idx(folder: Path, stem: str, dimensions: int, publisher: str) -> tuple[str, NDArray[np.uint8]]:
    """Return the name and the array of an IDX file: 0, 0, type, dimensions, sizes, then bytes."""
    name, opened = _opened(folder, stem, dimensions, publisher)
    head = 4 + 4 * dimensions
    raw = _piece(name, opened, head)
    if len(raw) < head or raw[:4] != bytes((0, 0, _UNSIGNED_BYTE, dimensions)):
        raise InvalidInput(
            f"{name} is no IDX file of bytes in {dimensions} dimensions.",
            next_step=f"Give {publisher}'s own files.",
        )
    shape = struct.unpack(f">{dimensions}I", raw[4:head])
    announced = prod(shape)
    # One byte more than is announced tells that there are more, however many are packed.
    values = _piece(name, opened, announced + 1) if announced <= files.MAX_DATA_BYTES else b""
    if len(values) != announced:
        held = "more" if len(values) > announced else f"{len(values)}"
        raise InvalidInput(
            f"{name} is truncated or too long: it announces {announced} bytes and has {held}.",
            next_step="Fetch the file again.",
        )
    return name, np.frombuffer(values, np.uint8).reshape(shape)


def _opened(folder: Path, stem: str, dimensions: int, publisher: str) -> tuple[str, BinaryIO]:
    """Return the name of an IDX file, and its bytes to be read, unpacked as they are."""
    plain = f"{stem}-idx{dimensions}-ubyte"
    for name in (plain, f"{stem}.idx{dimensions}-ubyte", f"{plain}.gz"):
        if (folder / name).is_file():
            break
    content = files.content(folder / name)
    require_published_file(publisher.lower(), folder / name, content)
    raw = io.BytesIO(content)
    return name, cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if name.endswith(".gz") else raw


def _piece(name: str, opened: BinaryIO, size: int) -> bytes:
    """Return the next bytes of a file, `size` of them where it has so many."""
    try:
        return opened.read(size)
    except (OSError, EOFError, zlib.error):
        raise InvalidInput(
            f"{name} is truncated or no gzip file.", next_step="Fetch the file again."
        ) from None
