"""The record counts c_su that the private weighting protocol computes weights from.

A silo reduces its own record count n_su by a public rule, which uses no other silo's data:

    c_su = min(cap, ceil(n_su / records_per_count))

so that N_u = sum_s c_su + 1 never exceeds N_max, though nobody sees it.  The weights c_su / N_u are
not negative and sum to (N_u - 1) / N_u < 1, so adding or removing a user moves a weighted sum of
rows of norm C by less than C, whatever `records_per_count` is.  The dummy 1 keeps every N_u above
0, which blinding would not hide.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from ....accountant.arrays import FloatArray, IntArray
from ....accountant.errors import InvalidInput
from ....accountant.sensitivity.release import down
from .terms import WeightingTerms

DUMMY = 1
"""What is counted for every user, by silo 0, whether or not anybody has records of it."""


def reduced_counts(counts: ArrayLike, terms: WeightingTerms) -> IntArray:
    """Return c_su from record counts n_su, of any shape; each is computed from its own n_su alone.

    Raises `InvalidInput` for what is no table of integers, 0 or above.

    >>> terms = WeightingTerms(users=2, silos=3, dimensions=1, largest=1, tail=0)
    >>> reduced_counts([[1, 500, 0], [0, 0, 0]], terms).tolist()
    [[1, 13, 0], [0, 0, 0]]
    """
    try:
        table = np.asarray(counts)
    except ValueError:  # numpy's, of rows of different lengths
        table = np.empty(0)
    if table.dtype.kind not in "iu" or (table.size and table.min() < 0):
        raise InvalidInput(
            "Counts of records must be integers, 0 or above.",
            "Weights are made of them, and with others a user weighs more than the noise covers.",
            "Count the records again; `Federation.counts` has them. Nothing was sent.",
        )
    # ceil(n_su / records_per_count) in unsigned integers, which cannot overflow; then the cap.
    whole, rest = np.divmod(table.astype(np.uint64), np.uint64(terms.records_per_count))
    capped = np.minimum(whole + (rest > 0), np.uint64(terms.count_cap))
    return np.asarray(capped, dtype=np.int64)


def checked_shares(shares: ArrayLike, terms: WeightingTerms) -> IntArray:
    """Return one silo's reduced counts, (users,); refuse one that is negative or above the cap.

    Every silo does so with its own data before it sends anything, as nobody else can: what it sends
    is blinded.  Raises `InvalidInput`, which holds no count and no user.
    """
    try:
        counts = np.asarray(shares)
    except ValueError:  # numpy's, of rows of different lengths
        counts = np.empty(0)
    if counts.shape != (terms.users,) or counts.dtype.kind not in "iu":
        raise InvalidInput(
            f"A silo needs one integer count for each of {terms.users} users.",
            "The silos' counts are added up by user, blinded, where nobody sees a missing one.",
            "Count the silo's records again, and reduce the counts with `reduced_counts`; nothing "
            "was sent.",
        )
    if ((counts < 0) | (counts > terms.count_cap)).any():
        raise InvalidInput(
            f"A silo's count of a user must be at least 0 and at most {terms.count_cap}.",
            "With another, N_u could be 0 or exceed the limit, and the user would weigh more than "
            "the noise covers.",
            "Count the silo's records again, and reduce the counts with `reduced_counts`; nothing "
            "was sent.",
        )
    return counts.astype(np.int64)


def totals(reduced: IntArray) -> IntArray:
    """Return N_u of every user from the whole table (users, silos); for audits and tests.

    In the protocol nobody has this table.
    """
    return np.asarray(reduced.sum(axis=1) + DUMMY, dtype=np.int64)


def exact_weights(reduced: IntArray) -> list[list[Fraction]]:
    """Return w_su = c_su / N_u from the whole table (users, silos); for audits and tests."""
    return [
        [Fraction(int(count), int(total)) for count in row]
        for row, total in zip(reduced, totals(reduced), strict=True)
    ]


def rounded_weights(reduced: IntArray) -> FloatArray:
    """Return w_su as floats, none above its exact value: shape (users, silos)."""
    exact = exact_weights(reduced)
    return np.array([[down(weight) if weight else 0.0 for weight in row] for row in exact]).reshape(
        reduced.shape
    )
