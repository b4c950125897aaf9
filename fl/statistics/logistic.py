"""Logistic and softmax regression of degree 2, from released statistics.

At z = 0 the loss log(sum_j e^z_j) - z_y is, to the second degree and for scores that sum to 0,

    log c  -  z . (e_y - 1/c)  +  |z|^2 / (2 c)

whose sum over the rows needs X^T X and X^T Y alone; its least point is c times that of ridge
regression on centred one-hot labels, so both decide alike.  Of two classes the log odds are
z_1 - z_0 = 4 x G^-1 X^T (y - 1/2), the usual logistic regression of degree 2.  Derived here.
"""

from __future__ import annotations

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported
from .ridge import RIDGE, ClassWeight, Ridge, ridge_weights
from .statistics import ReleasedStatistics


def logistic_weights(
    released: ReleasedStatistics,
    *,
    ridge: Ridge = RIDGE,
    components: int = 0,
    class_weight: ClassWeight = None,
) -> FloatArray:
    """Return the weights W (d, c) of scores z W, as `ridge_weights` does, times c.

    Raises `Unsupported` for labels that are numbers.
    """
    if released.bound.classes < 2:
        raise Unsupported(
            "Logistic regression needs classes; these statistics have none.",
            "Their labels are numbers, or were not released.",
            "Release with `classes`, or fit a ridge regression.",
        )
    weights = ridge_weights(released, ridge=ridge, components=components, class_weight=class_weight)
    return released.bound.classes * weights


def probabilities(scores: FloatArray) -> FloatArray:
    """Return the softmax of scores (n, c): rows of numbers above 0 that sum to 1.

    >>> probabilities(np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def classes_of(scores: FloatArray) -> IntArray:
    """Return the class with the largest score of each row, (n,)."""
    return np.asarray(scores.argmax(axis=1), np.int64)
