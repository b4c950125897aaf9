"""Lower bounds for sampled shuffling: one concrete pair of data sets, and a count over dimensions.

The user holds 1 in every coordinate, or 0 (randomized response: two categories).  Messages are
sorted into bins whose numbers are added up, as in `attained`.

* **Oblivious choice.**  All other users hold the same harmless value (1/2; a third category).  The
  sum goes over all dimensions: whoever chose what, it is over d n_p messages, k of them the user's
  and k (n - 1) the others', unless a dimension overflows; if the round then stops, the analyzer
  sees that, so a test may leave it out, and P loses that probability.
* **Data-dependent choice**, by a rule such as the k largest.  Both neighbours choose the same k
  dimensions, and each is a test of its own.  The others choose other dimensions (if there are 2 k),
  so that dummies fill these, or the same ones, with value 0 or a third category.

Where another value of the user counts (zero-out: 1/2, add-remove: dummies), that is what 1 is
compared with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from ... import events as ev
from ...guarantee import Neighbours
from .attained import (
    MAX_ATTAINED_USERS,
    Bins,
    LogPair,
    lower_epsilon,
    noise_bins,
    response_bins,
    summed_pairs,
)
from .double import overflow_probability
from .lattice import Part
from .randomizers import LaplaceRandomizer, ResponseRandomizer, randomizer_of

MAX_OVERFLOW_PROBABILITY: Final = 0.01
"""Where overflow is more likely than that, no test is made."""

MAX_TESTED_EPSILON: Final = 200.0
"""Nor for randomizers that hide less than that."""


@dataclass(frozen=True, eq=False)
class AttainedRound:
    """What a round attains: `copies` of the pair, in either order; each holds for its own order."""

    forward: LogPair
    backward: LogPair
    copies: int


def sampled_test(event: ev.SampledShuffle, neighbours: Neighbours) -> AttainedRound | None:
    """Return what one round of coordinate-wise sampled shuffling attains, None if nothing is known.

    A stated local epsilon names no mechanism, and Gaussian noise is not tested.
    """
    randomizer = randomizer_of(event.event)
    if not isinstance(randomizer, (LaplaceRandomizer, ResponseRandomizer)):
        return None
    if event.granularity != "coordinate" or not 1e-6 <= randomizer.epsilon0 <= MAX_TESTED_EPSILON:
        return None
    if neighbours == "zero-out" and isinstance(randomizer, ResponseRandomizer):
        return None
    if event.selection == "oblivious":
        return _pooled(event, randomizer, neighbours)
    return _separate(event, randomizer, neighbours)


def _pooled(
    event: ev.SampledShuffle,
    randomizer: LaplaceRandomizer | ResponseRandomizer,
    neighbours: Neighbours,
) -> AttainedRound | None:
    failure = overflow_probability(event)
    messages, real = event.dimensions * event.padded_to, event.chosen * event.users
    stops = event.overflow == "refuse" and failure <= MAX_OVERFLOW_PROBABILITY
    if not (failure == 0.0 or stops) or messages > MAX_ATTAINED_USERS or real > messages:
        return None
    bins = _bins(randomizer, 0.5, 6 * messages, neighbours)  # so many do not need finer ones
    # All others' coordinates at the harmless value, and dummies up to d n_p.
    others = [Part(bins.others, real - event.chosen), Part(bins.middle, messages - real)]
    pair = summed_pairs(others, bins, event.chosen)
    # The test leaves out rounds that stop: P is lowered by their probability, Q is not.
    log_no_overflow = math.log1p(-failure)
    forward, backward = ((log_p + log_no_overflow, log_q) for log_p, log_q in pair)
    return _ordered(forward, backward, 1, neighbours)


def _separate(
    event: ev.SampledShuffle,
    randomizer: LaplaceRandomizer | ResponseRandomizer,
    neighbours: Neighbours,
) -> AttainedRound | None:
    fits = event.padded_to >= event.users
    elsewhere = event.dimensions >= 2 * event.chosen
    if event.padded_to > MAX_ATTAINED_USERS or not (
        fits or (event.overflow == "cap" and elsewhere)
    ):
        return None
    tests = []
    # The others choose other dimensions: dummies fill these.
    if elsewhere:
        bins = _bins(randomizer, 0.5, event.padded_to, neighbours)
        pair = summed_pairs([Part(bins.middle, event.padded_to - 1)], bins, 1)
        tests.append(_ordered(*pair, event.chosen, neighbours))
    # The others choose the same dimensions, with value 0 or a third category.
    if fits:
        bins = _bins(randomizer, 0.0, event.padded_to, neighbours)
        dummies = Part(bins.middle, event.padded_to - event.users)
        pair = summed_pairs([Part(bins.others, event.users - 1), dummies], bins, 1)
        tests.append(_ordered(*pair, event.chosen, neighbours))
    return max(tests, key=lambda test: max(_strength(test.forward), _strength(test.backward)))


def _bins(
    randomizer: LaplaceRandomizer | ResponseRandomizer,
    others: float,
    messages: int,
    neighbours: Neighbours,
) -> Bins:
    """Return bins whose neighbours are those of the relation; the middle is what a dummy sends."""
    if isinstance(randomizer, ResponseRandomizer):
        bins = response_bins(randomizer)
    else:
        bins = noise_bins(randomizer, others, messages)
    return bins if neighbours == "replace-one" else replace(bins, second=bins.middle)


def _ordered(
    forward: LogPair, backward: LogPair, copies: int, neighbours: Neighbours
) -> AttainedRound:
    """Return the stronger order first where a user may swap the two values in any round alone.

    Otherwise the user's own value goes first, as in all other releases.
    """
    if neighbours == "replace-one" and _strength(backward) > _strength(forward):
        forward, backward = backward, forward
    return AttainedRound(forward, backward, copies)


def _strength(pair: LogPair) -> float:
    """Return how far apart a pair is, about where bounds are asked for."""
    return lower_epsilon([pair], 1e-4)
