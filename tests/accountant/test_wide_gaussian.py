"""Wide discrete Gaussian noise: exact probabilities at small scales, laws at large ones.

Statistical tests use seeded streams, so a pass stays a pass; on a fresh seed each would raise a
false alarm with the probability `FALSE_ALARM`, over all of its cases.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.mechanisms.wide_gaussian import WideGaussian
from privplan.accountant.randomness import Stream, Streams

from ..cases import for_each
from ..chance import FALSE_ALARM, limits

Law = dict[int, mpmath.mpf]


def stream(seed: int = 1) -> Stream:
    return Streams.seeded(seed).stream("noise")


def gaussian(square: Fraction, reach: float = 15.0) -> Law:
    """The discrete Gaussian of a variance, to 40 digits."""
    with mpmath.workdps(60):
        top = math.ceil(reach * math.sqrt(square))
        twice = 2 * mpmath.mpf(square.numerator) / square.denominator
        found = {x: mpmath.exp(-x * x / twice) for x in range(-top, top + 1)}
        whole = mpmath.fsum(found.values())
        return {x: mass / whole for x, mass in found.items()}


def summed(own: WideGaussian) -> Law:
    """The law of the sum of all draws, by convolution."""
    with mpmath.workdps(60):
        law: Law = {0: mpmath.mpf(1)}
        for level, scale in enumerate(own.scales):
            found: Law = {}
            for y, mass in gaussian(Fraction(scale) ** 2).items():
                for x, other in law.items():
                    place = x + (y << (own.shift * level))
                    found[place] = found.get(place, mpmath.mpf(0)) + mass * other
            law = found
        return law


def distance(own: WideGaussian) -> float:
    """The largest relative error of the sum's law, within four parameters."""
    law, ideal = summed(own), gaussian(own.variance)
    top = math.ceil(4 * math.sqrt(own.variance))
    return float(max(abs(law.get(x, 0) / ideal[x] - 1) for x in range(-top, top + 1)))


@for_each(
    ("scales", "shift"),
    [
        ((1.5, 1.5), 1),
        ((2.0, 2.5), 1),
        ((2.0, 2.5, 3.0), 1),
        ((3.0, 5.0, 1.25), 1),
        ((4.0, 4.0, 0.75), 2),
        ((4.0, 2.0), 2),
    ],
)
def test_the_sum_is_as_near_to_a_discrete_gaussian_as_the_proof_says(
    scales: tuple[float, ...], shift: int
) -> None:
    """Its bound holds at every integer, and is not many times the truth."""
    own = WideGaussian(scales, shift)
    bound = math.exp(own.log_error)
    assert 0.01 * bound < distance(own) <= bound < 0.02


def test_steps_that_are_too_far_apart_are_told_by_the_bound_and_by_the_law() -> None:
    for scales, shift in (((0.5, 3.0), 2), ((0.05, 3.0), 6), ((0.4, 1.0, 1.0), 1)):
        own = WideGaussian(scales, shift)
        assert distance(own) > 0.9
        assert own.log_error == math.inf


@given(st.fractions(1, 2**800) | st.floats(0.0, 800.0).map(lambda bits: Fraction(2.0**bits)))
def test_the_variance_is_never_less_than_asked_for_and_hardly_more(variance: Fraction) -> None:
    own = WideGaussian.of(variance)
    assert variance <= own.variance <= variance * (1 + Fraction(1, 2**50))
    by_hand = sum(Fraction(t) ** 2 * (2**64) ** k for k, t in enumerate(own.scales))
    assert own.variance == by_hand
    *lower, last = own.scales
    assert lower == [2.0**36] * len(lower)
    assert len(own.scales) <= 13
    assert (2.0**7.9 if lower else 1.0) <= last <= 2.0**40
    assert own.log_error < -2175 * math.log(10)


def test_just_beyond_one_draw() -> None:
    edge = 2**80
    assert WideGaussian.of(edge).scales == (2.0**40,)
    two = WideGaussian.of(edge + 1)
    assert len(two.scales) == 2
    assert two.log_error < -2175 * math.log(10)


@for_each("variance", [0, -1, Fraction(1, 2), 2**800 + 1])
def test_variances_out_of_range_are_refused(variance: int) -> None:
    with pytest.raises(InvalidInput, match="variance"):
        WideGaussian.of(variance)


@for_each("scale", [1.0, 1.3, 4.0, 11.0])
@for_each("times", [1, 2, 5, 9])
def test_tails_are_below_their_bound(scale: float, times: int) -> None:
    own = WideGaussian((scale,))
    end = own.tail(times)
    assert times * scale <= end <= times * scale + 2
    beyond = mpmath.fsum(mass for x, mass in gaussian(own.variance).items() if abs(x) > end)
    assert float(beyond) < 3 * math.exp(-(times**2) / 2)


def test_tails_of_large_noise_are_integers_that_lose_nothing() -> None:
    own = WideGaussian.of(Fraction(10**200, 7))
    assert Fraction(own.tail(40)) ** 2 >= 1600 * own.variance > Fraction(own.tail(40) - 2) ** 2


def test_draws_are_the_sum_of_draws_at_every_scale() -> None:
    own = WideGaussian.of(Fraction(2**301, 3))
    assert len(own.scales) == 5
    found, again = own.draw(stream(), 50), stream()
    parts = [discrete_gaussian(again, 50, scale).tolist() for scale in own.scales]
    assert found == [
        sum(y * 2 ** (32 * k) for k, y in enumerate(each)) for each in zip(*parts, strict=True)
    ]
    assert {type(x) for x in found} == {int}
    assert own.draw(stream(), 0) == []


def test_small_scales_have_the_law_of_their_sum_and_no_other() -> None:
    """A sum that is far from a discrete Gaussian, so that the test can tell them apart."""
    own, count = WideGaussian((0.5, 3.0), 2), 100_000
    drawn = np.array(own.draw(stream(), count))
    values = np.arange(-25, 26)
    seen = np.array([np.count_nonzero(drawn == x) for x in values])
    for law, is_so in ((summed(own), True), (gaussian(own.variance), False)):
        ideal = np.array([float(law[int(x)]) for x in values]) * count
        kept = ideal >= 5
        found = np.append(seen[kept], count - seen[kept].sum())
        expected = np.append(ideal[kept], count - ideal[kept].sum())
        assert bool(stats.chisquare(found, expected).pvalue > FALSE_ALARM) is is_so


WIDTHS = [30.0, 40.5, 60.0, 75.3, 136.0, 399.0]


@for_each("bits", WIDTHS)
def test_large_noise_has_its_law(bits: float) -> None:
    own = WideGaussian.of(Fraction(2.0**bits) ** 2)
    count = 20_000
    drawn = own.draw(stream(), count)
    scaled = np.array([x / math.isqrt(int(own.variance)) for x in drawn])
    assert stats.kstest(scaled, "norm").pvalue > FALSE_ALARM / 18
    for statistic, law in (
        ((scaled**2).sum(), stats.chi2(count)),
        (scaled.sum(), stats.norm(scale=math.sqrt(count))),
    ):
        low, high = limits(law, looks=18)
        assert low <= statistic <= high
