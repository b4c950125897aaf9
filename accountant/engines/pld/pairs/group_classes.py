"""The tight pair of a unit of k records, of each of which only (epsilon, delta) is known.

Write g(a) for the largest power of a test at level a between two neighbours,

    g(a) = min{1, delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a)}.

**From above.**  Along a chain of k + 1 data sets, each test has power at most g of its level at
each step, and g rises, so over the chain the power is at most the k-fold iterate g_k: a unit of k
records has the trade-off function 1 - g_k.

**Attained.**  g is concave.  Order the outcomes and let the probability of each beginning S of that
order grow as P_{i+1}(S) = g(P_i(S)), with outcomes in front that P_0, ..., P_i lack for what g adds
at level 0.  The likelihood ratio of P_{i+1} and P_i is g' at the level reached, which falls along
the order, so beginnings are the best tests: neighbours have the trade-off function 1 - g exactly,
in both orders since g is its own mirror image, and P_0 and P_k have 1 - g_k.  For delta 0 this is
the geometric mechanism, whose losses between P_0 and P_k are k epsilon, (k - 2) epsilon, ...,
-k epsilon; k epsilon with randomized response is only what holds at delta 0.

**In numbers.**  With r = e^epsilon, g meets its mirror image at c_0 = (1 - delta) / (1 + r), and
c_j = (c_{j-1} - delta) / r is the level from which j steps lead there.  From c_j to c_{j-1} a level
takes j steps at slope r and k - j at slope 1/r: g_k has slope r^(2j - k) there.  P_k has mass
g_k(0) where P_0 has none, and the other way round; both are counted in exact fractions.

Source: Dong, Roth and Su 2022, arXiv 1905.02383v3, Theorem 2.14, for the upper end; the chain is
derived here (geometric mechanism: Ghosh, Roughgarden and Sundararajan 2009, arXiv 0811.2841).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from .... import events as ev
from ....arrays import FloatArray
from ....guarantee import Neighbours, Step
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .registry import DominatedMechanism, pairs

STATED_RECORDS: Final = (ev.Pure, ev.Local, ev.RandomizedResponse, ev.Approximate)
"""Events of a record that say no more than its epsilon and delta."""

MAX_COUNTED_RECORDS: Final = 100
"""Most records with a delta above 0 that are counted in fractions; beyond, the lemma answers."""

MAX_GEOMETRIC_RECORDS: Final = 100_000
"""Most records at delta 0, each of which has a loss of its own."""

MAX_COUNTED_EPSILON: Final = 500.0
"""Largest epsilon whose power is counted in fractions."""

SHARED_ROUNDING: Final = 1e-11
"""Relative difference up to which one pair stands for both ends."""


def chained(
    size: int, record: ev.Event, by_lemma: ev.Event, neighbours: Neighbours
) -> DominatedMechanism:
    """Return the mechanism of `size` records that each are as `record` says.

    `by_lemma` is the stated event of the lemma for groups, which stands where the iterate is not
    counted.
    """
    delta = record.delta if isinstance(record, ev.Approximate) else 0.0
    epsilon = float(record.epsilon)  # type: ignore[attr-defined]
    worst = pairs(by_lemma, neighbours)
    if delta == 0.0 and size <= MAX_GEOMETRIC_RECORDS:
        pair = attained = _geometric(size, epsilon)
    elif delta < 1.0 and size <= MAX_COUNTED_RECORDS and epsilon <= MAX_COUNTED_EPSILON:
        pair, attained = _both_ends(size, epsilon, delta)
    else:
        return replace(worst, class_pair=None)
    step = Step(
        "group",
        f"Each test gains at most what one step of ({epsilon:g}, {delta:g})-DP allows, {size:,} "
        "times over.",
        "Dong, Roth and Su 2022, arXiv 1905.02383v3, Theorem 2.14; attained by the chain in "
        "engines/pld/pairs/group_classes.py",
        (
            "its parameters hold for the neighbouring relation of this account",
            "they name a class of mechanisms, some of which lose less",
        ),
    )
    of_class = None if isinstance(record, ev.RandomizedResponse) else attained
    return DominatedMechanism.of(pair, [], True, (step,), of_class)


def _geometric(size: int, epsilon: float) -> Pair:
    """Return the pair of geometric noise around 0 and around `size`."""
    log_corner = -float(np.logaddexp(0.0, epsilon))
    log_q = log_corner - epsilon * np.maximum(np.arange(size + 1) - 1.0, 0.0)
    with np.errstate(divide="ignore"):
        log_q[1:size] += np.log(-np.expm1(-epsilon))
    log_q[0] = -float(np.logaddexp(0.0, -epsilon))
    return Pair.of_outcomes(AtomPair(log_q[::-1].copy(), log_q))


@lru_cache(maxsize=64)
def _both_ends(size: int, epsilon: float, delta: float) -> tuple[Pair, Pair]:
    """Return the pair from above and from below: one, where the rounding of e^epsilon is no
    matter."""
    power = math.exp(epsilon)
    above, below = (
        _masses(size, Fraction(power) * (1 + sign * Fraction(1, 2**50)), Fraction(delta))
        for sign in (int(epsilon > 0.0), -int(epsilon > 0.0))
    )
    if above.shape == below.shape:
        seen = np.isfinite(above)
        if (seen == np.isfinite(below)).all() and (
            np.abs(above[seen] - below[seen]).max() <= SHARED_ROUNDING
        ):
            pair = _pair_of(above, 4.0 * SHARED_ROUNDING)
            return pair, pair
    return _pair_of(above, SHARED_ROUNDING), _pair_of(below, SHARED_ROUNDING)


def _pair_of(logs: FloatArray, rounding: float) -> Pair:
    return Pair.of_outcomes(AtomPair(logs[0], logs[1], rounding=rounding))


def _masses(size: int, power: Fraction, delta: Fraction) -> FloatArray:
    """Return log P and log Q, as rows, of the outcomes of P_k and P_0."""
    q, slopes, beyond = iterated(size, power, delta)
    p = [mass * slope for mass, slope in zip(q, slopes, strict=True)]
    log_p, log_q = [*map(_log, p), _log(beyond), -math.inf], [*map(_log, q), -math.inf]
    return np.array([log_p, [*log_q, _log(beyond)]])


def iterated(
    size: int, power: Fraction, delta: Fraction
) -> tuple[list[Fraction], list[Fraction], Fraction]:
    """Return lengths and slopes of the pieces of g_k, from the right, and g_k(0).

    `power` is e^epsilon, 1 or above, and `delta` below 1.

    >>> from fractions import Fraction
    >>> lengths, slopes, beyond = iterated(2, Fraction(2), Fraction(0))
    >>> [str(length) for length in lengths], [str(slope) for slope in slopes]
    (['2/3', '1/6', '1/6'], ['1/4', '1', '4'])
    """
    levels = [(1 - delta) / (1 + power)]
    while len(levels) < size and levels[-1] > delta:
        levels.append((levels[-1] - delta) / power)
    beyond = Fraction(0)
    for _ in range(size):
        beyond = min(
            Fraction(1), delta + power * beyond, 1 - max(1 - delta - beyond, Fraction(0)) / power
        )
    # From where g_k is 1, by the mirror, down to level 0.
    ends = [1 - beyond, *(min(level, 1 - beyond) for level in levels), Fraction(0)]
    lengths = [high - low for high, low in itertools.pairwise(ends)]
    slopes = [power ** (2 * steps - size) for steps in range(len(lengths))]
    kept = [index for index, length in enumerate(lengths) if length > 0]
    return [lengths[index] for index in kept], [slopes[index] for index in kept], beyond


def _log(value: Fraction) -> float:
    if value == 0:
        return -math.inf
    as_float = float(value)
    if as_float > 1e-290:
        return math.log(as_float)
    return math.log(value.numerator) - math.log(value.denominator)
