"""Dominating pairs of shuffled rounds: the convex hull of a certified bound, as outcomes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ... import events as ev
from ...amplification.shuffling.attained import lower_epsilon
from ...amplification.shuffling.rounds import round_pair, round_tests
from ...guarantee import Neighbours, Step
from .atoms import AtomPair
from .ordered import attained_pair
from .pair import Pair
from .registry import Dominated, pairs

USUAL_DELTA: Final = 1e-6
"""The delta at which the sharpest of several tests is chosen; any of them is sound."""


@pairs.register(ev.Shuffle)
def _shuffle(event: ev.Shuffle, neighbours: Neighbours) -> Dominated:
    return users_drawn(event, neighbours)


@lru_cache(maxsize=64)
def users_drawn(event: ev.Event, neighbours: Neighbours) -> Dominated:
    """Return the pair of a shuffled round, or of one of `FixedSize` or `Poisson` users.

    Replace-one, and zero-out as a case of it.  Raises `Unsupported` under add-remove, and for
    other events.
    """
    known = round_pair(event, neighbours)
    pair = Pair.of_outcomes(AtomPair(*known.outcomes, few=False))
    attained = _attained(event, neighbours)
    steps = known.steps
    if attained is not None:
        test = Step(
            "shuffling",
            "Lower end: an exact test on one concrete pair of data sets.",
            "derived in amplification/shuffling/attained.py",
        )
        steps = (*steps, test)
    return Dominated(pair, attained, True, steps)


def _attained(event: ev.Event, neighbours: Neighbours) -> Pair | None:
    """Return the sharpest test: the pair in its order, and the same test in the other one."""
    tests = round_tests(event, neighbours)
    if not tests:
        return None
    sharpness = [lower_epsilon((test,), USUAL_DELTA) for test in tests]
    best = sharpness.index(max(sharpness))
    return attained_pair(tests[best], tests[best ^ 1])  # tests come in twos, one for each order
