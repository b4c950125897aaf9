"""Data sets that are installed with scikit-learn: they need no file and no network."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput, MissingExtra


def stratified(labels: IntArray, share: float, rng: Generator) -> NDArray[np.bool_]:
    """Return (records,) booleans, True for the test records: this share of each label, rounded.

    >>> chosen = stratified(np.array([0, 0, 0, 0, 1, 1]), 0.5, np.random.default_rng(0))
    >>> int(chosen[:4].sum()), int(chosen[4:].sum())
    (2, 1)
    """
    test = np.zeros(len(labels), np.bool_)
    for label in np.unique(labels):
        places = rng.permutation(np.flatnonzero(labels == label))
        test[places[: round(len(places) * share)]] = True
    return test


BUNDLED_TEST_SHARE: Final = 0.2
"""Share of the records that is held out as the test set."""


def bundled(name: str, function: str, path: str | Path | None) -> tuple[Float32Array, IntArray]:
    """Return features (records, ...) float32 and labels (records,) int64 of a bundled data set.

    `name` is our name of the data set, for messages; `function` that of its loader in
    `sklearn.datasets`.  Raises `InvalidInput` where a `path` is given, which would have no effect,
    and `MissingExtra` where scikit-learn is not installed.
    """
    if path is not None:
        raise InvalidInput(
            f"The data set {name} comes with scikit-learn and takes no `path`.",
            next_step="Leave `path` out.",
        )
    try:
        # Imported by name: scikit-learn is an extra, and has no types.
        sklearn_datasets: Any = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise MissingExtra(
            f"The data set {name} needs scikit-learn, which is not installed.",
            "It is bundled with it.",
            "Install privplan with the extra `fl`.",
        ) from None
    features, labels = getattr(sklearn_datasets, function)(return_X_y=True)
    return np.asarray(features, np.float32), np.asarray(labels, np.int64)
