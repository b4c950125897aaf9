"""MNIST: handwritten digits, 28 x 28, from the four IDX files, plain or gzipped.

The publisher's split: 60,000 training and 10,000 test records.  Features are (records, 1, 28, 28)
in [0, 1].

Source of the format: LeCun, Cortes and Burges, *The MNIST database of handwritten digits*.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from ..data.normalise import Scaling
from . import files
from .dataset import Dataset

_STEMS: Final = {"train": "train", "test": "t10k"}
_UNSIGNED_BYTE: Final = 0x08
_SIDE: Final = 28

SCALING: Final = Scaling(
    lower=0.0,
    upper=1.0,
    mean=0.1307,
    scale=0.3081,
    source="the mean and deviation of MNIST's training set, as published (PyTorch's examples)",
)


def read(path: str | Path | None, rng: Generator) -> Dataset:  # noqa: ARG001
    """Return the data set from a folder with the four IDX files; needs no `rng`.

    Raises `InvalidInput` for a missing, truncated or wrong file.
    """
    listed = [f"{stem}-{kind}[.gz]" for stem in _STEMS.values() for kind in ("images", "labels")]
    folder = files.folder("mnist", path, listed)
    features, labels = _part(folder, _STEMS["train"])
    test_features, test_labels = _part(folder, _STEMS["test"])
    return Dataset(
        name="mnist",
        task="multiclass",
        classes=10,
        features=features,
        labels=labels,
        test_features=test_features,
        test_labels=test_labels,
        scaling=SCALING,
        split="the publisher's",
        licence="CC BY-SA 3.0",
        citation=(
            "LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document"
            " recognition, Proceedings of the IEEE 86(11)"
        ),
    )


def _part(folder: Path, stem: str) -> tuple[Float32Array, IntArray]:
    image_file, images = _idx(folder, f"{stem}-images", 3)
    label_file, labels = _idx(folder, f"{stem}-labels", 1)
    if images.shape[1:] != (_SIDE, _SIDE) or len(images) != len(labels):
        raise InvalidInput(
            f"{image_file} holds {images.shape} and {label_file} {labels.shape} values.",
            f"MNIST has {_SIDE} x {_SIDE} pixels per record, and one label.",
            "Fetch the files again.",
        )
    if labels.size and labels.max() > 9:
        raise InvalidInput(f"{label_file} has a label above 9.", next_step="Fetch the file again.")
    pixels = images[:, None].astype(np.float32)
    pixels /= 255.0
    return pixels, labels.astype(np.int64)


def _idx(folder: Path, stem: str, dimensions: int) -> tuple[str, NDArray[np.uint8]]:
    """Return the name and the array of an IDX file: 0, 0, type, dimensions, sizes, then bytes."""
    name, raw = _unpacked(folder, stem, dimensions)
    head = 4 + 4 * dimensions
    if len(raw) < head or raw[:4] != bytes((0, 0, _UNSIGNED_BYTE, dimensions)):
        raise InvalidInput(
            f"{name} is no IDX file of bytes in {dimensions} dimensions.",
            next_step="Give MNIST's own files.",
        )
    shape = struct.unpack(f">{dimensions}I", raw[4:head])
    if len(raw) - head != prod(shape):
        raise InvalidInput(
            f"{name} is truncated or too long: it announces {prod(shape)} bytes and has"
            f" {len(raw) - head}.",
            next_step="Fetch the file again.",
        )
    return name, np.frombuffer(raw, np.uint8, offset=head).reshape(shape)


def _unpacked(folder: Path, stem: str, dimensions: int) -> tuple[str, bytes]:
    plain = f"{stem}-idx{dimensions}-ubyte"
    for name in (plain, f"{stem}.idx{dimensions}-ubyte", f"{plain}.gz"):
        if (folder / name).is_file():
            break
    raw = files.content(folder / name)
    if not name.endswith(".gz"):
        return name, raw
    try:
        return name, gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        raise InvalidInput(
            f"{name} is truncated or no gzip file.", next_step="Fetch the file again."
        ) from None
