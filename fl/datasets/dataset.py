"""A data set: training and test records, where they come from, and how they may be scaled."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...accountant.arrays import BoolArray, Float32Array, IntArray
from ..data.federation import Labels, Task, checked_features
from ..data.normalise import Scaling


def parted(
    test: BoolArray, features: Float32Array, labels: Labels, silo: IntArray | None = None
) -> dict[str, Any]:
    """Return the arrays of a `Dataset`, by whether a record is a test record, (records,)."""
    train = ~test
    arrays = {"features": features[train], "labels": labels[train]}
    arrays |= {"test_features": features[test], "test_labels": labels[test]}
    return arrays if silo is None else {**arrays, "silo": silo[train], "test_silo": silo[test]}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Dataset:
    """Training and test records of one data set.

    - `features`, `test_features`: (records, ...) float32.
    - `labels`, `test_labels`: (records,) int64, or (records, 2) [time, event] for `survival`.
    - `silo`, `test_silo`: (records,) int64, from 0 to `silos` - 1, where the data come from
      separate centres; else None, and `silos` is None.
    - `scaling`: public range, mean and scale of each feature; `normalisation` says in words what
      has been done to the features.
    - `split`: how test records were chosen; `licence` and `citation`: one line each.

    Raises `InvalidInput` for a feature that is NaN or infinite, named by row and column; labels
    and silos are checked where a `Federation` is made.
    """

    name: str
    task: Task
    classes: int
    features: Float32Array
    labels: Labels
    test_features: Float32Array
    test_labels: Labels
    silo: IntArray | None = None
    test_silo: IntArray | None = None
    silos: int | None = None
    scaling: Scaling
    normalisation: str = "none: features are as read"
    split: str
    licence: str
    citation: str

    def __post_init__(self) -> None:
        for field in ("features", "test_features"):
            object.__setattr__(self, field, checked_features(field, getattr(self, field)))

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.task}, classes={self.classes})"

    @property
    def records(self) -> int:
        """How many training records there are."""
        return len(self.features)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the arrays: name, shape and little-endian bytes of each, in a fixed order.

        It identifies what was trained on, to the bit.  The digest of private data is a fact about
        them: it belongs in a sealed record, never in a log that is published.
        """
        digest = hashlib.sha256()
        for field in ("features", "labels", "silo", "test_features", "test_labels", "test_silo"):
            value = getattr(self, field)
            if value is None:
                continue
            little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            digest.update(json.dumps([field, little.dtype.str, list(little.shape)]).encode())
            digest.update(little.data)
        return digest.hexdigest()
