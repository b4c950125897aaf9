"""Rounds of sampled shuffling in exact fractions: whatever is cut, and whoever tells what was sent.

A message is its law over the categories, a tuple of fractions: `answer` of the randomizer, `dummy`
from its blanket, or `told` where the observer knows it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

Message = tuple[Fraction, ...]
Sender = tuple[tuple[int, ...], tuple[Message, ...]]
"""The dimensions that a user sends, and the messages of all dimensions."""

Law = Mapping[object, Fraction]
STOPPED = "stopped"
READINGS = ("random", "first", "last")
"""Which messages a cap keeps: random ones, or those that come first or last in a known order."""


def answer(value: int, categories: int, odds: int) -> Message:
    """Return the law of randomized response with e^epsilon0 = `odds`."""
    whole = odds + categories - 1
    return tuple(Fraction(odds if y == value else 1, whole) for y in range(categories))


def dummy(categories: int) -> Message:
    return (Fraction(1, categories),) * categories


def told(value: int, categories: int) -> Message:
    return tuple(Fraction(int(y == value)) for y in range(categories))


@functools.cache
def histogram(messages: tuple[Message, ...]) -> dict[tuple[int, ...], Fraction]:
    """Return the law of how many messages are of each category."""
    if not messages:
        return {(): Fraction(1)}
    law: dict[tuple[int, ...], Fraction] = {}
    categories = len(messages[0])
    for before, mass in histogram(messages[1:]).items():
        counts = before or (0,) * categories
        for y, chance in enumerate(messages[0]):
            if chance:
                after = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                law[after] = law.get(after, Fraction(0)) + mass * chance
    return law


@functools.cache
def dimension(
    messages: tuple[Message, ...], padded_to: int, categories: int, reading: str
) -> dict[tuple[int, ...], Fraction]:
    """Return the law of what one shuffler gives out; `messages` in the order of their arrival."""
    if len(messages) <= padded_to:
        padding = (dummy(categories),) * (padded_to - len(messages))
        return histogram(tuple(sorted(messages + padding)))
    if reading == "first":
        return histogram(tuple(sorted(messages[:padded_to])))
    if reading == "last":
        return histogram(tuple(sorted(messages[-padded_to:])))
    law: dict[tuple[int, ...], Fraction] = {}
    kept = list(itertools.combinations(messages, padded_to))
    for each in kept:
        for counts, mass in histogram(tuple(sorted(each))).items():
            law[counts] = law.get(counts, Fraction(0)) + mass / len(kept)
    return law


def round_law(
    senders: Sequence[Sender], dimensions: int, padded_to: int, reading: str
) -> dict[object, Fraction]:
    """Return the law of all that the analyzer sees, given who sends which dimensions.

    `reading` is one of `READINGS`, or `refuse`: then a dimension that overflows stops the round.
    """
    categories = len(senders[0][1][0]) if senders else 2
    sent = [
        tuple(messages[j] for chosen, messages in senders if j in chosen) for j in range(dimensions)
    ]
    if reading == "refuse" and max(map(len, sent)) > padded_to:
        return {STOPPED: Fraction(1)}
    law: dict[object, Fraction] = {(): Fraction(1)}
    for here in sent:
        each = dimension(here, padded_to, categories, reading)
        law = {
            (*before, counts): mass * chance  # type: ignore[misc]
            for before, mass in law.items()
            for counts, chance in each.items()
        }
    return law


def sets(dimensions: int, chosen: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(dimensions), chosen))


def mean(laws: Iterator[Law], count: int) -> dict[object, Fraction]:
    """Return the mixture of `count` laws, each as likely."""
    mixed: dict[object, Fraction] = {}
    for law in laws:
        for seen, mass in law.items():
            mixed[seen] = mixed.get(seen, Fraction(0)) + mass
    return {seen: mass / count for seen, mass in mixed.items()}


def oblivious_law(
    users: Sequence[tuple[Message, ...]],
    dimensions: int,
    chosen: int,
    padded_to: int,
    reading: str,
    known: Sequence[Sender] = (),
) -> dict[object, Fraction]:
    """Return the law of a round whose users choose at random, after those who are `known`."""
    choices = list(itertools.product(sets(dimensions, chosen), repeat=len(users)))
    return mean(
        (
            round_law([*known, *zip(each, users, strict=True)], dimensions, padded_to, reading)
            for each in choices
        ),
        len(choices),
    )


def hockey_stick(one: Law, other: Law, order: Fraction) -> Fraction:
    """Return delta at epsilon = log(order), of `one` against `other`."""
    whole = math.lcm(*(mass.denominator for law in (one, other) for mass in law.values()))

    def parts(mass: Fraction) -> int:  # integers are added ten times as fast as fractions
        return mass.numerator * (whole // mass.denominator)

    excess = (
        order.denominator * parts(mass) - order.numerator * parts(other.get(seen, Fraction(0)))
        for seen, mass in one.items()
    )
    return Fraction(sum(each for each in excess if each > 0), whole * order.denominator)


def worst(one: Law, other: Law, order: Fraction) -> Fraction:
    return max(hockey_stick(one, other, order), hockey_stick(other, one, order))


def below_log(order: Fraction) -> float:
    """Return epsilon, not above log(order): a bound at it must cover delta at the order."""
    return math.log(order) * (1.0 - 1e-15)
