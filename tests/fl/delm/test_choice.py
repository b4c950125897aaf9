"""Which clients are averaged: against a slow oracle, and with the paper's exponent."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms.selection import choose
from privplan.accountant.randomness import Streams
from privplan.fl.delm.choice import ClientChoice, divergence

from ...cases import for_each
from ...chance import FALSE_ALARM

SCORES = np.array([0.0, 0.25, 0.5, 1.0])


def oracle(scores: np.ndarray, exponent: float, chosen: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every set, by enumeration of all orders of drawing it."""
    weights = [math.exp(exponent * score) for score in scores]
    law: dict[tuple[int, ...], float] = {}
    for order in permutations(range(len(scores)), chosen):
        left, probability = sum(weights), 1.0
        for at in order:
            probability *= weights[at] / left
            left -= weights[at]
        law[tuple(sorted(order))] = law.get(tuple(sorted(order)), 0.0) + probability
    return law


def p_value(exponent: float, chosen: int, *, of: float, trials: int = 500) -> float:
    """Return chi-square's p-value that draws by one exponent have the law of another."""
    stream, law = Streams.seeded(7).stream("choice"), oracle(SCORES, of, chosen)
    seen = Counter(
        tuple(sorted(choose(stream, SCORES, Fraction(exponent), chosen))) for _ in range(trials)
    )
    assert sum(law.values()) == pytest.approx(1.0)
    sets = list(combinations(range(4), chosen))
    expected = [trials * law[each] for each in sets]
    return float(stats.chisquare([seen[each] for each in sets], expected).pvalue)


@for_each("exponent, chosen", [(-3.0, 1), (-3.0, 3), (1.5, 2), (1.5, 3), (-0.015, 2)])
def test_clients_are_drawn_with_the_probabilities_of_the_exponential_mechanism(
    exponent: float, chosen: int
) -> None:
    """500 draws, chi-square, a false alarm in 10^6 for all cases together."""
    assert p_value(exponent, chosen, of=exponent) > FALSE_ALARM / 5


@for_each("of", [-3.0, 1.5, 6.0])
def test_the_test_above_tells_an_exponent_without_its_sign_or_of_half_the_size(of: float) -> None:
    """Power: with another exponent the same test has a p-value of nothing."""
    assert p_value(3.0, 1, of=of, trials=400) < 1e-12


def test_the_published_exponent_is_nearly_uniform() -> None:
    choice = ClientChoice("divergence", 50, 100, 3.0)
    assert choice.exponent == Fraction(-3, 200)
    assert math.exp(-float(choice.exponent)) == pytest.approx(1.015, abs=2e-4)


def test_divergence_counts_signs_that_differ() -> None:
    last = np.array([1.0, -1.0, 0.0, 2.0])
    messages = np.array([[3.0, -2.0, 0.0, 1.0], [-1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 0.0, 1.0]])
    assert divergence(messages, last).tolist() == [0.0, 1.0, 0.25]
    assert divergence(messages, np.zeros(4)).tolist() == [0.0, 0.0, 0.0]


def test_top_k_takes_the_least_divergent_and_draws_nothing() -> None:
    last = np.ones(4)
    messages = np.array([[1, -1, -1, -1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, -1]], np.float64)
    choice = ClientChoice("top-k", 2, 4)
    assert choice.choose(None, messages, last).tolist() == [1, 2]
    assert choice.choose(None, messages[::-1], last).tolist() == [1, 2]
    assert choice.choose(None, messages, np.zeros(4)).tolist() == [0, 1]  # all are alike


def test_uniform_takes_every_set_as_often() -> None:
    """1,000 draws of 2 of 4, chi-square, a false alarm in 10^6."""
    stream, choice = Streams.seeded(5).stream("choice"), ClientChoice("uniform", 2, 4)
    seen = Counter(
        tuple(choice.choose(stream, np.zeros((4, 2)), np.zeros(2)).tolist()) for _ in range(1000)
    )
    assert len(seen) == 6
    assert stats.chisquare(list(seen.values())).pvalue > FALSE_ALARM


@for_each("scores", [[0.0, math.nan], [0.0]])
def test_scores_that_are_no_numbers_or_too_few_are_refused(scores: list[float]) -> None:
    stream = Streams.seeded(0).stream("choice")
    with pytest.raises(InvalidInput):
        choose(stream, scores, Fraction(1), 2)


def test_an_exponent_beyond_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="exponent"):
        choose(Streams.seeded(0).stream("c"), [0.0, 1.0], Fraction(10**101))
