"""Words in place of numbers: their mean is the number, and their sum is unbiased."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import Gate, ResponseMessages, RoundDescription, Ticket
from privplan.accountant.randomness import Streams
from privplan.fl.flame.message_sums import unbiased_sums, words_of

from ..accountant.mechanism_tickets import Memory
from ..cases import for_each

FALSE_ALARM = 1e-6
"""Of each statistical test; the seeds are fixed, so a pass stays a pass."""


class Fractions:
    """A stream of the 53-bit fractions j / grid, one after the other."""

    def __init__(self, grid: int) -> None:
        self.grid = grid

    def integers64(self, count: int) -> np.ndarray:
        return np.arange(count, dtype=np.uint64) * np.uint64(2**64 // self.grid)


def opened(mechanism: ResponseMessages, draws: int = 1) -> Ticket:
    gate = Gate(None, Memory(), Streams.seeded(9))
    about = RoundDescription(1, "test", draws=draws, event_override=ev.NoGuarantee("a test"))
    return gate.open(mechanism.intent(about, "replace-one"))


@for_each("steps", [1, 2, 4, 16])
@for_each("value", [-0.25, -0.1875, 0.0, 0.078125, 0.25])
def test_the_mean_over_all_random_bits_is_the_value(steps: int, value: float) -> None:
    """Every fraction of a grid of 2^10, on which these values stand: the mean is exact."""
    grid = 2**10
    found = words_of(Fractions(grid), np.full(grid, value), 0.25, steps)  # type: ignore[arg-type]
    mean = Fraction(int(found.sum()), grid)
    assert mean == (Fraction(value) + Fraction(1, 4)) * steps * 2
    assert found.max() - found.min() <= 1


def test_values_are_clipped_and_rounding_goes_up_with_the_fraction() -> None:
    stream = Streams.seeded(1).stream("rounding")
    values = np.array([[-9.0, 9.0, np.nan], [np.inf, -np.inf, 0.0]])
    assert words_of(stream, values, 0.5, 4).tolist() == [[0, 4, 2], [2, 2, 2]]
    found = words_of(Streams.seeded(2).stream("rounding"), np.full(20_000, 0.1), 0.5, 4)
    assert set(found.tolist()) == {2, 3}
    assert binomtest(int((found == 3).sum()), 20_000, 0.4).pvalue > FALSE_ALARM


def response_law(steps: int, epsilon: float) -> np.ndarray:
    """Return P(sent | meant), (steps + 1, steps + 1): e^eps against 1, as in the source."""
    odds = np.ones((steps + 1, steps + 1)) + np.eye(steps + 1) * (math.exp(epsilon) - 1.0)
    return odds / (math.exp(epsilon) + steps)


@for_each("steps", [1, 2, 3])
@for_each("epsilon", [0.5, 2.0])
def test_sums_are_unbiased_over_all_randomness(steps: int, epsilon: float) -> None:
    """Two users and a dummy: every rounding and every word that may be sent, by its probability."""
    clip, values = 0.5, (0.2, -0.35)
    law = response_law(steps, epsilon)
    sent = []
    for value in values:
        scaled = (value + clip) * steps / (2 * clip)
        lower, up = math.floor(scaled), scaled - math.floor(scaled)
        sent.append((1 - up) * law[lower] + up * law[min(lower + 1, steps)])
    sent.append(np.full(steps + 1, 1 / (steps + 1)))  # a dummy
    mean = total = 0.0
    for words in product(range(steps + 1), repeat=3):
        chance = math.prod(part[word] for part, word in zip(sent, words, strict=True))
        total += chance
        estimate = unbiased_sums(np.array([sum(words)]), 3, epsilon, clip, steps)
        mean += chance * float(estimate[0])
    assert total == pytest.approx(1.0, abs=1e-12)
    assert mean == pytest.approx(sum(values), abs=1e-12)


def test_the_words_1_to_b_as_printed_would_be_biased() -> None:
    """The control: a dummy of the words 1 to b has its mean above the middle."""
    found = unbiased_sums(np.array([1 + 2 + 3]), 3, 1.0, 0.5, 3)
    assert float(found[0]) > 0.5


@for_each("steps", [2, 5])
def test_randomized_response_sends_each_word_with_its_probability(steps: int) -> None:
    mechanism = ResponseMessages(1.5, steps + 1)
    words = np.full((30_000, 1), 1)
    found = mechanism.messages(opened(mechanism), words, "messages")
    counts = Counter(found[:, 0].tolist())
    law = response_law(steps, 1.5)[1]
    observed = np.array([counts[word] for word in range(steps + 1)])
    assert observed.sum() == 30_000
    assert chisquare(observed, law * 30_000).pvalue > FALSE_ALARM
