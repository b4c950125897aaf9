"""Which correlated noise a schedule of cohorts allows, and what is gained by it.

The strategy is the Toeplitz matrix C whose coefficients are those of (1 - x)^(-1/2), cut off after
b bands and rounded down to multiples of 2^-8:

    c_0 = 1,   c_k = c_(k-1) (2k - 1) / (2k)

Its square, without the cut, is the matrix of prefix sums; what a model adds up are prefix sums of
the noisy rounds, so both factors of their noise, the sensitivity of C and the norm of A C^-1, are
then small (A of ones on and below the diagonal).  `error_ratio` says how the prefix sums' noise
compares with that of independent rounds at the same epsilon, C_run having a block C for each block
of rounds, and a unit contributing in m of the T rounds:

    sqrt(blocks) sens(C) |A C_run^-1|_F  /  (sqrt(m) |A|_F),      m = ceil(T / cohorts)

Independent rounds of everybody need sqrt(T / m) times as much noise, on a sum that is divided by
`cohorts` times as many units.

Sources: Fichtenberger, Henzinger and Upadhyay 2023, arXiv 2202.11205 (the square root);
Choquette-Choo and others 2023, arXiv 2306.08153 (bands at most the separation).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .. import validate
from ..arrays import FloatArray
from ..errors import InvalidInput
from ..mechanisms.banded_gaussian import COEFFICIENT_BITS

MAX_ROUNDS_COMPARED: Final = 10_000
"""Most rounds of a run for which errors are computed."""


def banded_coefficients(bands: int) -> tuple[float, ...]:
    """Return the coefficients of `bands` bands: multiples of 2^-8, falling from 1.

    Range: `bands` 1 or above.  Raises `InvalidInput` where further ones would be 0.

    >>> banded_coefficients(4)
    (1.0, 0.5, 0.375, 0.3125)
    """
    steps = 2**COEFFICIENT_BITS
    exact, coefficients = 1.0, [1.0]
    for lag in range(1, validate.count(bands=bands)):
        exact *= (2 * lag - 1) / (2 * lag)
        # Rounded down, so that coefficients fall, and the sensitivity is known exactly.
        coefficients.append(math.floor(exact * steps) / steps)
        if not coefficients[-1]:
            raise InvalidInput(
                f"`bands` must be at most {lag:,}; it is {bands:,}.",
                "Coefficients of more bands are below 2^-8, and would be 0.",
                "Give fewer bands.",
            )
    return tuple(coefficients)


def error_ratio(rounds: int, bands: int, cohorts: int, blocks: int = 1) -> float:
    """Return the error of prefix sums under banded noise over that of independent noise.

    Root mean squares over the `rounds` of a run at the same epsilon, where every unit takes part in
    each `cohorts`-th round, and is paid for in each of the `blocks`.  Below 1 something is gained.
    With one cohort everybody takes part in every round; then sums over rounds meet in every row,
    and the sensitivity is the norm of C 1.

    Range: all 1 or above, `blocks` a divisor of `rounds`, which are at most 10,000, and `bands` at
    most the rounds of a block.  An estimate in floats that nothing is proven by.  Raises
    `InvalidInput`.

    >>> round(error_ratio(50, 10, 10), 3), error_ratio(50, 10, 1) >= 1.0
    (0.47, True)
    """
    steps = validate.count(rounds=rounds)
    length, rest = divmod(steps, validate.count(blocks=blocks))
    if steps > MAX_ROUNDS_COMPARED or rest or validate.count(bands=bands) > length:
        raise InvalidInput(
            f"`bands` must be at most the rounds of a block, of which `rounds` has a whole number, "
            f"and those at most {MAX_ROUNDS_COMPARED:,}; they are {bands:,}, {blocks:,} blocks and "
            f"{steps:,}.",
            next_step="Give fewer of them.",
        )
    coefficients = np.zeros(length)
    coefficients[:bands] = banded_coefficients(bands)
    separation = validate.count(cohorts=cohorts)
    # A unit of the first cohort, whose contributions all point the same way, moves C x most where
    # coefficients are not negative.
    taking_part = np.zeros(length)
    taking_part[::separation] = 1.0
    moved = np.convolve(coefficients, taking_part)[:length]
    # The event of every block has that, whichever cohort begins it.
    paid = math.sqrt(blocks * float(moved @ moved))
    times = -(-steps // separation)
    alone = math.sqrt(times) * _prefix_error(np.eye(1, steps)[0], 1)
    return paid * _prefix_error(coefficients, blocks) / alone


def error_ratio_to_everybody(rounds: int, bands: int, cohorts: int, blocks: int = 1) -> float:
    """Return `error_ratio` to independent rounds in which everybody takes part.

    At the same epsilon, of the means that a model adds up: a sum over everybody is divided by
    `cohorts` times as much.  Range and errors as there.

    >>> round(error_ratio_to_everybody(50, 10, 10), 2)
    1.49
    """
    ratio = error_ratio(rounds, bands, cohorts, blocks)
    return ratio * cohorts * math.sqrt(-(-rounds // cohorts) / rounds)


def _prefix_error(coefficients: FloatArray, blocks: int) -> float:
    """Return |A C^-1|_F for blocks of a Toeplitz C given by its first column, (rounds,)."""
    length = len(coefficients)
    bands = int(np.flatnonzero(coefficients)[-1])
    inverse = np.zeros(length)
    inverse[0] = 1.0 / coefficients[0]
    for row in range(1, length):
        lags = min(row, bands)
        last = inverse[row - lags : row][::-1]
        inverse[row] = -float(coefficients[1 : lags + 1] @ last) / coefficients[0]
    summed = np.cumsum(inverse)  # the first column of A C^-1, which is Toeplitz
    within = float(np.arange(length, 0, -1) @ summed**2)
    # What the noise of a block adds up to stays in every prefix sum behind the block.
    behind = length * blocks * (blocks - 1) // 2 * float(summed @ summed)
    return math.sqrt(blocks * within + behind)
