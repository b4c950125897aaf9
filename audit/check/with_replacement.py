"""Batches that are drawn with replacement: how often a record is in one, and what that proves."""

from __future__ import annotations

from typing import Final

TAIL_SHARE: Final = 0.1
"""The share of delta that pays for batches in which a record occurs more often than is counted."""


def most_occurrences(batch: int, records: int, steps: int, delta: float) -> tuple[int, float]:
    """Return a number m, and the probability that a record is in some batch more than m times.

    A record is in a batch of `batch` draws Binomial(batch, 1/records) times.  The probability is
    summed over `steps` batches and is at most a tenth of `delta`, unless m is `batch`.

    >>> most_occurrences(256, 60000, 3516, 1e-5)[0]
    3
    """
    from scipy.stats import binom

    for most in range(1, batch):
        tail = float(binom.sf(most, batch, 1.0 / records)) * steps
        if tail <= TAIL_SHARE * delta:
            return most, tail
    return batch, 0.0
