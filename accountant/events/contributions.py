"""Random contributions: the distribution behind a Gaussian mixture, sampled, added up, reduced.

Amounts are norms.  Where several independent contributions are added, the norm of the sum is at
most the sum of the norms, and a pair of mixtures only grows apart with its amounts, so the
distribution of the sum of norms bounds that of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from ..errors import Unsupported
from .base import Compose, Event
from .mechanisms import Gaussian, GaussianMixture
from .samplers import Poisson

TOTAL_TOLERANCE: Final = 1e-12
"""Probabilities whose sum is this close to 1 count as all there is: nothing is left for 0."""

MAX_CONTRIBUTIONS: Final = 4096
"""Most different amounts of one mixture that are listed."""

MAX_ADDED: Final = 4096
"""Most independent contributions that are added up."""

LEAST_LISTED_SHARE: Final = 1e-300
"""Less likely amounts are not listed."""

Distribution = dict[float, float]
"""From each amount of 0 or above to its probability above 0, ascending."""


def distribution(mixture: GaussianMixture) -> Distribution:
    """Return the amounts of a mixture with their probabilities, with 0 where something is left.

    >>> distribution(GaussianMixture(1.0, [2.0, 1.0, 2.0], [0.25, 0.25, 0.25]))
    {0.0: 0.25, 1.0: 0.25, 2.0: 0.5}
    """
    # Exact sums, so that what is left of 1 keeps its digits.
    summed: dict[float, Fraction] = {}
    for amount, share in zip(mixture.contributions, mixture.probabilities, strict=True):
        if share > 0.0:
            summed[amount] = summed.get(amount, Fraction(0)) + Fraction(share)
    total = sum(summed.values(), Fraction(0))
    if total < 1 - TOTAL_TOLERANCE:
        summed[0.0] = summed.get(0.0, Fraction(0)) + (1 - total)
        total = Fraction(1)
    return {amount: float(share / total) for amount, share in sorted(summed.items())}


def reduced(mixture: GaussianMixture) -> Event:
    """Return the simplest event with the meaning of a mixture; itself, if there is none.

    One amount that is certain is a Gaussian, one that is not a Poisson sample of a Gaussian.

    >>> reduced(GaussianMixture(1.0, [0.5], [0.25]))
    Poisson(rate=0.25, event=Gaussian(noise_multiplier=2.0))
    """
    amounts = distribution(mixture)
    moving = [amount for amount in amounts if amount > 0.0]
    if not moving:
        return Compose(())
    noise = _quotient_down(mixture.noise_multiplier, moving[-1])
    if len(moving) > 1 or not 1e-150 < noise < 1e150:
        return mixture
    rate = amounts[moving[0]]
    return Gaussian(noise) if rate == 1.0 else Poisson(rate, Gaussian(noise))


def sampled(rate: float, mixture: GaussianMixture) -> Event:
    """Return a mixture whose unit joins with a probability only: again a mixture.

    The products are rounded up: a unit that contributes more often is no better hidden.

    >>> sampled(0.5, GaussianMixture(1.0, [1.0, 2.0], [0.5, 0.25]))
    GaussianMixture(noise_multiplier=1.0, contributions=(1.0, 2.0), probabilities=(0.25, 0.125))
    """
    if rate == 1.0:
        return mixture
    amounts = distribution(mixture)
    amounts.pop(0.0, None)
    if rate == 0.0 or not amounts:
        return Compose(())
    shares = tuple(_product_up(rate, share) for share in amounts.values())
    return GaussianMixture(mixture.noise_multiplier, tuple(amounts), shares)


def several(size: int, mixture: GaussianMixture) -> GaussianMixture:
    """Return what `size` records contribute together, each by the same distribution.

    Raises `Unsupported` where that takes too many different amounts to list.

    >>> several(2, GaussianMixture(1.0, [1.0], [0.5])).contributions
    (0.0, 1.0, 2.0)
    """
    if size > MAX_ADDED:
        raise _too_many(f"{size:,} contributions")
    each = distribution(mixture)
    # By squares: the distributions of 1, 2, 4, ... records.
    total: Distribution = {0.0: 1.0}
    left = size
    while left:
        if left % 2:
            total = added((total, each))
        left //= 2
        if left:
            each = added((each, each))
    return as_mixture(mixture.noise_multiplier, total)


def added(parts: Iterable[Distribution]) -> Distribution:
    """Return the distribution of the sum of independent amounts.

    Raises `Unsupported` where that takes too many different amounts to list.
    """
    total: Distribution = {0.0: 1.0}
    for part in parts:
        sums: dict[float, list[float]] = {}
        for amount, share in total.items():
            for other, weight in part.items():
                sums.setdefault(amount + other, []).append(share * weight)
        total = {amount: math.fsum(terms) for amount, terms in sorted(sums.items())}
        # What is less likely than any float can tell counts with the largest amount.
        rare = [amount for amount, share in total.items() if share < LEAST_LISTED_SHARE]
        total[max(total)] += len(rare) * LEAST_LISTED_SHARE
        for amount in rare:
            if amount != max(total):
                del total[amount]
        if len(total) > MAX_CONTRIBUTIONS:
            raise _too_many("These contributions together")
    return total


def as_mixture(noise_multiplier: float, amounts: Distribution) -> GaussianMixture:
    """Return the mixture of these amounts, 0 among them, whose probabilities add up to 1."""
    return GaussianMixture(noise_multiplier, tuple(amounts), tuple(amounts.values()))


def _too_many(what: str) -> Unsupported:
    return Unsupported(
        f"{what} can add up to more than {MAX_CONTRIBUTIONS:,} different amounts.",
        next_step="Round the contributions up to multiples of one amount.",
    )


def _quotient_down(noise: float, amount: float) -> float:
    """Return noise / amount, rounded down: never too private."""
    quotient = noise / amount
    if math.isinf(quotient) or Fraction(quotient) * Fraction(amount) <= Fraction(noise):
        return quotient
    return math.nextafter(quotient, 0.0)


def _product_up(rate: float, share: float) -> float:
    product = rate * share
    if Fraction(product) >= Fraction(rate) * Fraction(share):
        return product
    return math.nextafter(product, 1.0)
