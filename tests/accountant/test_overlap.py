"""Coordinates whose choice depends on data: what decoys everywhere leave, and few messages."""

from __future__ import annotations

import math

import numpy as np
import pytest

import privplan as pp
from privplan import events as ev

from ..cases import for_each
from .sampled_rounds import hockey_stick


def response(epsilon: float, words: int, word: int) -> np.ndarray:
    """Return the law of k-ary randomized response."""
    law = np.full(words, 1.0 / (math.exp(epsilon) + words - 1.0))
    law[word] *= math.exp(epsilon)
    return law


def binned_laplace(centre: float, scale: float) -> np.ndarray:
    """Return the law of Laplace noise around a value, in bins; a post-processing of it."""
    edges = np.linspace(-1.0 - 12.0 * scale, 1.0 + 12.0 * scale, 241)
    away = (edges - centre) / scale
    below = np.where(away < 0.0, 0.5 * np.exp(away), 1.0 - 0.5 * np.exp(-np.abs(away)))
    return np.diff(np.concatenate(([0.0], below, [1.0])))


@for_each(("users", "chosen"), [(1, 31), (2, 31), (1, 16), (1, 3)])
def test_what_no_other_message_hides_is_local_to_the_last_digit(users: int, chosen: int) -> None:
    selection = "oblivious" if chosen > 3 else "data-dependent"
    fields = (users, 31, chosen, users, "coordinate", selection, "refuse")
    event = ev.Repeat(2, ev.SampledShuffle(*fields, ev.Laplace(1.0)))
    alone = ev.Repeat(2 * chosen, ev.Laplace(1.0))
    numbers = [
        pp.account(each, delta=1e-5, neighbours="replace-one").epsilon.upper
        for each in (event, alone)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-6)


@for_each("rounds", [1, 2])
@for_each(
    ("users", "noise", "overflow"),
    [(2, 1.0, "refuse"), (4, 0.25, "refuse"), (12, 1.0, "cap"), (60, 0.25, "refuse")],
)
def test_few_messages_cost_no_more_than_without_a_shuffler(
    users: int, noise: float, overflow: str, rounds: int
) -> None:
    """k messages of each round, whichever dimensions they are in."""
    fields = (users, 31, 3, users, "coordinate", "data-dependent", overflow)
    event = ev.Repeat(rounds, ev.SampledShuffle(*fields, ev.Laplace(noise)))
    bounds = pp.account(event, delta=1e-5, neighbours="replace-one").epsilon
    local = ev.Repeat(3 * rounds, ev.Laplace(noise))
    alone = pp.account(local, delta=1e-5, neighbours="replace-one").epsilon
    assert bounds.lower <= bounds.upper <= alone.upper * (1.0 + 2e-3)
    assert alone.upper <= 3 * rounds * 2.0 / noise


LAWS = {
    "2 words": [response(1.0, 2, 0), response(1.0, 2, 1), np.full(2, 0.5)],
    "5 words": [response(4.0, 5, 0), response(4.0, 5, 3), np.full(5, 0.2)],
    "one word twice": [response(2.0, 3, 1), response(2.0, 3, 1), np.full(3, 1.0 / 3.0)],
    "Laplace, much noise": [binned_laplace(x, 2.0) for x in (-1.0, 1.0, 0.0)],
    "Laplace, little": [binned_laplace(x, 0.4) for x in (-1.0, 1.0, 0.0)],
    "Laplace, on one side": [binned_laplace(x, 0.5) for x in (0.9, 1.0, 0.0)],
}
"""R(x), R(x'), and the blanket."""

LARGEST = {
    "one word twice": (response(2.0, 3, 0), response(2.0, 3, 1)),
    "Laplace, on one side": (binned_laplace(-1.0, 0.5), binned_laplace(1.0, 0.5)),
}
"""R(0) and R(1), where x and x' are others."""


@for_each("name", LAWS)
def test_a_decoy_beside_a_message_costs_no_more_than_one_message(name: str) -> None:
    """R(x) beside a decoy against a decoy beside R(x'), at every order."""
    first, second, blanket = LAWS[name]
    ends = LARGEST.get(name, (first, second))
    both = np.outer(first, blanket).ravel(), np.outer(blanket, second).ravel()
    for epsilon in np.linspace(-6.0, 6.0, 49):
        assert hockey_stick(*both, epsilon) <= hockey_stick(*ends, epsilon) + 1e-4
