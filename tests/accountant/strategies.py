"""Slow answers about a strategy, by going through patterns, signs and vectors one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from privplan.accountant import events as ev


def patterns(participation: ev.Participation, steps: int) -> Iterator[list[int]]:
    """Yield every set of rounds in which one unit may contribute, largest sets or not."""
    match participation:
        case ev.SingleParticipation():
            yield from ([each] for each in range(steps))
        case ev.SeparatedParticipation(most, separation):
            for size in range(1, most + 1):
                for rounds in itertools.combinations(range(steps), size):
                    if all(
                        after - before >= separation for before, after in itertools.pairwise(rounds)
                    ):
                        yield list(rounds)
        case ev.EpochParticipation(epochs):
            stride = steps // epochs
            yield from (list(range(first, steps, stride)) for first in range(stride))
        case ev.BallsInBins(bins):
            yield from (list(range(first, steps, bins)) for first in range(bins))


def by_ones(matrix: np.ndarray, participation: ev.Participation) -> float:
    """Return the largest norm where a unit contributes 1 in each round: too little in general."""
    chosen = patterns(participation, matrix.shape[1])
    return max(float(np.linalg.norm(matrix[:, rounds].sum(axis=1))) for rounds in chosen)


def by_signs(matrix: np.ndarray, participation: ev.Participation) -> float:
    """Return the largest norm over patterns and signs: exact where contributions are numbers."""
    largest = 0.0
    for rounds in patterns(participation, matrix.shape[1]):
        for signs in itertools.product((1.0, -1.0), repeat=len(rounds)):
            largest = max(largest, float(np.linalg.norm(matrix[:, rounds] @ np.array(signs))))
    return largest


def by_magnitudes(matrix: np.ndarray, participation: ev.Participation) -> float:
    """Return the root of the largest sum of |C^T C|: enough in any case."""
    gram = np.abs(matrix.T @ matrix)
    chosen = patterns(participation, matrix.shape[1])
    return max(math.sqrt(gram[np.ix_(rounds, rounds)].sum()) for rounds in chosen)


def by_vectors(
    matrix: np.ndarray,
    participation: ev.Participation,
    generator: np.random.Generator,
    dimensions: int,
    tries: int,
) -> float:
    """Return the largest norm that random vectors of norm 1 and less reach: never too much."""
    largest = 0.0
    for rounds in patterns(participation, matrix.shape[1]):
        vectors = generator.standard_normal((tries, len(rounds), dimensions))
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        vectors[::2] *= generator.uniform(0.5, 1.0, (len(vectors[::2]), len(rounds), 1))
        moved = np.linalg.norm(np.einsum("rj,tjd->trd", matrix[:, rounds], vectors), axis=(1, 2))
        largest = max(largest, float(moved.max()))
    return largest
