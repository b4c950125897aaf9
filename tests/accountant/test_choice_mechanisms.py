"""Randomized response and exponential selection: exact laws, no leak by the randomness used.

Statistical tests use seeded streams; on a fresh seed each fails with probability 1e-6 at most.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Exponential, RandomizedResponse, RoundDescription
from privplan.accountant.sensitivity import selection

from ..cases import for_each
from .mechanism_tickets import LEAST_P, ticket_for


@for_each(("epsilon", "categories"), [(0.0, 3), (1.0, 2), (2.0, 5)])
def test_reports_have_their_law(epsilon: float, categories: int) -> None:
    own = RandomizedResponse(epsilon, categories)
    count, truth = 100_000, 1
    found = own.reports(ticket_for(own), np.full(count, truth), "a")
    counts = np.bincount(found, minlength=categories)
    weights = np.ones(categories)
    weights[truth] = math.exp(epsilon)
    assert stats.chisquare(counts, weights / weights.sum() * count).pvalue > LEAST_P


def test_certain_reports_at_an_extreme_epsilon() -> None:
    own = RandomizedResponse(700.0, 3)
    assert own.reports(ticket_for(own), [0, 1, 2], "a").tolist() == [0, 1, 2]


def test_reports_use_as_much_randomness_whatever_the_values() -> None:
    own = RandomizedResponse(1.0, 7)
    positions = set()
    for values in (np.zeros(500, dtype=int), np.arange(500) % 7):
        ticket = ticket_for(own)
        own.reports(ticket, values, "a")
        positions.add(ticket.stream("a").position)
    assert len(positions) == 1


def test_randomized_response_is_for_replace_one() -> None:
    own = RandomizedResponse(1.0, 4)
    assert own.event("replace-one") == ev.RandomizedResponse(1.0, 4)
    for relation in ("add-remove", "zero-out"):
        with pytest.raises(Unsupported, match="who reports"):
            own.event(relation)
    stated = own.intent(RoundDescription(1, "ask"), "replace-one")
    assert (stated.noise.family, stated.noise.std) == ("randomized-response", 0.0)


@for_each("values", [[4], [-1], [0.5], [[1]], ["a"]])
def test_values_out_of_range_are_refused_and_not_shown(values: Any) -> None:
    own = RandomizedResponse(1.0, 4)
    with pytest.raises(InvalidInput) as caught:
        own.reports(ticket_for(own), values, "a")
    assert "it is" not in str(caught.value)
    for given_values in ({"epsilon": -1.0}, {"categories": 1}, {"categories": 2**41}):
        with pytest.raises(InvalidInput):
            replace(own, **given_values)


def law_of(own: Exponential, scores: list[float]) -> np.ndarray:
    weights = np.exp(float(own.exponent) * (np.array(scores) - max(scores)))
    return np.asarray(weights / weights.sum())


@for_each("change", selection.CHANGES)
def test_selection_has_its_law(change: Any) -> None:
    """An exponent that is twice as large, or half, is told but with chance 1e-11."""
    own = Exponential(2.0, 0.5, "add-remove", change)
    scores = [0.25, 1.0, 0.5, 0.75, 0.0]
    ticket = ticket_for(own, draws=1500)
    chosen = [own.select(ticket, scores, "a")[0] for _ in range(1500)]
    expected = law_of(own, scores) * 1500
    assert stats.chisquare(np.bincount(chosen, minlength=5), expected).pvalue > LEAST_P


def test_selection_without_replacement_is_one_draw_after_the_other() -> None:
    own = Exponential(2.0, 1.0, "add-remove")
    scores = [0.0, 1.0, 0.5]
    ticket = ticket_for(own, draws=3000)
    counts = Counter(tuple(own.select(ticket, scores, "a", count=2)) for _ in range(1500))
    weights = law_of(own, scores)
    expected = [
        1500 * weights[i] * weights[j] / (1 - weights[i]) for i, j in permutations(range(3), 2)
    ]
    found = [counts[pair] for pair in permutations(range(3), 2)]
    assert sum(found) == 1500
    assert stats.chisquare(found, expected).pvalue > LEAST_P


def test_the_exponent_spans_the_stated_range() -> None:
    """The event's epsilon is what `selection` proves for this exponent, and no less."""
    for change in selection.CHANGES:
        own = Exponential(0.7, 0.3, "add-remove", change)  # type: ignore[arg-type]
        spread = selection.draw_range(own.exponent, 0.3, change=change)
        assert own.event("add-remove") == ev.Exponential(0.7)
        assert spread == pytest.approx(0.7, rel=1e-15)
        times = 2 if change == "generic" else 1
        assert own.exponent * times * Fraction(0.3) == Fraction(0.7)


def test_neighbouring_scores_keep_the_ratio() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    for before, after in (([0.0, 1.0, 2.0], [1.0, 0.0, 3.0]), ([5.0, 5.0], [4.0, 6.0])):
        ratio = np.abs(np.log(law_of(own, before) / law_of(own, after)))
        assert ratio.max() <= 1.0 + 1e-12


def test_selection_shows_nothing_by_the_randomness_it_uses() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    for scores in ([0.0] * 3, [0.0, 1e9, -1e9], list(np.linspace(0, 1, 1000))):
        ticket = ticket_for(own, draws=3)
        own.select(ticket, scores, "a", count=3)
        assert ticket.stream("a").position == 32


def test_extreme_scores() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    top = float(np.finfo(np.float64).max)
    for scores in ([top, -top], [0.0, -1e4], [1e300, 1e300 * (1 - 1e-10)]):
        assert own.select(ticket_for(own), scores, "a") == [0]
    assert sorted(own.select(ticket_for(own, 3), [top, -top, 0.0], "a", count=3)) == [0, 1, 2]


@for_each(
    "scores", [[], [1.0], [math.nan, 1.0], [math.inf, 1.0], [[1.0, 2.0]], np.zeros(2**20 + 1)]
)
def test_scores_are_checked_and_not_shown(scores: Any) -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    ticket = ticket_for(own, draws=2)
    with pytest.raises(InvalidInput, match="Scores"):
        own.select(ticket, scores, "a", count=2)


def test_selection_is_for_its_relation() -> None:
    own = Exponential(1.0, 1.0, "replace-one")
    for ask in (own.event, own.sensitivity):
        with pytest.raises(Unsupported, match="replace-one"):
            ask("add-remove")
    assert own.event("replace-one") == ev.Exponential(1.0)
    for given_values in (
        {"epsilon": 0.0},
        {"score_bound": 0.0},
        {"relation": "swap"},
        {"change": "any"},
        {"epsilon": 1e-300},
    ):
        with pytest.raises(InvalidInput):
            replace(own, **given_values)
