"""The directions that a finished run has found, from what it released: free post-processing."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from .settings import FedPowerSettings

DesignName = Literal["one-shot", "power"]

_DESIGNS: Final = ("one-shot", "power")


def design_of(table: FedPowerSettings, values: int, dimension: int) -> DesignName:
    """Return which design released so many numbers of data with so many columns.

    An iterate has d r numbers, and a Gram matrix d (d + 1) / 2; where both are one number
    (r = (d + 1) / 2) the table's `design` decides, and `auto` means `one-shot` there, as a run that
    has as few columns chooses it.  Raises `InvalidInput` for any other number.
    """
    gram, iterate = dimension * (dimension + 1) // 2, dimension * table.columns
    if values == gram == iterate:
        return "power" if table.design == "power" else "one-shot"
    if values in (gram, iterate):
        return "one-shot" if values == gram else "power"
    raise InvalidInput(
        f"A release has {values:,} numbers; of {dimension:,} columns it has {gram:,} or "
        f"{iterate:,}.",
        "A Gram matrix or an iterate was expected.",
        "Give what the run released, and the table that it was released by.",
    )


def directions(
    table: FedPowerSettings, design: str, released: FloatArray, dimension: int
) -> FloatArray:
    """Return the directions that were found: (d, k), orthonormal columns, the strongest first.

    - `design`: `one-shot` for a Gram matrix, whose eigenvectors of the largest eigenvalues they
      are; `power` for an iterate (d, r), whose first k columns span them.
    - `released`: the model of the run, (values,); `dimension`: d.

    In each column the largest entry is positive.  Raises `InvalidInput` for another number of
    values, and for what is not finite.
    """
    validate.choice(_DESIGNS, design=design)
    gram = design == "one-shot"
    values = dimension * (dimension + 1) // 2 if gram else dimension * table.columns
    _refuse_wrong_size(released, values)
    if gram:
        _, columns = _leading(released, dimension, table.rank)
    else:
        columns = np.linalg.qr(released.reshape(dimension, table.columns))[0][:, : table.rank]
    largest = np.abs(columns).argmax(axis=0)
    signs = np.where(columns[largest, np.arange(table.rank)] < 0.0, -1.0, 1.0)
    return np.asarray(columns * signs)


def singular_values(table: FedPowerSettings, released: FloatArray, dimension: int) -> FloatArray:
    """Return the singular values of the directions of a Gram release: (k,), the largest first.

        sigma_i = R sqrt(max(lambda_i, 0)),  lambda_i the eigenvalues of the release A^T A / R^2

    They are of the clipped rows A and the noise together, in units of the data, and noise tends
    to make the largest too large.  `released`: the model of the run, (d (d + 1) / 2,);
    `dimension`: d.
    An iterate tells none; those of the last noisy product are the state of its run.

    Raises `InvalidInput` for another number of values, and for what is not finite.
    """
    _refuse_wrong_size(released, dimension * (dimension + 1) // 2)
    values, _ = _leading(released, dimension, table.rank)
    return np.asarray(table.row_norm * np.sqrt(np.maximum(values, 0.0)))


def _refuse_wrong_size(released: FloatArray, values: int) -> None:
    if released.shape != (values,) or not np.isfinite(released).all():
        raise InvalidInput(
            f"`released` must be {values:,} finite numbers.",
            "A release of this design has so many.",
            "Give the model that the run released.",
        )


def _leading(triangle: FloatArray, dimension: int, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues (k,) of a matrix by its triangle, and eigenvectors (d, k)."""
    from scipy.linalg import eigh

    matrix = np.zeros((dimension, dimension))
    matrix[np.triu_indices(dimension)] = triangle
    # Of a symmetric matrix only the upper triangle is read.
    span = (dimension - count, dimension - 1)
    values, vectors = eigh(matrix, lower=False, subset_by_index=span, overwrite_a=True)
    return np.asarray(values[::-1]), np.asarray(vectors[:, ::-1])
