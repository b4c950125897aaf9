"""The claim test: is this mechanism as private as the one that is claimed?

The family around a claim is the claimed event with its noise times c.  The member c is rejected
where the error rates of one fixed test are better than it allows: N < f_c(F), with F and N the
upper ends of false alarm and miss rate.  If the mechanism has the trade-off function of the true
member c*, both ends hold with probability 1 - alpha, and then no c up to c* is rejected, for f_c
grows with c.  So the smallest rejected factor lies below c* with probability at most alpha.

A rejection says that the *claimed* mechanism, or one of its family, did not run; it does not bound
the epsilon of a mechanism outside of the family.  That no factor is rejected proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import account
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.guarantee import as_neighbours
from ...accountant.rootfinding import bisect
from .binomial import Counts, level_of
from .scaling import scaled
from .tradeoff import TradeOff, trade_off

MIN_NOISE_FACTOR: Final = 2.0**-14
MAX_NOISE_FACTOR: Final = 2.0**10
"""Between these factors the family is searched."""

NO_PROTECTION_EPSILON: Final = 50.0
"""An epsilon, at delta .001, beyond which no smaller factor is looked for."""

FACTOR_PRECISION_RELATIVE: Final = 1e-4
"""Relative distance between the factor that is reported and one that was not rejected."""


@dataclass(frozen=True)
class FamilyResult:
    """What the claim test found.

    `factor` is the smallest factor on the noise that is rejected at level `alpha`, None where none
    is; `epsilon` the certified lower end of epsilon at `delta` of the event scaled by it, 0 where
    there is none (or no engine knows one).  `rejected` says that the claim itself, factor 1, is
    rejected.  `counts` are those of the test, None where it was another.
    """

    factor: float | None
    epsilon: float
    rejected: bool
    delta: float
    alpha: float
    counts: Counts | None = None


def family_test(
    counts: Counts,
    event: ev.Event,
    neighbours: str,
    delta: float,
    alpha: float = 0.05,
    *,
    thresholds: int = 1,
) -> FamilyResult:
    """Return the claim test of an event, from counts at a threshold that was fixed beforehand.

    With probability at least 1 - `alpha`, a mechanism whose units have the trade-off function of
    the event scaled by c* is not reported at a factor below c*, nor at an `epsilon` above its own.
    Where the best of several `thresholds` is taken, say how many; alpha is divided by that.  Range:
    `delta` in (0, 1), `alpha` in (0, 1).  Raises `Unsupported` where the event holds no noise, or
    no engine has mathematics for it.
    Source: Nasr, Hayes, Steinke et al. 2023, arXiv 2302.07956 (f-DP auditing with
    Clopper-Pearson), with trade-off functions by our certified pld engine.

    >>> event = ev.Gaussian(1.0)
    >>> found = family_test(Counts(200, 5000, 4000, 5000), event, "add-remove", 1e-5)
    >>> round(found.factor, 2), found.rejected
    (1.24, False)
    """
    # Null: the mechanism is the family's member c*.  (F, N) covers both rates with probability
    # 1 - alpha, and then no factor up to c* is rejected: with probability at most alpha the
    # reported factor lies below c*, and its epsilon above the truth.
    upper = counts.upper(level_of(alpha, thresholds))
    factor = smallest_rejected(lambda shape: _beats(upper, shape), event, neighbours)
    rejected = claim_rejected(counts, event, neighbours, alpha, thresholds=thresholds)
    return family_result(factor, rejected, event, neighbours, delta, alpha, counts)


def claim_rejected(
    counts: Counts,
    event: ev.Event,
    neighbours: str,
    alpha: float = 0.05,
    *,
    thresholds: int = 1,
) -> bool:
    """Return whether the claim itself is rejected: `family_test(...).rejected`, and no more.

    A mechanism that keeps the claim is rejected with probability at most `alpha`.
    """
    upper = counts.upper(level_of(alpha, thresholds))
    return _beats(upper, trade_off(event, neighbours))


def _beats(upper: tuple[float, float], shape: TradeOff) -> bool:
    """Return whether error rates of at most these are better than a trade-off function allows."""
    false_alarms, misses = upper
    return misses < shape(false_alarms)


def family_result(
    factor: float | None,
    rejected: bool,
    event: ev.Event,
    neighbours: str,
    delta: float,
    alpha: float,
    counts: Counts | None = None,
) -> FamilyResult:
    """Return the result for the smallest rejected factor: with its epsilon, rounded down."""
    validate.open_probability(delta=delta)
    if factor is None:
        scaled(event, 1.0)  # refuses what is no claim
        return FamilyResult(None, 0.0, rejected, delta, alpha, counts)
    # The certified lower end: what is reported as demonstrated is never above the member's epsilon.
    epsilon = account(scaled(event, factor), delta=delta, neighbours=neighbours).epsilon.lower
    return FamilyResult(factor, epsilon, rejected, delta, alpha, counts)


def smallest_rejected(
    rejects: Callable[[TradeOff], bool], event: ev.Event, neighbours: str
) -> float | None:
    """Return the smallest factor on the noise whose member is rejected; None where none is.

    To `FACTOR_PRECISION_RELATIVE`, on the safe side: the factor returned was itself rejected.  A
    member that no engine can compute counts as not rejected, and below one that protects nobody
    (`NO_PROTECTION_EPSILON`) no smaller one is searched for.
    """
    as_neighbours(neighbours)
    trade_off(scaled(event, 1.0), neighbours)  # a claim that cannot be computed is refused

    def tried(factor: float) -> bool:
        try:
            return rejects(trade_off(scaled(event, factor), neighbours))
        except (Unsupported, InvalidInput):
            return False  # no mathematics, so no accusation

    # Bracket the smallest rejected factor by doublings, from 1 down or up, then bisect in the
    # logarithm.  Rejection is monotone in the factor, for f_c grows with c.
    high = 1.0
    if tried(high):
        while tried(high / 2.0):
            high /= 2.0
            if high <= MIN_NOISE_FACTOR or _protects_nobody(scaled(event, high), neighbours):
                return high
    else:
        if not tried(MAX_NOISE_FACTOR):
            return None
        while not tried(2.0 * high):
            high *= 2.0
        high *= 2.0
    low = high / 2.0
    # The upper end, which was itself rejected.
    return bisect(
        lambda factor: not tried(factor),
        low,
        high,
        stop=lambda low, high: high <= low * (1.0 + FACTOR_PRECISION_RELATIVE),
        middle=lambda low, high: (low * high) ** 0.5,
    )[1]


def _protects_nobody(event: ev.Event, neighbours: str) -> bool:
    """Return whether an event's epsilon at delta .001 is certified above the search's end."""
    return account(event, delta=1e-3, neighbours=neighbours).epsilon.lower > NO_PROTECTION_EPSILON
