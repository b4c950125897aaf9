"""The blanket engine: one shuffled round, straight from its certified hockey-stick bound.

The upper end is the bound itself, solved for epsilon or evaluated at it: nothing is lost to a grid
of losses.  The lower end is an exact test on concrete data.  Several rounds, or a round among other
releases, are the pld engine's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from .. import events as ev
from .. import validate
from ..amplification.shuffling.attained import LogPair, lower_delta, lower_epsilon
from ..amplification.shuffling.binary_counts import binary_counts
from ..amplification.shuffling.profile import Profile, smallest_epsilon
from ..amplification.shuffling.rounds import class_tests, round_tests, shuffled, shuffled_profile
from ..composition import Composition
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step, unique_steps
from .base import Answer

_TEST: Final = Step(
    "shuffling",
    "Lower end: an exact test on one concrete pair of data sets.",
    "derived in amplification/shuffling/attained.py",
)

_COUNTED: Final = Step(
    "shuffling",
    "The count of ones is all that binary responses show; every cohort of zeros and ones is tried.",
    "derived in amplification/shuffling/binary_counts.py",
)


@dataclass(frozen=True)
class BlanketEngine:
    """Certified bounds for one shuffled round, of all users or of users drawn at random."""

    name: str = "blanket"

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at `delta` in [0, 1], in nats.

        The upper end is never above the local epsilon.  Raises `Unsupported` for anything but one
        round, and under add-remove.
        """
        delta = validate.probability(delta=delta)
        event = _single_round(composition)
        profile = shuffled_profile(event, neighbours)
        tests: tuple[LogPair, ...] = ()
        # At delta 0 only the largest loss holds; at delta 1 nothing is asked.
        if delta == 0.0:
            upper = profile.largest_loss
        elif delta == 1.0:
            upper = 0.0
        else:
            upper, tests = smallest_epsilon(profile, delta), _tests(composition, neighbours)
        counts = binary_counts(event)
        if counts is not None and 0.0 < delta < 1.0:
            upper, profile = counts.epsilon(delta, upper), _with_counts(profile)
        lower = lower_epsilon(tests, delta) if tests else 0.0
        return _answer(lower, upper, profile, tests, f"epsilon {upper:.6g} at delta {delta:.6g}")

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at `epsilon` (0 or above, in nats).

        Raises `Unsupported` for anything but one round, and under add-remove.
        """
        epsilon = validate.non_negative(epsilon=epsilon)
        event = _single_round(composition)
        profile = shuffled_profile(event, neighbours)
        log_delta = profile.log_delta(epsilon)
        # Up by more than the rounding of exp, and above 0 where exp underflows.
        upper = min(math.exp(min(log_delta, 0.0)) * (1.0 + 1e-13), 1.0)
        if log_delta > -math.inf and upper == 0.0:
            upper = math.nextafter(0.0, 1.0)
        counts = binary_counts(event)
        if counts is not None:
            upper, profile = min(upper, counts.delta(epsilon)), _with_counts(profile)
        tests = _tests(composition, neighbours)
        # Each test holds for its own order of the two data sets; the best of them counts.
        lower = max((lower_delta(test, epsilon) for test in tests), default=0.0)
        return _answer(lower, upper, profile, tests, f"delta {upper:.6g} at epsilon {epsilon:.6g}")


def _with_counts(profile: Profile) -> Profile:
    """Return the profile with the step that says that counts were looked at, too."""
    return replace(profile, steps=(*profile.steps, _COUNTED))


def _single_round(composition: Composition) -> ev.Event:
    event = composition.single
    if event is None or shuffled(event) is None:
        raise Unsupported(
            "The blanket engine takes one shuffled round, and nothing else.",
            next_step="Use pld, or leave the choice of the engine to privplan.",
        )
    return event


def _tests(composition: Composition, neighbours: Neighbours) -> tuple[LogPair, ...]:
    """Return the tests for the lower end; none where not all that is released is seen."""
    (leaf,) = composition
    if not leaf.fully_observed:
        return ()
    of_class = class_tests(leaf.event, neighbours) if leaf.worst_of_class else ()
    return (*round_tests(leaf.event, neighbours), *of_class)


def _answer(
    lower: float, upper: float, profile: Profile, tests: tuple[LogPair, ...], result: str
) -> Answer:
    conversion = Step(
        "conversion",
        f"The bound on delta, read at one order: {result}.",
        "by definition",
        ("the bound was evaluated at that very epsilon",),
    )
    test_steps = (_TEST,) if tests else ()
    steps = unique_steps((*profile.steps, *test_steps, conversion))
    return Answer(Bounds(lower, upper), steps)
