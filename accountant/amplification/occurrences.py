"""How often a unit is drawn with replacement: binomial numbers, grouped where they are many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray

MAX_LISTED: Final = 24
"""Most numbers of occurrences that are told apart."""

TAIL_PROBABILITY: Final = 1e-22
"""Numbers that are less likely than this together are not listed."""

WEIGHT_ERROR: Final = 1e-9
"""By this share every probability is raised: more than the error of a binomial one."""


@dataclass(frozen=True)
class OccurrenceCounts:
    """Numbers of occurrences, ascending from 1 or above, with their probabilities, raised.

    A number stands for those below it, down to the one before, too: a unit that is drawn more
    often is no better hidden.  `absent` is the probability of none, `tail` bounds that of more
    than the last number.
    """

    numbers: FloatArray
    weights: FloatArray
    absent: float
    tail: float

    @classmethod
    def of(cls, batch: int, population: int) -> OccurrenceCounts:
        """Return the numbers for `batch` draws from a population of 2 or more."""
        from scipy.stats import binom

        rate, most, first = 1.0 / population, batch, 1
        if batch > MAX_LISTED:
            reach = batch * rate + 20.0 * math.sqrt(batch * rate) + 60.0
            around = np.arange(min(batch, math.ceil(reach)) + 1)
            most = int(np.argmax(binom.sf(around, batch, rate) <= TAIL_PROBABILITY)) or batch
            # What is rarer than that from below counts as the first number that is listed.
            first = max(int(np.argmax(binom.cdf(around, batch, rate) > TAIL_PROBABILITY)), 1)
        listed = np.linspace(first, most, min(most - first + 1, MAX_LISTED))
        edges = np.unique(listed.round()).astype(int)
        masses = np.array(
            [
                float(binom.pmf(np.arange(low + 1, high + 1), batch, rate).sum())
                for low, high in zip([0, *edges[:-1].tolist()], edges.tolist(), strict=True)
            ]
        )
        kept = masses > 0.0
        tail = float(binom.sf(most, batch, rate)) if most < batch else 0.0
        raised = np.minimum(masses[kept] * (1.0 + WEIGHT_ERROR), 1.0)
        return cls(
            edges[kept].astype(float),
            raised,
            math.exp(batch * math.log1p(-rate)),
            min(tail * (1.0 + WEIGHT_ERROR), 1.0),
        )

    @property
    def exact(self) -> bool:
        """Whether every listed number stands for itself alone."""
        return bool((np.diff(self.numbers, prepend=0.0) == 1.0).all())


def presence(batch: int, population: int) -> float:
    """Return the probability that a unit is drawn at all, 1 - (1 - 1/population)^batch.

    >>> round(presence(256, 60000), 6)
    0.004258
    """
    if population == 1:
        return 1.0
    return -math.expm1(batch * math.log1p(-1.0 / population))
