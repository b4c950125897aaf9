"""Exact comparisons with exponentials: enclosures, decisions and Bernoulli draws."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.mechanisms.exponentials import (
    bernoulli,
    decide,
    exp_enclosure,
    exp_minus,
    scaled_exp,
)

from ..cases import for_each
from .streams import Scripted, exactly, stream


def test_exp_minus_keeps_its_bound() -> None:
    """Below 2^-44 of e^-x, over its range and beside the points where its halves meet."""
    rng = np.random.default_rng(5)
    edges = (np.arange(865) + 0.5) * math.log(2.0)
    beside = np.concatenate([np.nextafter(edges, 0.0), np.nextafter(edges, 1000.0)])
    points = np.concatenate(
        [rng.uniform(0, 600, 4000), rng.exponential(1.0, 4000), beside, [0.0, 5e-324, 1e-17, 600.0]]
    )
    points = points[points <= 600.0]
    found = exp_minus(points)
    with mpmath.workdps(40):
        worst = max(
            abs(mpmath.mpf(float(value)) / mpmath.exp(-mpmath.mpf(float(x))) - 1)
            for x, value in zip(points, found, strict=True)
        )
    assert worst < 2.0**-49  # 2^-44 is promised, 2^-40 is granted


def test_exp_minus_beyond_its_range_is_zero() -> None:
    assert exp_minus(np.array([600.0000001, 1e9, math.inf])).tolist() == [0.0, 0.0, 0.0]
    assert exp_minus(np.array([0.0]))[0] == 1.0


@given(st.fractions(0, 300), st.integers(1, 300))
def test_enclosures_enclose_and_shrink(x: Fraction, bits: int) -> None:
    low, high = exp_enclosure(x, bits)
    true = exactly(x, 400)
    assert low <= true * (1 + Fraction(1, 10**390))
    assert high >= true * (1 - Fraction(1, 10**390))
    assert high - low <= max(high, Fraction(1, 2**bits)) * Fraction(4, 2**bits)
    assert exp_enclosure(Fraction(0), bits) == (1, 1)


@given(st.integers(0, 7), st.integers(0, 2**64 - 1), st.fractions(0, 5))
def test_a_decision_is_the_comparison_of_real_numbers(first: int, more: int, x: Fraction) -> None:
    """Whatever is drawn, the outcome is whether the number is below the probability."""
    number = Fraction(first * 2**64 + more, 2**67)
    true = exactly(x)
    if abs(number - true) < Fraction(1, 2**66):
        return  # as rare as it is open
    assert decide(Scripted(more), first, 3, scaled_exp(x, Fraction(1))) == (number < true)  # type: ignore[arg-type]


def test_a_decision_draws_as_many_bits_as_it_needs() -> None:
    """The first 131 bits agree with the probability; the next word decides."""
    x = Fraction(1, 3)
    bits = math.floor(exactly(x, 200) * 2**195)
    first = bits >> 192
    second, third, last = (bits >> shift & (2**64 - 1) for shift in (128, 64, 0))
    chance = scaled_exp(x, Fraction(1))
    for step, outcome in ((-1, True), (+1, False)):
        own = Scripted(second, third, last + step, 0)
        assert decide(own, first, 3, chance) is outcome  # type: ignore[arg-type]
        assert own.words == [0]


def test_bernoulli_uses_its_threshold_and_refines_at_it() -> None:
    x = Fraction(1)
    threshold = math.floor(exactly(x, 60) * 2**64)
    own = Scripted(0, threshold - 1, threshold, threshold + 1, 2**64 - 1, 0)
    outcome = bernoulli(own, 5, scaled_exp(x, Fraction(1)))  # type: ignore[arg-type]
    # the word at the threshold needs one more, here 0: below
    assert outcome.tolist() == [True, True, True, False, False]
    assert own.words == []
    own = Scripted(threshold, 2**64 - 1)
    assert not bernoulli(own, 1, scaled_exp(x, Fraction(1)))[0]  # type: ignore[arg-type]


@for_each(("x", "outcome"), [(Fraction(0), True), (Fraction(10**6), False)])
def test_bernoulli_at_the_ends(x: Fraction, outcome: bool) -> None:
    assert bernoulli(stream(), 200, scaled_exp(x, Fraction(1))).tolist() == [outcome] * 200
