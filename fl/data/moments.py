"""Moments of private features that were released with noise, and features normalised by them.

What is released is one noisy vector.  Means and scales follow from it and from public ranges, so
they are a post-processing, as is every feature's place on the public test records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import Float32Array, FloatArray
from . import normalise
from .federation import Federation

_PREFIX: Final = "normalisation_"


@dataclass(frozen=True, eq=False)
class Moments:
    """What was released to normalise by, and what follows from it.

    `released` is the noisy sum, (2 d,) or (2 d + 1,); `lower` and `upper` are the public range that
    features are clipped to, `mean` and `scale` what they are centred and divided by: (d,).  All are
    float64.
    """

    released: FloatArray
    lower: FloatArray
    upper: FloatArray
    mean: FloatArray
    scale: FloatArray

    @property
    def content(self) -> bytes:
        """What was released, as little-endian bytes."""
        return np.ascontiguousarray(self.released, "<f8").tobytes()

    @property
    def digest(self) -> str:
        """SHA-256 of what was released, as the log names it."""
        return hashlib.sha256(self.content).hexdigest()

    def applied(self, federation: Federation) -> Federation:
        """Return the federation with its features normalised, those of the test records too."""
        return replace(
            federation,
            features=self._applied(federation.features),
            test_features=self._applied(federation.test_features),
        )

    def _applied(self, features: Float32Array) -> Float32Array:
        lower, upper, mean, scale = (
            constants.reshape(features.shape[1:])
            for constants in (self.lower, self.upper, self.mean, self.scale)
        )
        return normalise.apply(normalise.clip(features, lower, upper), mean, scale)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays that a file of a model holds with it, by name."""
        return {_PREFIX + item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of these arrays in a file."""
        return tuple(_PREFIX + item.name for item in fields(cls))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Return what a file holds; None where it holds none.

        Raises `ValueError` for arrays that are no moments, and `KeyError` where some are missing.
        """
        names = cls.names()
        if not any(name in arrays for name in names):
            return None
        vectors = [arrays[name] for name in names]
        if any(vector.dtype != np.float64 or vector.ndim != 1 for vector in vectors):
            raise ValueError
        return cls(*vectors)
