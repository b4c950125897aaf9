"""Which coordinates FLAME's users send: exactly uniform where drawn, the largest where not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from privplan.accountant.randomness import Streams
from privplan.fl.flame.selection import (
    decoy_coordinates,
    largest_coordinates,
    random_coordinates,
)

from ..cases import for_each

FALSE_ALARM = 1e-6
"""Of each test with a seed of its own choosing; the seeds are fixed, so a pass stays a pass."""


class Repeating:
    """A stream whose first words are given, and the others random."""

    def __init__(self, words: list[int]) -> None:
        self.words, self.stream = np.array(words, np.uint64), Streams.seeded(1).stream("others")

    def integers64(self, count: int) -> np.ndarray:
        first, self.words = self.words[:count], self.words[count:]
        return np.concatenate((first, self.stream.integers64(count - len(first))))


@for_each(("dimensions", "chosen"), [(5, 2), (6, 3), (4, 3), (5, 1)])
def test_every_set_is_as_likely(dimensions: int, chosen: int) -> None:
    stream = Streams.seeded(11).stream("choice")
    sets = random_coordinates(stream, 20_000, dimensions, chosen)
    assert (np.diff(sets, axis=1) > 0).all()
    number = {one: at for at, one in enumerate(combinations(range(dimensions), chosen))}
    drawn = [number[tuple(row)] for row in sets.tolist()]
    counts = np.bincount(drawn, minlength=len(number))
    assert chisquare(counts).pvalue > FALSE_ALARM


def test_users_choose_independently_and_decoys_are_a_uniform_set_of_the_others() -> None:
    """Pairs of sets of neighbouring users: all 36 of 6 x 6 as often."""
    stream = Streams.seeded(12).stream("choice")
    sets = random_coordinates(stream, 40_000, 4, 2)
    code = (4 * sets[:, 0] + sets[:, 1]).reshape(-1, 2)
    pairs = np.unique(code[:, 0] * 16 + code[:, 1], return_counts=True)[1]
    assert len(pairs) == 36
    assert chisquare(pairs).pvalue > FALSE_ALARM
    taken = np.tile([1, 4], (20_000, 1))
    found = decoy_coordinates(Streams.seeded(5).stream("decoys"), taken, 6, 2)
    assert not np.isin(found, [1, 4]).any()
    number = {one: at for at, one in enumerate(combinations([0, 2, 3, 5], 2))}
    counts = np.bincount([number[tuple(row)] for row in found.tolist()], minlength=6)
    assert chisquare(counts).pvalue > FALSE_ALARM


def test_blocks_of_users_choose_as_one_and_all_coordinates_are_one_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = random_coordinates(Streams.seeded(3).stream("choice"), 50, 7, 3)
    monkeypatch.setattr("privplan.fl.flame.selection._BLOCK_WORDS", 21)
    parts = random_coordinates(Streams.seeded(3).stream("choice"), 50, 7, 3)
    assert parts.tolist() == whole.tolist()
    stream = Streams.seeded(4).stream("choice")
    assert random_coordinates(stream, 2, 3, 3).tolist() == [[0, 1, 2]] * 2


def test_a_tie_at_the_edge_of_a_set_is_drawn_again_and_elsewhere_changes_nothing() -> None:
    tied = Repeating([5, 7, 7, 9, 1, 2, 3, 4])
    sets = random_coordinates(tied, 2, 4, 2)  # type: ignore[arg-type]
    again = np.sort(np.argsort(Streams.seeded(1).stream("others").integers64(4))[:2])
    assert sets.tolist() == [again.tolist(), [0, 1]]
    tied = Repeating([5, 5, 7, 9])
    assert random_coordinates(tied, 1, 4, 2).tolist() == [[0, 1]]  # type: ignore[arg-type]


def test_the_largest_count_by_size_equal_ones_by_position_and_no_number_never() -> None:
    rows = np.array([[1.0, -5.0, 3.0, -3.0], [0.0, 0.0, 0.0, 0.0], [2.0, -2.0, 2.0, 1.0]])
    assert largest_coordinates(rows, 2).tolist() == [[1, 2], [0, 1], [0, 1]]
    rows = np.array([[np.nan, np.inf, 0.5, -0.25]])
    assert largest_coordinates(rows, 2).tolist() == [[2, 3]]


def test_decoys_avoid_what_each_user_takes_and_none_are_none() -> None:
    taken = random_coordinates(Streams.seeded(6).stream("choice"), 500, 9, 3)
    found = decoy_coordinates(Streams.seeded(7).stream("decoys"), taken, 9, 6)
    everything = np.sort(np.concatenate((taken, found), axis=1), axis=1)
    assert (everything == np.arange(9)).all()
    stream = Streams.seeded(8).stream("decoys")
    assert decoy_coordinates(stream, np.zeros((3, 1), int), 4, 0).shape == (3, 0)
    assert stream.position == 0
