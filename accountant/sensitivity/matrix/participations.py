"""In which rounds one unit may contribute together: patterns, and how many there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from ... import events as ev
from ...arrays import IndexArray
from ...errors import Unsupported
from ...events.matrices import require_fit

MAX_PATTERNS: Final = 20_000
"""Most patterns that are looked at one by one."""


@dataclass(frozen=True)
class SeparatedRounds:
    """At most `most` of `steps` rounds, any two of them at least `separation` apart.

    `most` is no more than fit: with `separation` b at most ceil(T / b) do.
    """

    steps: int
    most: int
    separation: int

    @property
    def count(self) -> int:
        """How many patterns there are, those that are parts of others too, or too many."""
        total = 0
        for size in range(1, self.most + 1):
            total += math.comb(self._squeezed(size), size)
            if total > MAX_PATTERNS:
                break
        return total

    def patterns(self) -> list[IndexArray]:
        """Return all patterns.

        A pattern of fewer than `most` rounds need not be a part of a larger one: of three rounds
        with separation 2, round 1 stands alone.
        """
        result: list[IndexArray] = []
        for size in range(1, self.most + 1):
            stretch = np.arange(size) * (self.separation - 1)
            chosen = combinations(range(self._squeezed(size)), size)
            result += [np.array(rounds, np.intp) + stretch for rounds in chosen]
        return result

    def _squeezed(self, size: int) -> int:
        # With the gaps that must be there taken out, any `size` of the rounds left are a pattern.
        return self.steps - (size - 1) * (self.separation - 1)


def as_separated(participation: ev.Participation, steps: int) -> SeparatedRounds | None:
    """Return a participation as a separated one, or None where its patterns are few and fixed."""
    match participation:
        case ev.SingleParticipation():
            return SeparatedRounds(steps, 1, steps)
        case ev.SeparatedParticipation(most, separation):
            fitting = -(-steps // separation)
            return SeparatedRounds(steps, min(most, fitting), min(separation, steps))
        case _:
            return None


def fixed_stride(participation: ev.Participation, steps: int) -> int:
    """Return how far apart a unit's rounds are, in a participation that has one in each pass.

    Raises `InvalidInput` for one that does not fit `steps` rounds.
    """
    require_fit(participation, steps)
    match participation:
        case ev.EpochParticipation(epochs):
            return steps // epochs
        case ev.BallsInBins(bins):
            return bins
        case _:
            raise Unsupported(f"The participation `{participation.type}` is not known here.")


def strided_patterns(stride: int, steps: int) -> list[IndexArray]:
    """Return the patterns i, i + stride, i + 2 stride, ... of `steps` rounds."""
    return [np.arange(first, steps, stride) for first in range(stride)]
