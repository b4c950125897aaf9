"""What a unit contributes that has records in several silos: random joins, and sums of weights.

Where each silo joins at random there are two readings, by what is seen.

**The sum of all silos is all that is seen** (secure aggregation, one noise): a silo with
contribution c_s that joins with probability q_s adds a vector of norm at most c_s, so the unit
moves the sum by at most the sum of c_s over the silos that joined.  The silos join independently,
so that is a Gaussian mixture with the distribution of that sum: `unit_in_silos`.  With equal
contributions c and one rate q it is `Group(S, Poisson(q, Gaussian(noise / c)))`.  Norms add up
where all silos' contributions point the same way, which some data set does, so the bound is
attained.

**Each silo's message is seen, and whether there was one**: the silos' releases are independent, so
they compose, each as a release inside of a client that takes part with a known probability:
`Compose([ClientSampled(q_s, Gaussian(noise_s / c_s)) for each silo])`.

Neither covers silos that join together (all or none is a Poisson sample at that rate, with the
contributions added up), nor silos that join because of what they hold.

Source: derived here; engines/pld/pairs/gaussian_mixtures.py for the pair.

Where silos weight their users, the sum of one user's weights counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..errors import InvalidInput, Unsupported
from ..events.contributions import added, as_mixture


def unit_in_silos(
    noise_multiplier: float, contributions: Sequence[float], rates: Sequence[float]
) -> ev.GaussianMixture:
    """Return one release of a sum over silos that join independently, as one unit sees it.

    The unit contributes at most `contributions[s]` bounds (L2) through silo s, which joins with
    probability `rates[s]`; the noise has standard deviation `noise_multiplier` bounds.  Range:
    `noise_multiplier` above 0, contributions 0 or above, rates in [0, 1], one for each silo.  It
    holds under every relation: replace-one compares two units in the same silos.  Raises
    `Unsupported` where the sums take too many different values to list, `InvalidInput` for values
    out of range.
    Source: derived in accountant/sensitivity/silos.py; the pair is that of Choquette-Choo, Ganesh,
    Steinke and Thakurta 2023, arXiv 2310.15526.

    >>> unit_in_silos(2.0, [1.0, 0.5], [0.5, 0.25]).contributions
    (0.0, 0.5, 1.0, 1.5)
    """
    noise = validate.positive(noise_multiplier=noise_multiplier)
    if len(contributions) != len(rates) or not len(contributions):  # arrays, too
        raise InvalidInput(
            f"`rates` ({len(rates)}) must be as many as `contributions` ({len(contributions)}), "
            "and at least one.",
            next_step="Give the contribution and the rate of each silo.",
        )
    silos = []
    for index, (amount, rate) in enumerate(zip(contributions, rates, strict=True)):
        moved = validate.non_negative(**{f"contributions[{index}]": amount})
        joins = validate.probability(**{f"rates[{index}]": rate})
        moves = moved > 0.0 and joins > 0.0
        part = {0.0: 1.0 - joins, moved: joins} if moves else {0.0: 1.0}
        silos.append({amount: share for amount, share in part.items() if share > 0.0})
    return as_mixture(noise, added(silos))


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


def square_left(
    noise_multiplier: float, silos: int, without: int, tolerated_dropouts: int, weighting: str
) -> Fraction:
    """Return 1/mu^2 of the sum of all silos but `without`, whose records weigh up to C together.

    That is C for weights by records, and C (|S|-c)/|S| for uniform ones, where all others have some
    of the user, over the noise of the shares that are left.
    """
    validate.choice(("uniform", "records"), weighting=weighting)
    counted = silos - validate.count_from(0, tolerated_dropouts=tolerated_dropouts)
    if counted <= without:
        whose = "A silo that subtracts its share" if without == 1 else "Who subtracts some shares"
        raise Unsupported(
            f"{whose} of the noise may be left with none.",
            f"Of {silos} shares {tolerated_dropouts} may be missing, and {without} are known.",
            "Tolerate fewer dropouts.",
        )
    square = Fraction(validate.positive(noise_multiplier=noise_multiplier)) ** 2
    # Shares that are left over all shares that are counted on: the rest may be missing or known.
    square *= Fraction(counted - without, counted)
    return square * Fraction(silos, silos - without) ** 2 if weighting == "uniform" else square
