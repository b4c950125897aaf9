"""Whole rounds of sampled shuffling, enumerated: every set that may be chosen, every message.

Nothing here comes from the package, so that its bounds can be tested against it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

Set = tuple[int, ...]


class Rounds:
    """Rounds of users who send randomized responses, the true one e^epsilon0 times as likely.

    The analyzer sees the histogram of each dimension, or that the round stopped.
    """

    def __init__(self, epsilon0: float, categories: int, padded_to: int) -> None:
        total = math.exp(epsilon0) + categories - 1.0
        self.gamma = categories / total
        self.categories, self.padded_to = categories, padded_to
        self.dummy = np.full(categories, 1.0 / categories)
        self.answers = np.full((categories, categories), 1.0 / total)
        np.fill_diagonal(self.answers, math.exp(epsilon0) / total)

    def histogram(self, laws: Iterable[np.ndarray]) -> np.ndarray:
        """The law of a histogram of independent messages, but for the last category's count."""
        found = np.zeros((self.padded_to + 1,) * (self.categories - 1))
        found[(0,) * (self.categories - 1)] = 1.0
        for law in laws:
            counted = [law[y] * np.roll(found, 1, axis=y) for y in range(self.categories - 1)]
            found = sum(counted, law[-1] * found)
        return found.ravel()

    @functools.cache  # noqa: B019  (a few small rounds)
    def dimension(self, values: tuple[int, ...]) -> np.ndarray:
        """One dimension with users of these values: filled with dummies, or cut at random."""
        real = [self.answers[value] for value in values]
        room = self.padded_to - len(real)
        if room >= 0:
            return self.histogram([*real, *[self.dummy] * room])
        kept = list(itertools.combinations(real, self.padded_to))
        return sum(self.histogram(each) for each in kept) / len(kept)

    def given_sets(
        self, sets: Sequence[Set], values: Sequence[Sequence[int]], dimensions: int, stops: bool
    ) -> np.ndarray:
        """A round in which user i sends values[i][j] in every dimension j of sets[i].

        The last entry is the probability that it stops.
        """
        law = np.ones(1)
        for j in range(dimensions):
            sent = zip(sets, values, strict=True)
            real = tuple(sorted(value[j] for chosen, value in sent if j in chosen))
            if stops and len(real) > self.padded_to:
                size = (self.padded_to + 1) ** ((self.categories - 1) * dimensions)
                return np.append(np.zeros(size), 1.0)
            law = np.multiply.outer(law, self.dimension(real)).ravel()
        return np.append(law, 0.0)

    def oblivious(
        self, values: Sequence[Sequence[int]], dimensions: int, chosen: int, stops: bool
    ) -> np.ndarray:
        """The mean of `given_sets` over what all users choose."""
        choices = list(itertools.product(subsets(dimensions, chosen), repeat=len(values)))
        laws = (self.given_sets(sets, values, dimensions, stops) for sets in choices)
        return sum(laws) / len(choices)


def subsets(dimensions: int, chosen: int) -> list[Set]:
    return list(itertools.combinations(range(dimensions), chosen))


def hockey_stick(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())
