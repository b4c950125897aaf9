"""Tables of users' weights, and upper bounds on the sum of one user's weights."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import InvalidInput

FLOAT_EPSILON: Final = 2.0**-52


def weight_sum(weights: ArrayLike) -> float:
    """Return the largest sum of one user's weights, rounded up; refuse more than 1.

    `weights` is (users, silos), each 0 or above.  A sum may exceed 1 by rounding alone, by |S|
    units in the last place, and then is counted as it is.

    Raises `InvalidInput` for another shape, a weight that is negative or no number, and a sum
    above 1, naming the row.

    >>> weight_sum([[0.5, 0.5], [0.25, 0.25]]) >= 1.0
    True
    """
    table = table_of(weights)
    sums = row_sums(table)
    # Fractions that sum to 1 may come to a little more in floats: allowed, and counted as it is.
    too_large = np.flatnonzero(sums > 1.0 + table.shape[1] * FLOAT_EPSILON)
    if too_large.size:
        raise InvalidInput(
            f"The weights of user {too_large[0]} (a row of `weights`) sum to more than 1.",
            "A user then moves the sum by more than the clip C that the noise was made for.",
            "Divide each user's weights by their sum.",
        )
    return float(sums.max())


def row_sums(table: FloatArray) -> FloatArray:
    """Return the sum of each row, rounded up: the error of each addition is added up as well."""
    total, lost, error_size = np.zeros((3, len(table)))
    # Column by column, (users,): the running total, and exactly what each addition lost.
    for column in table.T:
        after = total + column
        rounded = after - total
        error = (total - (after - rounded)) + (column - rounded)  # exact (Knuth's two-sum)
        total, lost, error_size = after, lost + error, error_size + np.abs(error)
    # The lost parts were added up in floats as well: their rounding is bounded and added.
    lost = lost + (len(table.T) + 2) * FLOAT_EPSILON * error_size
    return np.where(lost > 0.0, np.nextafter(total + lost, np.inf), total)


def table_of(weights: ArrayLike) -> FloatArray:
    """Return weights as a table (users, silos); `InvalidInput` for what is none."""
    try:
        table = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidInput(
            "`weights` must be a table of numbers, one row per user and one column per silo.",
            next_step="Give an array of shape (users, silos).",
        )
    invalid = np.flatnonzero(~((table >= 0.0) & np.isfinite(table)).all(axis=1))
    if invalid.size:
        raise InvalidInput(
            f"The weights of user {invalid[0]} (a row of `weights`) are not all numbers, "
            "0 or above.",
            next_step="Give finite weights that are not negative.",
        )
    return table
