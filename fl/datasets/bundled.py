"""What scikit-learn brings along: data sets that need no file and no network."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput, MissingExtra

BUNDLED_TEST_SHARE: Final = 0.2


def bundled(name: str, function: str, path: str | Path | None) -> tuple[Float32Array, IntArray]:
    """Return features and labels of a data set of `sklearn.datasets`.

    Raises `InvalidInput` for a path, which would have no effect, and `MissingExtra` without
    scikit-learn.
    """
    if path is not None:
        raise InvalidInput(
            f"The data set {name} comes with scikit-learn and takes no `path`.",
            next_step="Leave `path` out.",
        )
    try:
        sets: Any = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise MissingExtra(
            f"The data set {name} needs scikit-learn, which is not installed.",
            "It is bundled with it.",
            "Install privplan with the extra `fl`.",
        ) from None
    features, labels = getattr(sets, function)(return_X_y=True)
    return np.asarray(features, np.float32), np.asarray(labels, np.int64)
