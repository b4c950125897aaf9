"""Gram releases to test with, and their sums by Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from privplan.accountant.mechanisms.gram_grid import grid_rows
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.sensitivity.gram import GramBound


def mechanism(dimension: int, classes: int = 0, **changed: Any) -> NoisyGram:
    """Return a release with a little noise; `changed` are fields of it or of its bound."""
    bound = {key: changed.pop(key) for key in ("rows", "trace", "by_class") if key in changed}
    gram = GramBound(dimension=dimension, classes=classes, **bound)
    bits = changed.pop("bits", 18)
    return NoisyGram(gram=gram, bits=bits, **{"std": 2.0 ** (38 - 2 * bits), **changed})


def python_sum(release: NoisyGram, features: Any, labels: Any, intercept: float) -> list[int]:
    """Return the sum of all rows, by Python's integers."""
    dense, _ = grid_rows(release, np.asarray(features), intercept=intercept)
    rows = dense.astype(np.int64).astype(object)
    gram, d = release.gram, release.gram.dimension
    matrices = [rows]
    if gram.by_class:
        matrices = [rows[np.asarray(labels) == label] for label in range(gram.classes)]
    upper = np.triu_indices(d)
    values = [value for each in matrices for value in (each.T.dot(each))[upper]]
    if gram.classes:
        integers = np.zeros((len(rows), gram.classes), object)
        for index, label in enumerate(np.asarray(labels).tolist()):
            if gram.classes == 1:
                integers[index, 0] = int(min(max(label, -1.0), 1.0) * 2**release.bits)
            elif label in range(gram.classes):
                integers[index] = [gram.classes * (j == label) - 1 for j in range(gram.classes)]
        values += list((rows.T.dot(integers)).reshape(-1))
    return [int(value) for value in values]
