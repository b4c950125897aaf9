"""A number for each record that follows from what it holds, and from nothing else.

What is drawn for a record, or decides where it stands, must not depend on which others there are: a
position among them would.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant.arrays import Float32Array


def row_contents(features: Float32Array, labels: ArrayLike | None) -> NDArray[np.uint64]:
    """Return a number of 64 bits for each record: (records,).

    Records that hold the same have one number; two others share one once in 2^64 times.
    """
    # The width is written out, as -1 has no meaning where there are no records at all.
    flat = features.reshape(len(features), math.prod(features.shape[1:]))
    columns = [flat[:, index] for index in range(flat.shape[1])]
    if labels is not None:
        of_label = np.atleast_2d(np.asarray(labels).T).T.astype(np.float32)
        columns += [of_label[:, index] for index in range(of_label.shape[1])]
    # Sums of bits times odd numbers, modulo 2^64: no order of the records has a part in it.
    total = np.zeros(len(flat), np.uint64)
    for column, factor in zip(columns, _odd_numbers(len(columns)), strict=True):
        total += np.ascontiguousarray(column).view(np.uint32).astype(np.uint64) * factor
    return total


def _odd_numbers(count: int) -> NDArray[np.uint64]:
    """Return odd numbers of 64 bits that have nothing to do with each other, always the same."""
    digest = hashlib.shake_128(b"content").digest(8 * count)
    return np.frombuffer(digest, "<u8") | np.uint64(1)
