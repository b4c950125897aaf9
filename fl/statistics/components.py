"""Principal components of released rows, and the statistics of rows that are projected on them.

The directions are the first eigenvectors of the Gram matrix of the features, without the intercept:
those of the largest mean square, not of the largest variance about the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from .statistics import ReleasedStatistics


@dataclass(frozen=True, eq=False)
class Components:
    """Directions of the features, (k, p), orthonormal, and the squares along each, (k,).

    `squares` are eigenvalues of the Gram matrix, cut at 0, in raw units: the sum over the rows of
    the squared projection.  `all_squares` is the sum of all p of them.
    """

    directions: FloatArray
    squares: FloatArray
    all_squares: float

    @property
    def ratio(self) -> FloatArray:
        """The share of all squares that is along each direction, (k,)."""
        return self.squares / self.all_squares if self.all_squares else np.zeros_like(self.squares)


def principal_components(released: ReleasedStatistics, count: int = 0) -> Components:
    """Return the first `count` components of the features; all p of them for 0.

    The sign of a direction is that in which its largest entry is positive.  Raises `InvalidInput`
    for more components than there are features.
    """
    features = released.features
    check_count(released, count)
    values, vectors = np.linalg.eigh(released.total[:features, :features])
    squares = np.maximum(values[::-1], 0.0) / released.scale**2  # the largest first
    kept = count or features
    directions = vectors.T[::-1][:kept]
    largest = np.abs(directions).argmax(axis=1)
    signs = np.where(directions[np.arange(len(directions)), largest] < 0, -1.0, 1.0)
    return Components(directions * signs[:, None], squares[:kept], float(squares.sum()))


def check_count(released: ReleasedStatistics, count: int) -> None:
    """Raise `InvalidInput` for more components than there are features; no value is looked at."""
    if validate.count_from(0, components=count) > released.features:
        raise InvalidInput(
            f"`components` must be at most {released.features}, the number of features; it is "
            f"{count}.",
            next_step="Give a lower number, or 0 for all.",
        )


def projection(released: ReleasedStatistics, count: int) -> FloatArray:
    """Return the matrix (d, k) that projects rows on components; the intercept stays as it is."""
    directions = principal_components(released, count).directions
    kept, features = directions.shape
    columns = kept + (released.bound.dimension - features)
    matrix = np.zeros((released.bound.dimension, columns))
    matrix[:features, :kept] = directions.T
    matrix[features:, kept:] = 1.0
    return matrix
