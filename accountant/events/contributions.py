"""Random contributions: the distribution behind a Gaussian mixture, sampled, added up, reduced.

Amounts are norms.  Where several independent contributions are added, the norm of the sum is at
most the sum of the norms, and a pair of mixtures only grows apart with its amounts, so the
distribution of the sum of norms bounds that of the sum.

**From a list.**  Of k records each joins a sample with probability q, so their sum moves by j
bounds with probability C(k, j) q^j (1-q)^(k-j), and the release is N(j) with that weight, against
N(0) without them: a mixture with such weights is a group of records.
Source: Schuchardt, Stoian, Kosmala, Guennemann 2024, arXiv 2403.04867; Choquette-Choo, Ganesh,
Steinke, Thakurta 2023, arXiv 2310.15526 (mixtures of Gaussians).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from ...accountant import validate
from ..errors import InvalidInput, Unsupported, kind_of
from ..events import definitions as ev
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


MAX_LISTED_RECORDS: Final = 256
"""Most records of a group that is exchanged as a mixture: its weights are listed one by one."""

WEIGHT_TOLERANCE: Final = 1e-12
"""Relative difference between weights, and between moves, that rounding explains."""


def binomial_weights(size: int, rate: float) -> list[float]:
    """Return the probabilities that 0, 1, ..., `size` of the records join, each correctly rounded.

    >>> binomial_weights(2, 0.25)
    [0.5625, 0.375, 0.0625]
    """
    q = Fraction(rate)
    return [float(math.comb(size, j) * q**j * (1 - q) ** (size - j)) for j in range(size + 1)]


def from_mixture(deviation: object, moves: object, weights: object) -> ev.Event | str:
    """Return the group that a mixture of Gaussians is, or else that mixture, or why it is none.

    `deviation` is the standard deviation, `moves` the distances, `weights` their probabilities.
    Raises `InvalidInput` for what are no such lists.

    >>> from_mixture(2.0, [0.0, 1.0, 2.0], [0.5625, 0.375, 0.0625])
    Group(size=2, event=Poisson(rate=0.25, event=Gaussian(noise_multiplier=2.0)))
    >>> from_mixture(2.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25])
    GaussianMixture(noise_multiplier=2.0, contributions=(1.0, 2.0), probabilities=(0.25, 0.25))
    """
    sigma = validate.positive(standard_deviation=deviation)
    distances = _numbers("sensitivities", moves, validate.non_negative)
    shares = _numbers("sampling_probs", weights, validate.probability)
    if len(distances) != len(shares) or not distances:
        raise InvalidInput(
            f"`sensitivities` ({len(distances)}) and `sampling_probs` ({len(shares)}) must be as "
            "many, and at least one.",
            next_step="Give one probability for each sensitivity.",
        )
    if not math.isclose(math.fsum(shares), 1.0, rel_tol=WEIGHT_TOLERANCE):
        return "its weights do not add up to 1"
    ordered = sorted(zip(distances, shares, strict=True))
    distances, shares = [move for move, _ in ordered], [share for _, share in ordered]
    size, longest = len(distances) - 1, distances[-1]
    if size == 0:
        return ev.Gaussian(sigma / longest) if longest > 0.0 else ev.Compose(())
    if longest == 0.0:
        return ev.Compose(())
    multiples = all(
        math.isclose(move * size, j * longest, rel_tol=WEIGHT_TOLERANCE)
        for j, move in enumerate(distances)
    )
    rate = _rate_of(shares) if multiples else None
    if rate is None:
        return _without_zero(ev.GaussianMixture(sigma, tuple(distances), tuple(shares)))
    sampled = ev.Poisson(rate, ev.Gaussian(sigma * size / longest))
    return sampled if size == 1 else ev.Group(size, sampled)


def _without_zero(mixture: ev.GaussianMixture) -> ev.GaussianMixture:
    """Return the mixture without its first amount, where that is the 0 that is left anyway."""
    shorter = replace(
        mixture,
        contributions=mixture.contributions[1:],
        probabilities=mixture.probabilities[1:],
    )
    return shorter if distribution(shorter) == distribution(mixture) else mixture


def _numbers(name: str, values: object, check: Callable[..., float]) -> list[float]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise InvalidInput(f"`{name}` must be a list of numbers; it is {kind_of(values)}.")
    if len(values) > MAX_LISTED_RECORDS + 1:
        raise InvalidInput(
            f"`{name}` must have at most {MAX_LISTED_RECORDS + 1} numbers; it has {len(values):,}.",
            next_step="Account for a group of fewer records.",
        )
    return [check(**{f"{name}[{index}]": value}) for index, value in enumerate(values)]


def _rate_of(shares: list[float]) -> float | None:
    """Return the rate whose binomial weights these are; None where there is none."""
    size = len(shares) - 1
    mean = math.fsum(j * share for j, share in enumerate(shares)) / (size * math.fsum(shares))
    # The rate that gives back the very weights, if one of the nearest does.
    near = [mean, round(mean, 15), math.nextafter(mean, 0.0), math.nextafter(mean, 1.0)]
    rates = [rate for rate in near if 0.0 < rate <= 1.0]
    for exactly in (True, False):
        for rate in rates:
            if _same(binomial_weights(size, rate), shares, exactly=exactly):
                return rate
    return None


def _same(expected: list[float], shares: list[float], *, exactly: bool) -> bool:
    if exactly:
        return expected == shares
    tolerance = WEIGHT_TOLERANCE * len(shares)
    return all(
        math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-300)
        for a, b in zip(expected, shares, strict=True)
    )
