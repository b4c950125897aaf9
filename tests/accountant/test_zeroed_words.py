"""Shuffled randomized response under zero-out, against exact laws: what a zeroed unit may send."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Final

import pytest

import privplan as pp
from privplan import events as ev
from privplan.accountant.errors import Unsupported

from ..cases import for_each

Law = tuple[Fraction, ...]

ORDERS: Final = (Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(2))


def answers(odds: int, words: int) -> list[Law]:
    """Return, for each word, the law of what is sent for it."""
    whole, every = odds + words - 1, range(words)
    return [tuple(Fraction(odds if w == x else 1, whole) for w in every) for x in every]


@cache
def counted(*senders: Law) -> dict[tuple[int, ...], Fraction]:
    """Return the law of how many messages each word has."""
    law: Counter[tuple[int, ...]] = Counter()
    words = range(len(senders[0]))
    for sent in itertools.product(words, repeat=len(senders)):
        chance = math.prod(sender[w] for sender, w in zip(senders, sent, strict=True))
        law[tuple(sent.count(w) for w in words)] += chance  # type: ignore[assignment]
    return dict(law)  # type: ignore[arg-type]


def stick(one: Sequence[Law], other: Sequence[Law], order: Fraction) -> Fraction:
    """Return delta at log(order), of two lists of senders."""
    p, q = counted(*one), counted(*other)
    return sum((max(p[key] - order * q[key], Fraction(0)) for key in p), Fraction(0))


def zeroed(odds: int, words: int) -> list[Law]:
    """Return laws that a zeroed unit may send by: a word's, all words alike, and mixtures."""
    each = answers(odds, words)
    half = tuple((a + b) / 2 for a, b in zip(each[0], each[1], strict=True))
    skew = tuple((2 * a + b) / 3 for a, b in zip(each[-1], each[0], strict=True))
    return [*each, (Fraction(1, words),) * words, half, skew]


@for_each(("odds", "words", "users"), [(3, 2, 2), (3, 2, 4), (5, 3, 3), (2, 3, 3)])
def test_a_zeroed_unit_that_sends_any_mixture_of_words_is_covered(
    odds: int, words: int, users: int
) -> None:
    """Both orders, all values of the others: delta is never above what is stated."""
    each = answers(odds, words)
    epsilon = math.log(odds) * (1 + 1e-15)
    event = ev.Shuffle(users, ev.RandomizedResponse(epsilon, words))
    largest = Fraction(0)
    for order in ORDERS:
        at = math.nextafter(math.log(order), 0.0)
        stated = pp.account(event, epsilon=at, neighbours="zero-out").delta.upper
        for crowd in itertools.combinations_with_replacement(each, users - 1):
            for unit, zero in itertools.product(each, zeroed(odds, words)):
                exact = max(
                    stick((unit, *crowd), (zero, *crowd), order),
                    stick((zero, *crowd), (unit, *crowd), order),
                )
                assert exact <= stated * (1 + 1e-12)
                largest = max(largest, exact)
    assert largest > 0


def test_a_zeroed_unit_that_sends_nothing_has_no_event() -> None:
    """Then the messages are counted, as under add-remove."""
    event = ev.Shuffle(5, ev.RandomizedResponse(1.0, 2))
    with pytest.raises(Unsupported, match="number of messages is visible"):
        pp.account(event, delta=1e-6, neighbours="add-remove")
