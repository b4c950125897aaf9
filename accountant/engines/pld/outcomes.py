"""Mechanisms with finitely many outcomes, and Poisson samples of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...arrays import FloatArray
from ...guarantee import Neighbours
from .atoms import AtomPair
from .pair import Pair


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A discrete mechanism: log probabilities of its outcomes with the unit's value at 0, +1, -1.

    0 stands for an absent unit or a zero contribution.
    """

    absent: FloatArray
    plus: FloatArray
    minus: FloatArray | None = None

    def pair(self, rate: float, neighbours: Neighbours, omitted_mass: float = 0.0) -> Pair:
        """Return the pair under Poisson sampling at `rate`."""
        if neighbours == "replace-one":
            if self.minus is None:
                raise AssertionError("an event with a bare epsilon is never sampled here")
            other = blend(rate, self.absent, self.minus)
        else:
            other = self.absent
        return Pair.of_outcomes(AtomPair(blend(rate, self.absent, self.plus), other, omitted_mass))


def blend(rate: float, absent: FloatArray, present: FloatArray) -> FloatArray:
    """Return log((1 - rate) e^absent + rate e^present)."""
    if rate == 1.0:
        return present
    return np.logaddexp(math.log1p(-rate) + absent, math.log(rate) + present)
