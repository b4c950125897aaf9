"""Splits: choose test records where a data set comes without a choice.  Public set-up."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...accountant.arrays import IntArray


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
