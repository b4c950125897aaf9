"""Breast cancer (Wisconsin, diagnostic): 569 samples, 30 features, bundled with scikit-learn.

Label 1 is benign, as in scikit-learn; 20% of each class are test records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator

from ..data.normalise import Scaling
from .bundled import BUNDLED_TEST_SHARE, bundled, stratified
from .dataset import Dataset, parted

# Ten measures of a nucleus, from radius to fractal dimension: mean, standard error, worst.
_RANGES: Final = (
    (6.981, 28.11), (9.71, 39.28), (43.79, 188.5), (143.5, 2501.0), (0.053, 0.163),
    (0.019, 0.345), (0.0, 0.427), (0.0, 0.201), (0.106, 0.304), (0.05, 0.097),
    (0.112, 2.873), (0.36, 4.885), (0.757, 21.98), (6.802, 542.2), (0.002, 0.031),
    (0.002, 0.135), (0.0, 0.396), (0.0, 0.053), (0.008, 0.079), (0.001, 0.03),
    (7.93, 36.04), (12.02, 49.54), (50.41, 251.2), (185.2, 4254.0), (0.071, 0.223),
    (0.027, 1.058), (0.0, 1.252), (0.0, 0.291), (0.156, 0.664), (0.055, 0.208),
)  # fmt: skip

_LOWER, _UPPER = np.array(_RANGES).T

SCALING: Final = Scaling(
    lower=_LOWER,
    upper=_UPPER,
    mean=(_LOWER + _UPPER) / 2.0,
    scale=(_UPPER - _LOWER) / 4.0,
    source=(
        "smallest and largest values as scikit-learn's description of this data set prints them,"
        " to [-2, 2]; a real run needs ranges that are known without its records"
    ),
)


def read(path: str | Path | None, rng: Generator) -> Dataset:
    """Return the data set; `rng` chooses the test records, and `path` must be None."""
    features, labels = bundled("breast-cancer", "load_breast_cancer", path)
    test = stratified(labels, BUNDLED_TEST_SHARE, rng)
    return Dataset(
        name="breast-cancer",
        task="binary",
        classes=2,
        **parted(test, features, labels),
        scaling=SCALING,
        split="20% of each class, chosen at random",
        licence="CC BY 4.0",
        citation=(
            "Wolberg, Mangasarian, Street, Street (1995), Breast Cancer Wisconsin (Diagnostic),"
            " UCI Machine Learning Repository, doi 10.24432/C5DW2B"
        ),
    )
