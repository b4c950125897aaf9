"""Every output of a small shuffle, written out."""

from __future__ import annotations

import itertools
import math


def enumerated(users: int, epsilon0: float, delta: float) -> float:
    """Return the smallest epsilon of binary reports without senders, over all other users' values.

    Every one of the 2^n outputs is listed for each data set; the shuffled one is their number of
    ones.  Slow, and exact but for the last digits.
    """
    truth = math.exp(epsilon0) / (1.0 + math.exp(epsilon0))

    def law(values: tuple[int, ...]) -> list[float]:
        found = [0.0] * (len(values) + 1)
        for output in itertools.product((0, 1), repeat=len(values)):
            chance = math.prod(
                truth if sent_ == value else 1.0 - truth
                for sent_, value in zip(output, values, strict=True)
            )
            found[sum(output)] += chance
        return found

    worst = 0.0
    for others in itertools.combinations_with_replacement((0, 1), users - 1):
        pair = law((0, *others)), law((1, *others))
        for one, other in (pair, pair[::-1]):
            low, high = 0.0, epsilon0
            for _ in range(60):
                middle = 0.5 * (low + high)
                excess = sum(
                    max(p - math.exp(middle) * q, 0.0) for p, q in zip(one, other, strict=True)
                )
                low, high = (middle, high) if excess > delta else (low, middle)
            worst = max(worst, high)
    return worst
