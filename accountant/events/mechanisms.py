"""Single releases: sums with noise, randomizers, and mechanisms of which only a number is known."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

from .. import validate
from ..errors import InvalidInput
from .base import Event, checked, numbers_value, sentence


@dataclass(frozen=True, eq=False)
class TruncatedGeometricSelection(Event):
    """Keys are released with the largest probabilities that (`epsilon`, `delta`)-DP allows.

    A unit counts once in each of at most `partitions` keys, and each key by itself is selected with
    `epsilon` and `delta`.  Range: `epsilon` above 0, `delta` in (0, 1), `partitions` 1 or above.
    A unit that comes or goes, or counts as none (zero-out), changes the counts of its keys by one;
    under replace-one those of the old and of the new one.
    Source: Desfontaines, Voss and Gipson 2020, Theorem 1, arXiv 2006.03684v2.
    """

    type: ClassVar[str] = "truncated-geometric-selection"
    epsilon: float = checked(validate.positive)
    delta: float = checked(validate.open_probability)
    partitions: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class ThresholdSelection(Event):
    """Keys that hold a unit are released, with their noisy counts, where these reach `threshold`.

    A unit counts once in each of at most `partitions` keys.  The noise (`gaussian` or `laplace`)
    of each count has standard deviation (Laplace: scale) `noise_scale`.  Range: `noise_scale` and
    `threshold` above 0, `partitions` 1 or above.
    A unit that comes or goes, or counts as none (zero-out), changes the counts of its keys by one;
    under replace-one those of the old and of the new one.
    Source: Wilson et al. 2019, arXiv 1909.01917v3; derived in
    engines/pld/pairs/selections.py.
    """

    type: ClassVar[str] = "threshold-selection"
    noise: str = checked(validate.choice, ("gaussian", "laplace"))
    noise_scale: float = checked(validate.positive)
    threshold: float = checked(validate.positive)
    partitions: int = checked(validate.count)


def _noise(**given: object) -> float:
    """Return a noise multiplier, above 0; of no noise say that it is stated as `NoGuarantee`."""
    try:
        return validate.positive(**given)
    except InvalidInput as refusal:
        if list(given.values()) == [0]:
            raise InvalidInput(
                refusal.what,
                "Without noise nobody is protected, and epsilon is infinite.",
                'Give noise above 0, or NoGuarantee("no noise is added").',
            ) from None
        raise


@dataclass(frozen=True, eq=False)
class Gaussian(Event):
    """A sum with Gaussian noise of standard deviation `noise_multiplier` x contribution bound (L2).

    Range: `noise_multiplier` is above 0.
    Source: Balle and Wang 2018, arXiv 1805.06530v2; Dong, Roth and Su 2022, arXiv 1905.02383v3.
    """

    type: ClassVar[str] = "gaussian"
    noise_multiplier: float = checked(_noise)


@dataclass(frozen=True, eq=False)
class Laplace(Event):
    """A sum with Laplace noise of scale `noise_multiplier` x contribution bound (L1).

    Range: `noise_multiplier` is above 0.
    Source: Dwork and Roth 2014, Definition 3.3 and Theorem 3.6.
    """

    type: ClassVar[str] = "laplace"
    noise_multiplier: float = checked(_noise)


@dataclass(frozen=True, eq=False)
class DiscreteGaussian(Event):
    """An integer sum with discrete Gaussian noise, probability ~ exp(-z^2 / (2 s^2)).

    Here s = `noise_multiplier` x `sensitivity`, and `sensitivity` is the integer bound on one
    unit's contribution.  Range: both above 0.
    Source: Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5.
    """

    type: ClassVar[str] = "discrete-gaussian"
    noise_multiplier: float = checked(_noise)
    sensitivity: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteGaussian(Event):
    """An integer sum with discrete Gaussian noise that never leaves [-`bound`, +`bound`].

    The noise z has probability ~ exp(-z^2 / (2 s^2)) for |z| <= `bound`, with s =
    `noise_multiplier` x `sensitivity`; `sensitivity` is the integer bound on one unit's
    contribution.  Range: all above 0.
    Source: Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5 (without the bound); the cut:
    derived in accountant/engines/rdp/releases.py.
    """

    type: ClassVar[str] = "truncated-discrete-gaussian"
    noise_multiplier: float = checked(_noise)
    sensitivity: int = checked(validate.count)
    bound: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class GaussianMixture(Event):
    """A sum with Gaussian noise to which one unit contributes a random amount.

    With `probabilities`[i] the unit moves the sum by `contributions`[i] bounds (L2), or by nothing
    with what is left of 1; the noise has standard deviation `noise_multiplier` x contribution
    bound.  Range: `noise_multiplier` above 0, contributions 0 or above, probabilities in [0, 1]
    with a sum of at most 1, one for each contribution; a sum within 1e-12 of 1 is 1, and leaves
    nothing.
    Under add-remove and zero-out the amount is that of the unit against none; under replace-one
    both units draw theirs from this distribution, each by itself.
    Source: Choquette-Choo, Ganesh, Steinke and Thakurta 2023, arXiv 2310.15526.
    """

    type: ClassVar[str] = "gaussian-mixture"
    noise_multiplier: float = checked(_noise)
    contributions: tuple[float, ...] = checked(numbers_value, validate.non_negative)
    probabilities: tuple[float, ...] = checked(numbers_value, validate.probability)

    def __post_init__(self) -> None:
        super().__post_init__()
        _as_many("probabilities", self.probabilities, "contributions", self.contributions)
        if math.fsum(self.probabilities) > 1.0 + 1e-12:
            raise InvalidInput(
                "`probabilities` must add up to at most 1; they add up to "
                f"{math.fsum(self.probabilities):.9g}.",
                next_step="Give the probability of each contribution.",
            )


@dataclass(frozen=True, eq=False)
class DiscreteLaplace(Event):
    """An integer sum with discrete Laplace noise, probability ~ exp(-|z| / s).

    Here s = `noise_multiplier` x `sensitivity`, and `sensitivity` is the integer bound on one
    unit's contribution.  Range: both above 0.
    Source: Ghosh, Roughgarden and Sundararajan 2012, arXiv 0811.2841v3.
    """

    type: ClassVar[str] = "discrete-laplace"
    noise_multiplier: float = checked(_noise)
    sensitivity: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Event):
    """One of `categories` values, reported truthfully e^epsilon times as often as any other.

    Range: `epsilon` 0 or above, `categories` 2 or above.
    It holds for the relation that is asked for, in a shuffle for one message that is replaced.
    Source: Kairouz, Bonawitz and Ramage 2016, arXiv 1602.07387 (several categories).
    """

    type: ClassVar[str] = "randomized-response"
    epsilon: float = checked(validate.non_negative)
    categories: int = checked(validate.count_from, 2)


@dataclass(frozen=True, eq=False)
class Local(Event):
    """Any epsilon-locally-private randomizer.

    Range: `epsilon` 0 or above.
    It holds for the relation that is asked for, in a shuffle for one message that is replaced.
    Source: Kairouz, Oh and Viswanath 2015, arXiv 1311.0776v4 (the worst of them).
    """

    type: ClassVar[str] = "local"
    epsilon: float = checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class Exponential(Event):
    """A selection whose loss has bounded range `epsilon`, such as the exponential mechanism.

    Range: `epsilon` 0 or above.
    The range is that of the relation that is asked for.
    Source: Dong, Durfee and Rogers 2020, arXiv 1909.13830v2.
    """

    type: ClassVar[str] = "exponential"
    epsilon: float = checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class Pure(Event):
    """Any epsilon-DP mechanism.

    Range: `epsilon` 0 or above.
    It holds for the relation that is asked for.
    Source: Kairouz, Oh and Viswanath 2015, Theorem 2, arXiv 1311.0776v4 (the worst of them).
    """

    type: ClassVar[str] = "pure"
    epsilon: float = checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class Approximate(Event):
    """Any (epsilon, delta)-DP mechanism.

    Range: `epsilon` 0 or above, `delta` in [0, 1].
    It holds for the relation that is asked for.
    Source: Kairouz, Oh and Viswanath 2015, Theorem 2, arXiv 1311.0776v4 (the worst of them).
    """

    type: ClassVar[str] = "approximate"
    epsilon: float = checked(validate.non_negative)
    delta: float = checked(validate.probability)


@dataclass(frozen=True, eq=False)
class ZCDP(Event):
    """Any rho-zero-concentrated-DP mechanism.

    Range: `rho` 0 or above.
    It holds for the relation that is asked for.
    Source: Bun and Steinke 2016, Definition 1.1, arXiv 1605.02065v1.
    """

    type: ClassVar[str] = "zcdp"
    rho: float = checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class Renyi(Event):
    """Any mechanism whose Renyi divergences, both ways, are at most `values` at these `orders`.

    Range: `orders` above 1 and ascending, `values` 0 or above, one for each order.
    They hold for the relation that is asked for.
    Source: Mironov 2017, Definition 4, arXiv 1702.07476v3.
    """

    type: ClassVar[str] = "renyi"
    orders: tuple[float, ...] = checked(numbers_value, validate.positive)
    values: tuple[float, ...] = checked(numbers_value, validate.non_negative)

    def __post_init__(self) -> None:
        super().__post_init__()
        _as_many("values", self.values, "orders", self.orders)
        if min(self.orders) <= 1.0:
            raise InvalidInput(
                f"`orders` must be above 1 and ascending; one is {min(self.orders):g}.",
                "Order 1 is the Kullback-Leibler divergence, which says nothing of (epsilon, "
                "delta) by itself.",
                "Leave out the orders up to 1.",
            )
        if any(low >= high for low, high in itertools.pairwise(self.orders)):
            raise InvalidInput(
                "`orders` must be above 1 and ascending.",
                next_step="Sort the orders, and give each of them once.",
            )


@dataclass(frozen=True, eq=False)
class NoGuarantee(Event):
    """A release that is known to protect nobody; `reason` says why.

    That is so under every relation.
    Source: by definition.
    """

    type: ClassVar[str] = "no-guarantee"
    reason: str = checked(sentence)


def _as_many(name: str, values: tuple[float, ...], other: str, others: tuple[float, ...]) -> None:
    if len(values) != len(others):
        raise InvalidInput(
            f"`{name}` must have as many numbers as `{other}` ({len(others)}); it has "
            f"{len(values)}.",
            next_step=f"Give one of `{name}` for each of `{other}`.",
        )
