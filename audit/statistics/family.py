"""The claim test: does an attack refute that a mechanism is as private as claimed?

The family of a claim are the claimed event with its noise multiplied by a factor c, and f_c is the
trade-off function of member c: the least false negative rate of any test at a false positive rate.
Let F and N be the upper confidence bounds of the two rates of one fixed test (false alarms and
misses).  Member c is rejected where N < f_c(F), so where the test is better than c allows.

If the mechanism has the trade-off function of member c*, both bounds hold with probability at least
1 - alpha, and then no c <= c* is rejected, because f_c grows with c.  So the smallest rejected
factor lies below c* with probability at most alpha.

A rejection says that the claimed mechanism, or a member of its family, did not run; it does not
bound the epsilon of a mechanism outside the family.  That no factor is rejected proves nothing.

**The threshold** is fixed by the claim and never by the data counted.  Not a score but a rank is
fixed.  The claim alone says how many false alarms k to allow, and the threshold is the (k+1)-th
largest score of the units that were out.  Its false alarm rate is then a Beta(k + 1, n - k)
variable at most, whose quantile is the Clopper-Pearson end for k of n, so nothing is lost by
looking at those scores; the units that were in are another sample.  A threshold fixed as a score is
as valid, but scores move with the noise: fixed on the claimed likelihood ratio it saw nothing of
halved noise under Poisson sampling.

A threshold that is chosen on some of the units and counted on the others is in `audit.canaries`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import account
from ...accountant.arrays import FloatArray
from ...accountant.composition import Composition
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.event_tree import check_depth
from ...accountant.guarantee import as_neighbours
from ...accountant.risk.trade_off import TradeOff, attained_trade_off, trade_off
from ...accountant.rootfinding import bisect
from .binomial import Counts, as_scores, counts_at, epsilon_of_rates, level_of, upper_rate

_NOISY = (ev.Gaussian, ev.MatrixGaussian, ev.Laplace, ev.DiscreteGaussian, ev.DiscreteLaplace)
_STATED = (ev.Pure, ev.Local, ev.RandomizedResponse, ev.Exponential, ev.Approximate)

MIN_DISCRETE_DEVIATION: Final = 3.0
"""The least standard deviation, in integers, of discrete Gaussian noise in a family."""


def scaled(event: ev.Event, factor: float) -> ev.Event:
    """Return the event with every noise multiplier times `factor`, and all else as it is.

    A stated epsilon is divided by the factor, and rho by its square.  A larger factor protects
    better: noise of a larger scale is the smaller one with more added (Gaussian, also where rounds
    share it, Laplace, discrete Laplace).  Discrete Gaussian noise is no such sum: of standard
    deviation 0.6 it shows more than of 0.5 where one unit in 200 is a false alarm.  From 3 on,
    calculation finds no error, averaged over both kinds in any way, that falls by more than 1e-12
    as noise grows.  Range: factor above 0.  Raises `Unsupported` where nothing in the event is
    noise, and for discrete Gaussian noise of a standard deviation (`noise_multiplier` x
    `sensitivity`) below 3.

    >>> scaled(ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(1.0))), 0.5)
    Repeat(count=50, event=Poisson(rate=0.1, event=Gaussian(noise_multiplier=0.5)))
    """
    validate.positive(factor=factor)
    check_depth(event)  # before recursion into an event of a stranger's log
    if not _noise_in(event):
        raise Unsupported(
            "The event holds no noise that could be scaled.",
            "A family is the claimed event with more or less noise.",
            "Use the robust tier, which needs no family.",
        )
    return _scaled(event, factor)


def _scaled(event: ev.Event, factor: float) -> ev.Event:
    if isinstance(event, ev.DiscreteGaussian):
        _require_ordered(event.noise_multiplier * factor * event.sensitivity)
    if isinstance(event, _NOISY):
        return replace(event, noise_multiplier=event.noise_multiplier * factor)
    if isinstance(event, _STATED):
        return replace(event, epsilon=event.epsilon / factor)
    if isinstance(event, ev.ZCDP):
        return ev.ZCDP(event.rho / factor / factor)  # rho = 1 / (2 sigma^2)
    if isinstance(event, ev.Compose):
        return ev.Compose(tuple(_scaled(part, factor) for part in event.events))
    # Wrappers (`Repeat`, `Poisson`, `Group`, ...) keep their own numbers.
    inner = getattr(event, "event", None)
    if isinstance(inner, ev.Event):
        changes: dict[str, ev.Event] = {"event": _scaled(inner, factor)}
        return replace(event, **changes)
    return event


def _require_ordered(deviation: float) -> None:
    if deviation < MIN_DISCRETE_DEVIATION * (1.0 - 1e-9):
        raise Unsupported(
            f"Discrete Gaussian noise of standard deviation {deviation:.3g} is in no family here.",
            f"Below {MIN_DISCRETE_DEVIATION:g} more noise does not always protect better.",
            "Use a finer grid for the noise, or `steinke`, which needs no family.",
        )


def _noise_in(event: ev.Event) -> bool:
    if isinstance(event, (*_NOISY, *_STATED, ev.ZCDP)):
        return True
    inner = getattr(event, "event", None)
    parts = getattr(event, "events", () if inner is None else (inner,))
    return any(_noise_in(part) for part in parts)


MIN_NOISE_FACTOR: Final = 2.0**-14
MAX_NOISE_FACTOR: Final = 2.0**10
"""The range of factors on the noise that is searched."""

NO_PROTECTION_EPSILON: Final = 50.0
"""An epsilon at delta .001 from which on smaller factors are not searched."""

FACTOR_PRECISION_RELATIVE: Final = 1e-4
"""Relative distance of the reported factor from a smaller one that was not rejected."""

SHUFFLED_FACTOR_PRECISION_RELATIVE: Final = 1e-2
"""The same where messages are shuffled: each member of such a family takes seconds."""


@dataclass(frozen=True)
class FamilyResult:
    """The result of the claim test.

    - `factor`: the smallest factor on the noise that is rejected at level `alpha`; None for none.
    - `epsilon`: a certified lower bound on epsilon at `delta` of the event scaled by that factor;
      where no engine has such a bound, as of a stated epsilon, what the same counts show of any
      mechanism; 0 where no factor is rejected.
    - `rejected`: whether the claim itself, factor 1, is rejected.
    - `counts`: errors and trials of the test; None where the test has no counts.
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
    """Return the claim test of `event`, from error counts at a threshold fixed beforehand.

    For a mechanism whose trade-off function is that of the event scaled by c*, the reported factor
    is below c*, or `epsilon` above the true one, with probability at most `alpha`.  Where the
    counts are of the best of several `thresholds`, give their number: alpha is divided by it.
    Range: `delta` and `alpha` in (0, 1).  Raises `Unsupported` where the event adds no noise, or
    where no engine can compute it.
    Source: Nasr, Hayes, Steinke et al. 2023, arXiv 2302.07956 (f-DP auditing with
    Clopper-Pearson), with trade-off functions by our certified pld engine.

    >>> event = ev.Gaussian(1.0)
    >>> found = family_test(Counts(200, 5000, 4000, 5000), event, "add-remove", 1e-5)
    >>> round(found.factor, 2), found.rejected
    (1.24, False)
    """
    # Null hypothesis: the mechanism is member c*.  (F, N) bounds both rates with probability at
    # least 1 - alpha, and then no factor up to c* is rejected.
    upper = counts.upper(level_of(alpha, thresholds))
    factor = smallest_rejected(lambda shape: _beats(upper, shape), event, neighbours)
    rejected = claim_rejected(counts, event, neighbours, alpha, thresholds=thresholds)
    result = family_result(factor, rejected, event, neighbours, delta, alpha, counts)
    if factor is None or result.epsilon > 0.0:
        return result
    # The same two limits on the rates bound the epsilon of whatever ran.
    return replace(result, epsilon=epsilon_of_rates(*upper, delta))


def claim_rejected(
    counts: Counts,
    event: ev.Event,
    neighbours: str,
    alpha: float = 0.05,
    *,
    thresholds: int = 1,
) -> bool:
    """Return `family_test(...).rejected` alone: whether the claim itself, factor 1, is rejected.

    A mechanism that meets the claim is rejected with probability at most `alpha`.
    """
    upper = counts.upper(level_of(alpha, thresholds))
    return _beats(upper, trade_off(event, neighbours))


def _beats(upper: tuple[float, float], shape: TradeOff) -> bool:
    """Return whether N < f(F), for `upper` = (F, N) and the trade-off function f."""
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
    """Return the result for the smallest rejected factor, with its epsilon rounded down.

    Raises `InvalidInput` for `delta` outside (0, 1), and `Unsupported` for an event without noise.
    """
    validate.open_probability(delta=delta)
    if factor is None:
        scaled(event, 1.0)  # raises for an event without noise
        return FamilyResult(None, 0.0, rejected, delta, alpha, counts)
    # The certified lower bound, so that the demonstrated epsilon is never above the member's own.
    epsilon = account(scaled(event, factor), delta=delta, neighbours=neighbours).epsilon.lower
    return FamilyResult(factor, epsilon, rejected, delta, alpha, counts)


def smallest_rejected(
    rejects: Callable[[TradeOff], bool], event: ev.Event, neighbours: str
) -> float | None:
    """Return the smallest factor on the noise whose member is rejected; None where none is.

    `rejects` takes a member's trade-off function.  The factor is too large by at most
    `FACTOR_PRECISION_RELATIVE` (shuffled: `SHUFFLED_FACTOR_PRECISION_RELATIVE`), and was itself
    rejected.  Members that no engine can compute count as not rejected.  The search ends at a
    member whose epsilon exceeds `NO_PROTECTION_EPSILON`.  Raises `InvalidInput` or `Unsupported`
    where the claim itself cannot be computed.
    """
    as_neighbours(neighbours)
    trade_off(scaled(event, 1.0), neighbours)  # raises where the claim cannot be computed

    def is_rejected(factor: float) -> bool:
        try:
            return rejects(trade_off(scaled(event, factor), neighbours))
        except (Unsupported, InvalidInput):
            return False  # not computable, so not rejected

    # Bracket the smallest rejected factor by halving or doubling from 1, then bisect its logarithm.
    # Rejection is monotone in the factor, because f_c grows with c.
    high = 1.0
    if is_rejected(high):
        while is_rejected(high / 2.0):
            high /= 2.0
            if high <= MIN_NOISE_FACTOR or _protects_nobody(scaled(event, high), neighbours):
                return high
    else:
        if not is_rejected(MAX_NOISE_FACTOR):
            return None
        while not is_rejected(2.0 * high):
            high *= 2.0
        high *= 2.0
    low, precision = high / 2.0, _precision(event)
    # The upper end of the bracket, which was rejected itself; the lower end was not.
    return bisect(
        lambda factor: not is_rejected(factor),
        low,
        high,
        stop=lambda low, high: high <= low * (1.0 + precision),
        middle=lambda low, high: (low * high) ** 0.5,
    )[1]


def _precision(event: ev.Event) -> float:
    """Return the relative width at which the search for a factor ends."""
    events = [part.event for part in Composition.of(event)]
    if any(isinstance(leaf, (ev.Shuffle, ev.SampledShuffle)) for leaf in events):
        return SHUFFLED_FACTOR_PRECISION_RELATIVE
    return FACTOR_PRECISION_RELATIVE


def _protects_nobody(event: ev.Event, neighbours: str) -> bool:
    """Return whether epsilon at delta .001 is certified above `NO_PROTECTION_EPSILON`."""
    return account(event, delta=1e-3, neighbours=neighbours).epsilon.lower > NO_PROTECTION_EPSILON


CANDIDATE_RANKS: Final = 400
"""Thresholds among which one is chosen."""


def claim_rank(
    event: ev.Event, neighbours: str, negatives: int, positives: int, alpha: float = 0.05
) -> int:
    """Return how many false alarms to allow among `negatives`, from the claim alone.

    It is the number at which the best test of the claimed event, doing as well as it may, would
    give the most: the smallest factor in `family_test` at level `alpha`.
    """
    validate.open_probability(alpha=alpha)
    n_out, n_in = validate.count(negatives=negatives), validate.count(positives=positives)
    # Candidate ranks k, (candidates,), dense where few false alarms are allowed.
    ranks = np.unique(np.geomspace(1.0, max(n_out / 2.0, 1.0), CANDIDATE_RANKS).astype(int)) - 1
    # Expected misses at false alarm rate (k + 1) / (n + 1), if the claim is exactly true.  Only
    # the power rests on it: any rank that the claim fixes gives a valid test.
    misses = n_in * attained_trade_off(event, neighbours)((ranks + 1.0) / (n_out + 1.0))
    upper = _upper_rates(ranks.astype(float), n_out, misses, n_in, alpha)
    return int(ranks[_best_candidate(upper, event, neighbours)])


def counts_at_rank(scores: ArrayLike, coins: ArrayLike, false_alarms: int) -> tuple[float, Counts]:
    """Return the threshold that allows `false_alarms`, and the counts of the test.

    The threshold is the (k+1)-th largest score among units that were out (`coins` False).  Valid as
    long as k = `false_alarms` was fixed before; the counts say k even where ties leave fewer, for
    that is what the bound needs.  Range: 0 <= k < number of units out.
    """
    score, coin = as_scores(scores, coins)
    out = score[~coin]
    rank = validate.count_from(0, false_alarms=false_alarms)
    if rank >= out.size:
        raise InvalidInput(
            f"`false_alarms` must be below the number of units that were out ({out.size}); "
            f"it is {rank}.",
            next_step="Allow fewer false alarms, or use more units.",
        )
    # The (k + 1)-th largest score of the negatives, at index n - 1 - k of the ascending order.
    threshold = float(np.partition(out, out.size - 1 - rank)[out.size - 1 - rank])
    seen = counts_at(score, coin, threshold)
    return threshold, replace(seen, false_alarms=rank)


def claim_only(
    scores: ArrayLike,
    coins: ArrayLike,
    event: ev.Event,
    neighbours: str,
    delta: float,
    *,
    alpha: float = 0.05,
) -> FamilyResult:
    """Return the claim test at the rank that the claim prescribes; see `family_test`.

    `scores` (higher: rather in) and `coins` (True: in) have shape (m,); units are independent.
    """
    score, coin = as_scores(scores, coins)
    n_in = int(coin.sum())
    rank = claim_rank(event, neighbours, coin.size - n_in, n_in, alpha)
    counts = counts_at_rank(score, coin, rank)[1]
    return family_test(counts, event, neighbours, delta, alpha)


def _upper_rates(
    alarms: FloatArray, n_out: int, misses: FloatArray, n_in: int, alpha: float
) -> tuple[FloatArray, FloatArray]:
    half = alpha / 2.0
    return upper_rate(alarms, n_out, half), upper_rate(misses, n_in, half)


def _best_candidate(upper: tuple[FloatArray, FloatArray], event: ev.Event, neighbours: str) -> int:
    """Return the candidate that rejects the smallest factor, the first where none rejects any."""
    false_alarms, misses = upper

    # By how much a candidate beats a member's trade-off function: f_c(F) - N, (candidates,).
    def margins(shape: TradeOff) -> FloatArray:
        return shape(false_alarms) - misses

    def some(shape: TradeOff) -> bool:
        return bool((margins(shape) > 0.0).any())

    factor = smallest_rejected(some, event, neighbours)
    # At the smallest factor that any candidate rejects, the one with the largest margin.
    last = 1.0 if factor is None else factor
    return int(np.argmax(margins(trade_off(scaled(event, last), neighbours))))
