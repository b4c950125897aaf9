"""Mixtures of Gaussians from their lists: a group of records where the weights are binomial.

Of k records each joins a sample with probability q, so their sum moves by j bounds with probability
C(k, j) q^j (1-q)^(k-j), and the release is N(j) with that weight, against N(0) without them.

Source: Schuchardt, Stoian, Kosmala, Guennemann 2024, arXiv 2403.04867; Choquette-Choo, Ganesh,
Steinke, Thakurta 2023, arXiv 2310.15526 (mixtures of Gaussians).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from .. import validate
from ..errors import InvalidInput, kind_of
from . import definitions as ev
from .contributions import distribution

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
