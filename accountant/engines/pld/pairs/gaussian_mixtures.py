"""The dominating pair of a sum with Gaussian noise to which a unit contributes a random amount.

With probability w_i the unit moves the sum by a vector of norm at most c_i, whatever it depends on
besides, and independently of what the others contribute.  Write B for the release without the unit,
given the others' amounts, and G_i(b) for the largest mass that a Gaussian moved by c_i can have on
a test with B-mass b.  The argument of groups.py holds for any weights:

**Add-remove and zero-out.**  P(test) lies between sum of w_i (1 - G_i(1 - b)) and sum of w_i
G_i(b), which one half line attains at once where all amounts point the same way.  So sum_i w_i
N(c_i) against N(0) is the worst pair at every order, in both directions, vectors included.

**Replace-one**, where the old and the new unit both contribute by this distribution: likewise
sum_i w_i N(c_i) against sum_i w_i N(-c_i), its own mirror image.

Both are those of fixed data sets, so they bound from below as well.  Amounts that are moved up, or
probability that is moved to larger amounts, only raise the bound.

Source: derived here; the first pair is that of Choquette-Choo, Ganesh, Steinke, Thakurta 2023,
arXiv 2310.15526 (mixtures of Gaussians, vectors included).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from .... import events as ev
from ....arrays import FloatArray
from ....errors import Unsupported
from ....events.contributions import distribution
from ....guarantee import Neighbours, Step
from .binomial import ShiftedGaussian
from .binomial_mixtures import BinomialLoss
from .groups import group_pair
from .outcomes import worst_pair
from .registry import MIN_NOISE_MULTIPLIER, MIN_SAMPLING_RATE, DominatedMechanism, pairs

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


@pairs.register(ev.GaussianMixture)
def _gaussian_mixture(event: ev.GaussianMixture, neighbours: Neighbours) -> DominatedMechanism:
    shifts = ListedGaussianShifts.of(event)
    if not MIN_NOISE_MULTIPLIER <= shifts.scale <= 1.0 / MIN_NOISE_MULTIPLIER:
        raise Unsupported(
            f"The pld engine takes noise from {MIN_NOISE_MULTIPLIER:g} to "
            f"{1 / MIN_NOISE_MULTIPLIER:g} times the largest contribution.",
            next_step="Check the units of the noise and of the contributions.",
        )
    moving = sum(w for c, w in zip(shifts.amounts, shifts.weights, strict=True) if c > 0.0)
    if moving < MIN_SAMPLING_RATE:
        return worst_pair(0.0, 1.0, moving)
    replaced = neighbours == "replace-one"
    pair = group_pair(BinomialLoss(shifts, shifts if replaced else None))
    return DominatedMechanism.of(pair, [pair], replaced, (_step(event, neighbours),))


def _step(event: ev.GaussianMixture, neighbours: Neighbours) -> Step:
    other = (
        "sum_i w_i N(-c_i), its mirror image"
        if neighbours == "replace-one"
        else "N(0), and the reverse"
    )
    return Step(
        "mechanism",
        f"Pair sum_i w_i N(c_i) against {other}; Gaussian noise of multiplier "
        f"{event.noise_multiplier:g}, {len(event.contributions):,} contributions c_i of up to "
        f"{max(event.contributions):g} bounds, w_i their probabilities.",
        "derived in engines/pld/pairs/gaussian_mixtures.py; Choquette-Choo, Ganesh, Steinke, "
        "Thakurta 2023, arXiv 2310.15526",
        (
            "what a unit contributes is drawn afresh in each release, and not seen",
            "attained where all contributions point the same way",
            f"neighbours: {neighbours}",
        ),
    )
