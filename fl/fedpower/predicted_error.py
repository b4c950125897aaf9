"""How well a noisy power iteration of T rounds is guessed to work, from public facts alone.

    rows        N of them, of norm R; a share g of their squares lies evenly on k directions, the
                rest evenly on the other d - k
    a, b        N R^2 g / k and N R^2 (1 - g) / (d - k), the eigenvalues of A^T A
    noise       of deviation v sqrt(T) on each number of a product: T rounds share the budget

A random iterate of r columns does not hold all k directions alike.  The shares that it holds are
those of a random matrix, c = (r / d) q^2, where q are the singular values of a Gaussian matrix
(k, r) in units of sqrt(r): here the k mid-quantiles of their limiting law (Marchenko and Pastur).
A product multiplies the part inside by a and the part outside by b, and adds noise to both:

    inside   a^2 c + r q^2 w^2,      outside   b^2 (1 - c) + (d - k) w^2,      w = v sqrt(T)
    f        inside / (inside + outside)
    next c   f + (1 - f) (r - k) / (d - k)

where the last line counts what the columns beyond k hold.  The error is the mean of 1 - f over the
k directions, in the last round.

**This is an estimate, and no guarantee.**  It takes eigenvalues as even, and noise
at its mean square.  It chooses a number of rounds, which every reader of the configuration can
compute again: no data are used, so the choice costs no privacy, however wrong the guess is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput

_STEPS: Final = 2**12
"""Steps of the integral of a density."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What is known of the data before anybody looks at them.

    - `dimension`: d; `rank`: k, below d; `columns`: r, from k to d.
    - `rows`: N, 1 or above; `signal`: g, a share in [0, 1).
    - `single_round_std`: v / R^2, the noise on each number of a product if there is one round, in
      units of the squared row norm.

    Raises `InvalidInput` for what is out of range.
    """

    dimension: int
    rank: int
    columns: int
    rows: int
    signal: float
    single_round_std: float

    def __post_init__(self) -> None:
        validate.count(dimension=self.dimension)
        validate.count(rank=self.rank)
        validate.count(columns=self.columns)
        validate.count(rows=self.rows)
        validate.positive(single_round_std=self.single_round_std)
        if not self.rank <= self.columns <= self.dimension:
            raise InvalidInput(
                f"`columns` must be from `rank` ({self.rank}) to `dimension` ({self.dimension}); "
                f"it is {self.columns}.",
                next_step="Ask for fewer directions.",
            )
        if not 0.0 <= self.signal < 1.0:
            raise InvalidInput(
                f"`signal` must be in [0, 1); it is {self.signal}.",
                next_step="Give the share that the wanted directions are guessed to have.",
            )


def predicted_error(facts: PublicFacts, rounds: int) -> float:
    """Return the guessed share of the wanted directions that is missed, 0 to 1; see the module.

    >>> facts = PublicFacts(dimension=50, rank=5, columns=5, rows=1000, signal=0.9,
    ...                     single_round_std=4.0)
    >>> round(predicted_error(facts, 1), 2), round(predicted_error(facts, 8), 4)
    (0.32, 0.0117)
    """
    count = validate.count(rounds=rounds)
    d, k, r = facts.dimension, facts.rank, facts.columns
    others = d - k
    if not others:
        return 0.0
    inside = facts.rows * facts.signal / k
    outside = facts.rows * (1.0 - facts.signal) / others
    variance = facts.single_round_std**2 * count
    squares = singular_squares(k, r)
    share, caught = np.minimum(squares * (r / d), 1.0), squares
    for _ in range(count):
        signal = inside**2 * share + r * squares * variance
        rest = outside**2 * (1.0 - share) + others * variance
        caught = signal / (signal + rest)
        share = caught + (1.0 - caught) * (r - k) / others
    return float(1.0 - caught.mean())


def singular_squares(rank: int, columns: int) -> FloatArray:
    """Return q^2, (k,), ascending, of mean 1: squares of a Gaussian matrix's singular values.

    They are mid-quantiles of the law of Marchenko and Pastur for k / r, whose density in q is
    proportional to sqrt((h^2 - q^2)(q^2 - l^2)) / q between l, h = 1 -+ sqrt(k / r).
    """
    spread = math.sqrt(rank / columns)
    low, high = 1.0 - spread, 1.0 + spread
    edges = np.linspace(low, high, _STEPS + 1)
    middle = (edges[1:] + edges[:-1]) / 2.0
    density = np.sqrt((high**2 - middle**2) * (middle**2 - low**2)) / middle
    below = np.concatenate([[0.0], np.cumsum(density)])
    quantiles = (np.arange(rank) + 0.5) / rank
    squares = np.interp(quantiles, below / below[-1], edges) ** 2
    return np.asarray(squares / squares.mean())


def chosen_rounds(facts: PublicFacts, most: int) -> int:
    """Return the number of rounds, 1 to `most`, of the least predicted error; the fewest of equals.

    >>> facts = PublicFacts(dimension=50, rank=5, columns=5, rows=1000, signal=0.9,
    ...                     single_round_std=4.0)
    >>> chosen_rounds(facts, 92)
    3
    """
    return min(
        range(1, validate.count(most=most) + 1),
        key=lambda rounds: (predicted_error(facts, rounds), rounds),
    )
