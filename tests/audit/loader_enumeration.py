"""Shuffled loaders of a few records, in all that they may do, and what the best adversary learns.

An adversary who sees the order of the records knows more than any that sees the sums alone, and
what that adversary learns is exact: for a record in draws of noise s_1, s_2, ... a Gaussian of mean
root(sum 1 / s^2), averaged over the orders.  So an epsilon that is called certain must not be above
that adversary's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy.stats import norm

from privplan.audit.description.run_description import Phase

MOVED = {"zero-out": 1.0, "add-remove": 1.0, "replace-one": 2.0}


@dataclass(frozen=True)
class Loader:
    """What a loader does with `records` in batches of `batch`, `together` in a draw.

    It keeps or `drops` a smaller last batch; batches that fill no draw are released (`flushes`) or
    not; it may start `anew` in each phase.
    """

    records: int
    batch: int
    together: int = 1
    drops: bool = False
    flushes: bool = True
    anew: bool = False

    def draws_of_a_pass(self) -> tuple[int, ...]:
        """Return how many records are in each draw of one pass."""
        full, rest = divmod(self.records, self.batch)
        batches = [self.batch] * full + ([rest] if rest and not self.drops else [])
        groups = [batches[i : i + self.together] for i in range(0, len(batches), self.together)]
        return tuple(sum(each) for each in groups if self.flushes or len(each) == self.together)

    def passes(self, phases: Sequence[Phase]) -> tuple[list[list[tuple[int, float]]], list[int]]:
        """Return each pass as (records, noise) of its draws, and how many passes were begun."""
        draws = self.draws_of_a_pass()
        passes: list[list[tuple[int, float]]] = []
        place = 0
        for phase in phases:
            place = 0 if self.anew else place
            for _ in range(phase.steps):
                if place == 0:
                    passes.append([])
                passes[-1].append((draws[place], phase.noise_multiplier))
                place = (place + 1) % len(draws)
        return passes, list(draws)

    def delta(self, phases: Sequence[Phase], epsilon: float, moved: float) -> float:
        """Return the delta at an epsilon of an adversary who sees the order of the records."""
        passes, _ = self.passes(phases)
        squares = {0.0: 1.0}
        for draws in passes:
            absent = 1.0 - sum(size for size, _ in draws) / self.records
            ways = [(size / self.records, noise**-2.0) for size, noise in draws] + [(absent, 0.0)]
            summed: dict[float, float] = {}
            for (square, chance), (share, more) in itertools.product(squares.items(), ways):
                key = round(square + more, 12)
                summed[key] = summed.get(key, 0.0) + chance * share
            squares = summed
        return math.fsum(
            chance * gaussian_delta(epsilon, moved * math.sqrt(square))
            for square, chance in squares.items()
        )


def gaussian_delta(epsilon: float, mean: float) -> float:
    """Return delta at an epsilon between N(0, 1) and N(mean, 1)."""
    if mean == 0.0:
        return 0.0
    first = norm.logcdf(mean / 2.0 - epsilon / mean)
    second = epsilon + norm.logcdf(-mean / 2.0 - epsilon / mean)
    return math.exp(first) - math.exp(second)


def loaders(records: int, batch: int, together: int) -> Iterator[Loader]:
    """Yield every loader that draws batches so: what it drops, releases, and when it begins."""
    for drops, flushes, anew in itertools.product((False, True), repeat=3):
        each = Loader(records, batch, together, drops, flushes, anew)
        if each.draws_of_a_pass():
            yield each


def rates(records: int, batch: int, drops: bool) -> tuple[float, ...]:
    """Return the rates that people write for batches: of the batch, or one over their number."""
    number = records // batch if drops else -(-records // batch)
    return tuple(dict.fromkeys((batch / records, 1.0 / number)))
