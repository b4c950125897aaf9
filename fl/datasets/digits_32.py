"""Digits of 32 x 32 pixels: the bundled digits of 8 x 8, each pixel four times in both directions.

A public transformation of `digits`, for networks that need larger images.  Features are
(records, 1, 32, 32); the test records are those of `digits`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from numpy.random import Generator

from ...accountant.arrays import Float32Array
from . import digits
from .dataset import Dataset

SCALING: Final = digits.SCALING

_DIGIT_SIDE: Final = 8
_TIMES: Final = 4


def read(path: str | Path | None, rng: Generator) -> Dataset:
    """Return the data set; `rng` chooses the test records, and `path` must be None."""
    small = digits.read(path, rng)
    return replace(
        small,
        name="digits-32",
        features=enlarged(small.features),
        test_features=enlarged(small.test_features),
    )


def enlarged(features: Float32Array) -> Float32Array:
    """Return images of 8 x 8, (records, 64), as images (records, 1, 32, 32).

    >>> import numpy as np
    >>> enlarged(np.arange(64, dtype=np.float32)[None])[0, 0, ::4, 31].tolist()
    [7.0, 15.0, 23.0, 31.0, 39.0, 47.0, 55.0, 63.0]
    """
    images = features.reshape(-1, 1, _DIGIT_SIDE, _DIGIT_SIDE)
    return images.repeat(_TIMES, axis=2).repeat(_TIMES, axis=3)
