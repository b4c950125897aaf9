"""Digits: 1,797 handwritten digits, 8 x 8 pixels from 0 to 16, bundled with scikit-learn.

Features are (records, 64); 20% of each digit are test records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from numpy.random import Generator

from ..data.normalise import Scaling
from .bundled import BUNDLED_TEST_SHARE, bundled, stratified
from .dataset import Dataset, parted

SCALING: Final = Scaling(
    lower=0.0, upper=16.0, mean=0.0, scale=16.0, source="pixels from 0 to 16, to [0, 1]"
)


def read(path: str | Path | None, rng: Generator) -> Dataset:
    """Return the data set; `rng` chooses the test records, and `path` must be None."""
    features, labels = bundled("digits", "load_digits", path)
    test = stratified(labels, BUNDLED_TEST_SHARE, rng)
    return Dataset(
        name="digits",
        task="multiclass",
        classes=10,
        **parted(test, features, labels),
        scaling=SCALING,
        split="20% of each digit, chosen at random",
        licence="CC BY 4.0",
        citation=(
            "Alpaydin, Kaynak (1998), Optical Recognition of Handwritten Digits,"
            " UCI Machine Learning Repository, doi 10.24432/C50P49"
        ),
    )
