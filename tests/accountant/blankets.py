"""Randomizers, and delta from a profile, for the tests of the blanket bound and of its engine."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache

from privplan.accountant.amplification.shuffling.profile import Profile
from privplan.accountant.amplification.shuffling.randomizers import (
    GaussianRandomizer,
    LaplaceRandomizer,
    ResponseRandomizer,
)


def delta_of(profile: Profile, epsilon: float) -> float:
    return math.exp(profile.log_delta(epsilon))


@cache
def histogram(values: tuple[int, ...], categories: int, epsilon0: float) -> dict[object, float]:
    """Return the law of the histogram of randomized responses to these values."""
    first = 1.0 / (math.exp(epsilon0) + categories - 1.0)
    law: Counter[tuple[int, ...]] = Counter({(0,) * categories: 1.0})
    for value in values:
        after: Counter[tuple[int, ...]] = Counter()
        for seen, mass in law.items():
            for message in range(categories):
                more = tuple(c + (position == message) for position, c in enumerate(seen))
                after[more] += mass * first * (math.exp(epsilon0) if message == value else 1.0)
        law = after
    return dict(law)


RANDOMIZERS = [
    LaplaceRandomizer(0.01),
    LaplaceRandomizer(1.0),
    LaplaceRandomizer(6.0),
    ResponseRandomizer(1.0, 2),
    ResponseRandomizer(3.0, 7),
    GaussianRandomizer(1.0),
    GaussianRandomizer(3.0),
]
