"""Dominating pairs of partition selection: which keys of a histogram are released.

A unit that comes moves the counts of at most k keys by one, and keys are treated independently.
Under replace-one up to k keys fall and up to k others rise.

**Truncated geometric.**  A key with n units is kept with probability p(n), where p(0) = 0 and

    p(n + 1) = min(e^eps p(n) + delta, 1 - e^-eps (1 - p(n) - delta), 1),

the largest that per-key (eps, delta)-DP allows.  Seen as tests, (p(n), p(n + 1)) lies on the line
through (0, delta) with slope e^eps as long as the first term is the least, then on the line through
(1 - delta, 1) with slope e^-eps.  The least concave curve above all of them, the worst over n at
every order at once, is those two lines and the chord between the last point of the first and the
first point of the second.  Keys of one n attain their own pair, n = 0 or n at the chord.

**Thresholds.**  A key of no unit is never released, so a new one is seen with probability d =
P(1 + noise >= threshold), and then tells everything; a key of n units or more shows at most noise
that is moved by one, and as much as that where n is far above the threshold.  Both together, for
each of k keys, dominate every mixture of new and old keys; either alone is attained.

Source: Desfontaines, Voss and Gipson 2020, Theorem 1, arXiv 2006.03684v2 (the probabilities);
Wilson et al. 2019, arXiv 1909.01917 (thresholds); the pairs: derived here.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from .... import events as ev
from ....guarantee import Neighbours, Step
from ...loss_ranges import LARGEST_EXPONENT
from ..grid.noise import GaussianNoise, LaplaceNoise
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .noisy_sums import noisy_sum
from .outcomes import worst_pair
from .registry import CountedPairs, DominatedMechanism, each_alone, pairs

MAX_COUNTS: Final = 100_000
"""Most counts that are walked through until a key is likelier kept than not."""

MAX_WALKED_EPSILON: Final = 12.0
"""Largest epsilon of a key up to which the probabilities keep their digits next to 1."""

LEAST_SHOWN: Final = 5e-324
"""The smallest probability above 0: one that underflows is rounded up to it."""

LEAST_ATTAINED: Final = 1e-300
"""Least probability of a new key that the lower end counts."""

LEAST_DROPPED: Final = 1e-4
"""Least 1 - p(n) - delta of which enough digits are left."""

_PROBABILITY_ROUNDING: Final = 1e-11
"""Relative error of a probability after `MAX_COUNTS` steps: 1e-16 each."""


@pairs.register(ev.TruncatedGeometricSelection)
def _truncated_geometric(
    event: ev.TruncatedGeometricSelection, neighbours: Neighbours
) -> DominatedMechanism:
    epsilon, delta, keys = event.epsilon, event.delta, event.partitions
    kept = _before_the_chord(epsilon, delta)
    step = Step(
        "mechanism",
        f"Keys are kept as often as ({epsilon:g}, {delta:g})-DP for each allows; a unit counts in "
        f"at most {keys:,}.",
        "Desfontaines, Voss, Gipson 2020, Theorem 1, arXiv 2006.03684; pairs derived in "
        "engines/pld/pairs/selections.py",
        ("a unit adds at most 1 to the count of a key", f"neighbours: {neighbours}"),
    )
    replaced = neighbours == "replace-one"
    pair = worst_pair(epsilon, delta, 1.0).pair
    if kept is not None and epsilon <= MAX_WALKED_EPSILON:
        pair = _envelope(epsilon, delta, kept)
    lower = None if kept is None else _at_the_chord(epsilon, delta, kept)
    new = _new_key(delta, 1.0 - _PROBABILITY_ROUNDING, replaced=replaced)
    # Replaced: keys of the old value lose a unit and those of the new one win one.
    attained = each_alone([lower, new], keys)
    if replaced and lower is not None:
        attained = (_either_way(lower, keys), *attained[1:])
    dominating = _either_way(pair, keys) if replaced else ((pair, keys),)
    return DominatedMechanism(dominating, attained, False, (step,))


def _either_way(pair: Pair, keys: int) -> CountedPairs:
    return (pair, keys), (pair.reverse(), keys)


def _at_the_chord(epsilon: float, delta: float, kept: float) -> Pair | None:
    """Return the pair of the key at an end of the chord that tells more apart."""
    then = math.exp(epsilon) * kept + delta
    after_gone = math.exp(-epsilon) * max(1.0 - then - delta, 0.0)
    # Next to 1 no digits are left of what the second key is dropped with.
    first_only = then - kept > 1.0 - after_gone - then or 1.0 - then - delta < LEAST_DROPPED
    if first_only:
        return _coins(kept, then, 1.0 - then)
    return _coins(then, 1.0 - after_gone, after_gone)


def _before_the_chord(epsilon: float, delta: float) -> float | None:
    """Return the last p(n) on the first line; None where it cannot be told to enough digits."""
    if epsilon > LARGEST_EXPONENT:
        return None
    # The two lines meet at p = (1 - delta) / (1 + e^eps).
    kept, meeting = 0.0, (1.0 - delta) / (1.0 + math.exp(epsilon))
    for _ in range(MAX_COUNTS):
        following = math.exp(epsilon) * kept + delta
        if following > meeting:
            return kept
        kept = following
    return None


def _envelope(epsilon: float, delta: float, kept: float) -> Pair:
    """Return the pair of the two lines and the chord that starts at p(n) = `kept`."""
    following = math.exp(epsilon) * kept + delta
    # From p(n + 1) on along the second line, in Q up to 1 - delta; the chord comes before.
    left = max(1.0 - delta - following, 0.0)
    chord = delta + math.expm1(epsilon) * kept
    rise = -math.expm1(-epsilon) * (1.0 - following) + math.exp(-epsilon) * delta
    p = [delta, math.exp(epsilon) * kept, min(rise, 1.0 - following), math.exp(-epsilon) * left, 0]
    q = [0.0, kept, chord, left, delta if left > 0.0 else 1.0 - following]
    rounding = _PROBABILITY_ROUNDING * (1.0 + math.exp(epsilon) / (1.0 - delta))
    with np.errstate(divide="ignore"):
        return Pair.of_outcomes(AtomPair(np.log(p), np.log(q), rounding=rounding))


def _coins(without: float, with_unit: float, dropped: float) -> Pair | None:
    """Return the pair of a key that is kept with either probability; None where that is sure.

    `dropped` is 1 - `with_unit`.
    """
    if not (0.0 < without < with_unit and dropped > 0.0):
        return None
    p, q = np.array([with_unit, dropped]), np.array([without, 1.0 - without])
    return Pair.of_outcomes(AtomPair(np.log(p), np.log(q), rounding=_PROBABILITY_ROUNDING))


def _new_key(shown: float, scale: float, *, replaced: bool = False) -> Pair:
    """Return the pair of a key that nobody else has, shown with probability `shown` x `scale`.

    `replaced`: one such key comes, and another one goes.
    """
    shown = min(shown * scale, 1.0)
    log_shown = math.log(shown) if shown > 0.0 else -math.inf
    log_rest = math.log1p(-shown) if shown < 1.0 else -math.inf
    p, q = [log_shown, log_rest, -math.inf], [-math.inf, 0.0, -math.inf]
    if replaced:
        p, q = [log_shown, log_rest, -math.inf], [-math.inf, log_rest, log_shown]
    return Pair.of_outcomes(AtomPair(np.array(p), np.array(q)))


@pairs.register(ev.ThresholdSelection)
def _threshold(event: ev.ThresholdSelection, neighbours: Neighbours) -> DominatedMechanism:
    sum_event: ev.Gaussian | ev.Laplace
    if event.noise == "gaussian":
        sum_event, noise = ev.Gaussian(event.noise_scale), GaussianNoise(event.noise_scale)
        moved = noisy_sum(noise, 1.0, "add-remove", sum_event).pair
    else:
        sum_event = ev.Laplace(event.noise_scale)
        moved = noisy_sum(LaplaceNoise(event.noise_scale), 1.0, "add-remove", sum_event).pair
    shown, keys = max(shown_alone(event), LEAST_SHOWN), event.partitions
    replaced = neighbours == "replace-one"
    dominating = _new_key(shown, 1.0 + _PROBABILITY_ROUNDING, replaced=replaced)
    # Among the smallest floats the relative error has no bound: there nothing is attained.
    sure = shown if shown >= LEAST_ATTAINED else 0.0
    step = Step(
        "mechanism",
        f"{event.noise.capitalize()} noise {event.noise_scale:g} on the counts of at most {keys:,} "
        f"keys; a key of one unit passes {event.threshold:g} with probability {shown:.6g}.",
        "Wilson et al. 2019, arXiv 1909.01917; pairs derived in engines/pld/pairs/selections.py",
        ("keys of no unit are never released", f"neighbours: {neighbours}"),
    )
    # Replaced: keys of the old value fall and those of the new one rise, twice as many counts.
    counts = 2 * keys if replaced else keys
    # Copies of another pair are as many as counts, of which one in two is new where one replaces
    # another: two copies of a key that passes with 1 - sqrt(1 - p) show as much as one.
    if replaced:
        sure = -math.expm1(0.5 * math.log1p(-sure)) if sure < 1.0 else 1.0
    attained = _new_key(sure, 1.0 - _PROBABILITY_ROUNDING, replaced=replaced)
    together = (moved, counts), (dominating, keys)
    return DominatedMechanism(together, each_alone([moved, attained], counts), replaced, (step,))


def shown_alone(event: ev.ThresholdSelection) -> float:
    """Return the probability with which a key of one unit is released."""
    above = (event.threshold - 1.0) / event.noise_scale
    if event.noise == "gaussian":
        return math.exp(float(log_ndtr(-above)))
    return 0.5 * math.exp(-above) if above >= 0.0 else 1.0 - 0.5 * math.exp(above)
