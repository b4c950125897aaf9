"""CIFAR-10: photographs of ten kinds of things, 32 x 32 in colour, from its binary version.

The publisher's split: 50,000 training records in five files and 10,000 test records.  Features are
(records, 3, 32, 32) in [0, 1].  The version for Python is made of pickles, which run whatever is
in them as they are read; it is never read.

Source: Krizhevsky 2009, *Learning multiple layers of features from tiny images*; of the format, its
page on the data: one byte of label, then 1,024 bytes each of red, green and blue, row by row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator

from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from ..data.normalise import Scaling
from . import files
from .dataset import Dataset
from .published import TEST, TRAIN, require_published_counts

TRAINING_FILES: Final = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE: Final = "test_batch.bin"

_CLASSES: Final = 10
_CIFAR_SIDE: Final = 32
_CHANNELS: Final = 3
_ROW: Final = 1 + _CHANNELS * _CIFAR_SIDE**2
"""Bytes of a record: its label and its pixels."""

SCALING: Final = Scaling(
    lower=0.0, upper=1.0, mean=0.0, scale=1.0, source="pixels from 0 to 255, to [0, 1]"
)


def read(path: str | Path | None, rng: Generator) -> Dataset:  # noqa: ARG001
    """Return the data set from a folder with the six binary files; needs no `rng`.

    Raises `InvalidInput` for a missing, truncated or wrong file, and for the version for Python.
    """
    folder = files.folder("cifar-10", path, [*TRAINING_FILES, TEST_FILE])
    parts = [_part(folder, name) for name in TRAINING_FILES]
    test_features, test_labels = _part(folder, TEST_FILE)
    labels = np.concatenate([labels for _, labels in parts])
    require_published_counts("cifar-10", "data_batch_1 to 5", TRAIN, labels)
    require_published_counts("cifar-10", TEST_FILE, TEST, test_labels)
    return Dataset(
        name="cifar-10",
        task="multiclass",
        classes=_CLASSES,
        features=np.concatenate([features for features, _ in parts]),
        labels=labels,
        test_features=test_features,
        test_labels=test_labels,
        scaling=SCALING,
        split="the publisher's",
        licence="none stated by the publisher",
        citation=(
            "Krizhevsky (2009), Learning multiple layers of features from tiny images,"
            " University of Toronto"
        ),
    )


def _part(folder: Path, name: str) -> tuple[Float32Array, IntArray]:
    pickled = folder / name.removesuffix(".bin")
    if not (folder / name).is_file() and pickled.is_file():
        raise InvalidInput(
            f"{folder} holds {pickled.name} and no {name}.",
            "That is the version for Python: pickles, which run what is in them when read.",
            "Fetch the binary version from the publisher, and give its folder.",
        )
    raw = np.frombuffer(files.content(folder / name), np.uint8)
    if not raw.size or raw.size % _ROW:
        raise InvalidInput(
            f"{name} is truncated or no file of CIFAR-10: it has {raw.size} bytes.",
            f"A record has {_ROW} bytes: a label, and 3 x 32 x 32 pixels.",
            "Fetch the file again: the binary version of CIFAR-10, unpacked.",
        )
    rows = raw.reshape(-1, _ROW)
    if rows[:, 0].max() >= _CLASSES:
        raise InvalidInput(
            f"{name} has a label above {_CLASSES - 1}.",
            "Labels of CIFAR-10 are from 0 to 9; CIFAR-100 has two of them in each record.",
            "Fetch the file again: the binary version of CIFAR-10, unpacked.",
        )
    pixels = rows[:, 1:].reshape(-1, _CHANNELS, _CIFAR_SIDE, _CIFAR_SIDE).astype(np.float32)
    pixels /= 255.0
    return pixels, rows[:, 0].astype(np.int64)
