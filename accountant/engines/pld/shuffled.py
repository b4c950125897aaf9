"""Dominating pairs of shuffled rounds: the convex hull of a certified bound, as outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from ... import events as ev
from ...amplification.shuffling.attained import LogPair, lower_epsilon
from ...amplification.shuffling.rounds import class_tests, round_pair, round_tests
from ...guarantee import Neighbours, Step
from .pair import Pair
from .pair_parts import AtomPair
from .registry import DominatedMechanism, pairs


@dataclass(frozen=True, eq=False)
class OneSidedAtoms(AtomPair):
    """Outcomes of a lower bound on P against Q; the reverse bound has outcomes `backward`.

    Swapping the two would turn what was rounded down into what was rounded up.
    """

    backward: LogPair = (np.zeros(0), np.zeros(0))

    def reverse(self) -> AtomPair:
        """Return the lower bound on Q against P."""
        return OneSidedAtoms(
            *self.backward, has_heavy_atoms=self.has_heavy_atoms, backward=(self.log_p, self.log_q)
        )


def one_sided_pair(forward: LogPair, backward: LogPair) -> Pair:
    """Return the pair of two lower bounds, each (log P, log Q): P against Q, and Q against P."""
    return Pair.of_outcomes(OneSidedAtoms(*forward, has_heavy_atoms=False, backward=backward))


TEST_CHOICE_DELTA: Final = 1e-6
"""The delta at which the sharpest of several tests is chosen; any of them is sound."""


@pairs.register(ev.Shuffle)
def _shuffle(event: ev.Shuffle, neighbours: Neighbours) -> DominatedMechanism:
    return shuffled_round(event, neighbours)


@lru_cache(maxsize=64)
def shuffled_round(event: ev.Event, neighbours: Neighbours) -> DominatedMechanism:
    """Return the pair of a shuffled round, or of one of `FixedSize` or `Poisson` users.

    Replace-one, and zero-out as a case of it.  Raises `Unsupported` under add-remove, and for
    other events.
    """
    known = round_pair(event, neighbours)
    pair = Pair.of_outcomes(AtomPair(*known.outcomes, has_heavy_atoms=False))
    lower_pair = _sharpest(round_tests(event, neighbours))
    class_pair = _sharpest(class_tests(event, neighbours))
    steps = known.steps
    if lower_pair is not None:
        test = Step(
            "shuffling",
            "Lower end: an exact test on one concrete pair of data sets.",
            "derived in amplification/shuffling/attained.py",
        )
        steps = (*steps, test)
    return DominatedMechanism(pair, lower_pair, True, steps, class_pair=class_pair)


def _sharpest(tests: tuple[LogPair, ...]) -> Pair | None:
    """Return the pair of the test with the largest lower bound, with its bounds in both
    directions."""
    if not tests:
        return None
    sharpness = [lower_epsilon((test,), TEST_CHOICE_DELTA) for test in tests]
    best = sharpness.index(max(sharpness))
    return one_sided_pair(tests[best], tests[best ^ 1])  # tests come in twos, one for each order
