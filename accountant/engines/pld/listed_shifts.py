"""Gaussian noise that is shifted by one of a few listed amounts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...events.contributions import distribution
from .binomial import ShiftedGaussian

MIN_WEIGHT: Final = 1e-100
"""Weights are raised to this: what is less likely is never told apart from that."""

RELATIVE_WEIGHT_ERROR: Final = 1e-12
"""Relative error of the probabilities of a mixture: of those that add up to 1, and of sums."""

REST_ERROR: Final = 2.0**-50
"""Error of what is left of 1."""


@dataclass(frozen=True, eq=False)
class ListedGaussianShifts(ShiftedGaussian):
    """Gaussian noise of standard deviation `scale`, shifted by `amounts` with `weights`."""

    scale: float
    amounts: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, mixture: ev.GaussianMixture) -> ListedGaussianShifts:
        """Return the shifts of a mixture, in a unit near its largest one."""
        amounts = distribution(mixture)
        largest = max(amounts)
        unit = 2.0 ** math.frexp(largest)[1]  # a power of two: nothing is rounded
        return cls(
            mixture.noise_multiplier / unit,
            tuple(amount / unit for amount in amounts),
            tuple(max(weight, MIN_WEIGHT) for weight in amounts.values()),
        )

    @property
    def centres(self) -> FloatArray:
        """The amounts."""
        return np.asarray(self.amounts)

    @cached_property
    def log_weights(self) -> FloatArray:
        """The logarithms of the weights."""
        return np.asarray(np.log(np.asarray(self.weights)))

    @property
    def lowest(self) -> float:
        """The log weight of no shift at all, -inf where something always comes."""
        return float(self.log_weights[0]) if self.amounts[0] == 0.0 else -math.inf

    @property
    def lowest_error(self) -> float:
        """The relative error of the weight of no shift."""
        return self.weights_error if self.amounts[0] == 0.0 else 0.0

    @cached_property
    def weights_error(self) -> float:
        """The relative error of every weight, of what is left of 1 too."""
        rest = self.weights[0] if self.amounts[0] == 0.0 else 1.0
        return RELATIVE_WEIGHT_ERROR + min(REST_ERROR / rest, 1.0)
