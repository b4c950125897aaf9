"""The weight of each user in each silo; a user's weights never sum to more than 1.

The sum of one user's weights is what the noise is made for, so it is 1 or below as a sum of
rational numbers, not only as a sum of floats: every weight is rounded down.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.records import Weights
from ...accountant.sensitivity.release import down

WEIGHTINGS: Final = ("uniform", "records")


def user_weights(rule: str, counts: ArrayLike) -> FloatArray:
    """Return w_su as a table (users, silos), from how many records each user has in each silo.

    - `uniform`: 1/|S| wherever a user has records, and 0 elsewhere, where it has no delta either.
    - `records`: n_su / N_u; private, as the counts are.

    A user without any record has weight 0 everywhere, so removing a user's records takes all of
    its weight away and changes nobody else's.  Raises `InvalidInput` for another rule and for
    counts that are no (users, silos) table of integers, 0 or above.

    >>> user_weights("records", [[1, 3], [0, 0]]).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    validate.choice(WEIGHTINGS, weighting=rule)
    table = _counts(counts)
    if rule == "uniform":
        return np.where(table > 0, uniform_weight(table.shape[1]), 0.0)
    return _quotients(table, np.maximum(table.sum(axis=1, keepdims=True), 1))


def uniform_weight(silos: int) -> float:
    """Return 1/|S|, rounded down."""
    return down(Fraction(1, validate.count(silos=silos)))


def checked_weights(weights: ArrayLike) -> FloatArray:
    """Return weights (users, silos); refuse a row whose exact sum is above 1, or a negative one.

    No rounding is forgiven: the sensitivity is C times the largest sum.  Raises `InvalidInput`,
    which names the row.
    """
    table = np.asarray(weights, np.float64)
    if table.ndim != 2:
        raise InvalidInput(
            f"Weights must be a table (users, silos); they have shape {table.shape}."
        )
    bad = np.flatnonzero(~((table >= 0.0) & np.isfinite(table)).all(axis=1))
    if bad.size:
        raise InvalidInput(
            f"The weights of user {bad[0]} are not all numbers, 0 or above.",
            "A weight that is negative or no number has no bound on its share of the sum.",
            "Give finite weights that are not negative.",
        )
    # Floats decide all sums but those near 1, which are few; those are added up as fractions.
    slack = (table.shape[1] + 1) * 2.0**-52
    for user in np.flatnonzero(table.sum(axis=1) > 1.0 - slack):
        if sum(map(Fraction, table[user].tolist())) > 1:
            raise InvalidInput(
                f"The weights of user {user} sum to more than 1.",
                "The user would move the sum by more than the clip that the noise is made for.",
                "Divide the user's weights by their sum, rounding down.",
            )
    return table


def stated(rule: str) -> Weights:
    """Return what the log says of the weights: the rule, and that no sum is above 1."""
    word = validate.choice(WEIGHTINGS, weighting=rule)
    return Weights("uniform" if word == "uniform" else "records", 1.0)


def _counts(counts: ArrayLike) -> IntArray:
    table = np.asarray(counts)
    if table.ndim != 2 or table.dtype.kind not in "iu" or (table.size and table.min() < 0):
        raise InvalidInput(
            "Counts must be a table (users, silos) of integers, 0 or above.",
            next_step="Give `Federation.counts`.",
        )
    return table.astype(np.int64)


def _quotients(numerators: IntArray, denominators: IntArray) -> FloatArray:
    """Return numerators / denominators, each at or below the exact quotient.

    A rounded quotient is exact where the reduced denominator is a power of two, and otherwise less
    than a unit in the last place too large.
    """
    rounded = numerators / denominators
    reduced = denominators // np.gcd(numerators, denominators)
    exact = (reduced & (reduced - 1)) == 0
    return np.where(exact, rounded, np.nextafter(rounded, 0.0))
