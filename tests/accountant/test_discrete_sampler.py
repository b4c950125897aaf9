"""Exact samplers: probabilities checked as fractions, and draws against slow independent ones.

Statistical tests use seeded streams, so a pass stays a pass; on a fresh seed each would raise a
false alarm with probability 1e-6 at most: no p-value is below `LEAST_P`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import discrete_sampler, exponentials
from privplan.accountant.mechanisms.discrete_sampler import (
    DiscreteSampler,
    Precision,
    Shape,
    alias_table,
)
from privplan.accountant.mechanisms.exponentials import (
    Enclosure,
    bernoulli,
    decide,
    exp_minus,
    scaled_exp,
)
from privplan.accountant.randomness import Stream

from ..cases import for_each
from ..sweeps import sweep
from .mechanism_tickets import LEAST_P
from .streams import Scripted, exactly, stream

COARSE = Precision(bits=3, error=0.3)
"""Three bits of a coin, and floats trusted to 30%: nearly every doubt takes the exact path."""


@for_each("shape", ["gaussian", "laplace"])
@for_each("scale", [2.0**-20, 0.05, 0.3, 1.0, 7.7, 63.9, 64.0, 1e5 / 3, 2.0**40])
def test_heights_are_enclosed_and_nearly_exact(shape: Shape, scale: float) -> None:
    """By `decimal`, one exponential for each block, a thousand times as close."""
    own = DiscreteSampler(shape, scale)
    width, unit = 1 << own._width_bits, Fraction(1, 1 << 512)
    for number, (low, high) in enumerate(zip(*own._enclosed_firsts(width), strict=True)):
        least, most = exponentials.exp_enclosure(own.exponent(number * width), 600)
        assert low * unit <= most
        assert high * unit >= least
        assert high - low <= 2 * number * (number + 1)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=16))
def test_alias_tables_are_exact(weights: list[int]) -> None:
    columns = 16
    total = sum(weights)
    padded = [*weights, -total % columns + columns * (total == 0)]
    if len(padded) > columns:
        return
    capacity = sum(padded) // columns
    own, others = alias_table(padded, columns, capacity)
    chances = Counter(dict.fromkeys(range(columns), 0))
    for column in range(columns):
        assert 0 <= own[column] <= capacity
        chances[column] += own[column]
        chances[others[column]] += capacity - own[column]
    assert [chances[item] for item in range(columns)] == [*padded, *[0] * (columns - len(padded))]


SCALES = [0.1, 0.5, 1.0, 3.7, 33.0, 1000.3, 2.0**20 * 1.3, 2.0**40]


@for_each("shape", ["gaussian", "laplace"])
@for_each("scale", SCALES)
def test_every_point_comes_with_its_probability(shape: Shape, scale: float) -> None:
    """Weight of the block, 1/width, and a(x) multiply to C e^-g(x), with one C for all x.

    Checked as fractions, for the weights that the alias table really gives; a(x) <= 1 throughout.
    """
    own = DiscreteSampler(shape, scale)
    width = 1 << own._width_bits
    capacity = 1 << own._rest_bits
    weights = Counter(dict.fromkeys(range(len(own._alternatives)), 0))
    for column, (limit, other) in enumerate(
        zip(own._limits.tolist(), own._alternatives.tolist(), strict=True)
    ):
        weights[column] += limit
        weights[other] += capacity - limit
    blocks = own._blocks
    assert sum(weights.values()) == 1 << (63 - own._width_bits)
    assert all(weights[item] == 0 for item in range(blocks + 2, len(own._alternatives)))
    constant = own._factor(0) * weights[0]
    assert all(own._factor(n) * weights[n] == constant for n in range(blocks + 1))
    for block in {0, 1, blocks // 2, blocks - 1}:
        at_first = exactly(own.exponent(block * width)) * own._factor(block)
        assert at_first <= 1
        at_last = exactly(own.exponent((block + 1) * width - 1)) * own._factor(block)
        assert Fraction(int(own._sure_below[block]), 2**53) <= at_last
        assert abs(Fraction(own._starts[block]) - at_first) <= at_first * Fraction(1, 2**51)
    # the tail: a(x) = C e^-g(x) v 2^(m+1) / (w W) at the first point of each of its blocks
    for far in range(4):
        x = (blocks << own._width_bits) + far * own._tail_width
        wide = own._tail_width // width * 2 ** (far + 1)
        assert exactly(own.exponent(x)) * own._factor(-1) * wide <= 1
    # drawing anew is rare, so no more than that is lost
    if width > 1:
        assert weights[blocks + 1] < 1 << (63 - own._width_bits - 14)


@for_each("shape", ["gaussian", "laplace"])
@for_each("scale", [0.1, 3.7, 1000.3, 2.0**20 * 1.3, 2.0**40])
def test_floats_stay_within_the_granted_error(shape: Shape, scale: float) -> None:
    """The float that is compared, against the fraction: well within 2^-40."""
    own = DiscreteSampler(shape, scale)
    rng = np.random.default_rng(3)
    block = rng.integers(0, own._blocks, 300)
    offset = rng.integers(0, 1 << own._width_bits, 300)
    x = (block << own._width_bits) + offset
    seen: list[np.ndarray] = []

    def spy(values: np.ndarray) -> np.ndarray:
        seen.append(exp_minus(values))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discrete_sampler, "exp_minus", spy)
        own._compared_exactly(stream(), x, block, offset, np.full(300, 2**53 - 1, dtype=np.uint64))
    for index in range(300):
        true = exactly(own.exponent(int(x[index]))) * own._factor(int(block[index]))
        found = Fraction(float(seen[0][index] * own._starts[block[index]]))
        assert abs(found - true) <= true * Fraction(1, 2**45) + Fraction(1, 2**200)


@for_each("shape", ["gaussian", "laplace"])
@for_each("scale", [3.7, 100.0])
def test_points_are_kept_by_the_comparison_of_real_numbers(shape: Shape, scale: float) -> None:
    """With coarse floats and few bits, each coin decides as its endless row of bits would."""
    own = DiscreteSampler(shape, scale, COARSE)
    more = [0, 2**63, 2**64 - 1]
    for x in [*range(0, 400, 13), 1, 2, 3]:
        block, offset = x >> own._width_bits, x & ((1 << own._width_bits) - 1)
        if block >= own._blocks:
            continue
        chance = exactly(own.exponent(x)) * own._factor(block)
        for coin in range(8):
            for word in more:
                number = Fraction(coin * 2**64 + word, 2**67)
                point = (np.array([x]), np.array([block]), np.array([offset]))
                one = np.array([coin], dtype=np.uint64)
                kept = own._compared_exactly(Scripted(word), *point, one)  # type: ignore[arg-type]
                assert bool(coin < own._sure_below[block] or kept[0]) == (number < chance)


def slow_bernoulli_exp(bits: random.Random, gamma: Fraction) -> bool:
    """Bernoulli(e^-gamma).  Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5, Algorithm 1."""
    while gamma > 1:
        if not slow_bernoulli_exp(bits, Fraction(1)):
            return False
        gamma -= 1
    k = 1
    while bits.randrange(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1


def slow_laplace(bits: random.Random, t: int) -> int:
    """P(x) ~ e^(-|x| / t), ibid., Algorithm 2, for an integer scale."""
    while True:
        u = bits.randrange(t)
        if not slow_bernoulli_exp(bits, Fraction(u, t)):
            continue
        v = 0
        while slow_bernoulli_exp(bits, Fraction(1)):
            v += 1
        x = u + t * v
        negative = bits.randrange(2)
        if not (negative and x == 0):
            return -x if negative else x


def slow_gaussian(bits: random.Random, scale: Fraction) -> int:
    """P(x) ~ e^(-x^2 / (2 scale^2)), ibid., Algorithm 3."""
    t = math.floor(scale) + 1
    while True:
        y = slow_laplace(bits, t)
        gamma = (abs(y) - scale**2 / t) ** 2 / (2 * scale**2)
        if slow_bernoulli_exp(bits, gamma):
            return y


def same_law(one: np.ndarray, other: np.ndarray) -> float:
    """Return the p-value of the chi-square test that both come from one law."""
    values, first = np.unique(one, return_counts=True)
    table = np.zeros((2, len(values)))
    table[0] = first
    table[1] = [np.count_nonzero(other == value) for value in values]
    assert table[1].sum() >= len(other) - 3  # what the larger sample never met
    often = first >= 8 * len(one) / len(other)
    merged = np.column_stack([table[:, often], table[:, ~often].sum(axis=1)])
    merged = merged[:, merged.sum(axis=0) > 0]
    return float(stats.chi2_contingency(merged).pvalue)


@for_each("scale", [0.4, 2.3, 6.5])
def test_gaussian_has_the_law_of_the_slow_sampler(scale: float) -> None:
    bits = random.Random(7)
    slow = np.array([slow_gaussian(bits, Fraction(scale)) for _ in range(6000)])
    fast = discrete_sampler.discrete_gaussian(stream(), 200_000, scale)
    assert same_law(fast, slow) > LEAST_P


@for_each("scale", [1, 3])
def test_laplace_has_the_law_of_the_slow_sampler(scale: int) -> None:
    bits = random.Random(7)
    slow = np.array([slow_laplace(bits, scale) for _ in range(10_000)])
    fast = discrete_sampler.discrete_laplace(stream(), 200_000, float(scale))
    assert same_law(fast, slow) > LEAST_P


def rounded_weight(x: int, scale: float) -> float:
    if x == 0:
        return -math.expm1(-0.5 / scale)
    return math.exp(-abs(x) / scale) * math.sinh(0.5 / scale)


WEIGHTS: dict[str, Callable[[int, float], float]] = {
    "gaussian": lambda x, scale: math.exp(-x * x / (2.0 * scale * scale)),
    "laplace": lambda x, scale: math.exp(-abs(x) / scale),
    "rounded": rounded_weight,
}
DRAW: dict[str, Callable[[Stream, int, float], np.ndarray]] = {
    "gaussian": discrete_sampler.discrete_gaussian,
    "laplace": discrete_sampler.discrete_laplace,
    "rounded": discrete_sampler.rounded_laplace,
}


def fits(drawn: np.ndarray, law: str, scale: float) -> float:
    """Return the p-value of the chi-square test of draws against the law itself."""
    reach = math.ceil(45 * scale) + 2
    support = np.arange(-reach, reach + 1)
    weights = np.array([WEIGHTS[law](int(x), scale) for x in support])
    expected = weights / weights.sum() * len(drawn)
    assert np.abs(drawn).max() <= reach
    counts = np.bincount(drawn + reach, minlength=len(support))
    often = expected >= 10.0
    found = np.append(counts[often], counts[~often].sum())
    ideal = np.append(expected[often], expected[~often].sum())
    if ideal[-1] < 1e-3:  # what never happens: no cell of its own
        assert found[-1] == 0
        found, ideal = found[:-1], ideal[:-1]
    return float(stats.chisquare(found, ideal * found.sum() / ideal.sum()).pvalue)


def test_the_chi_square_can_fail() -> None:
    drawn = discrete_sampler.discrete_gaussian(stream(), 300_000, 3.0)
    assert fits(drawn, "gaussian", 3.0) > LEAST_P
    assert fits(drawn, "gaussian", 3.05) < LEAST_P
    assert fits(np.abs(drawn), "gaussian", 3.0) < LEAST_P


@for_each("scale", [0.3, 0.7, 1.0, 3.7, 31.9, 32.0, 33.0, 100.5])
@for_each("law", ["gaussian", "laplace", "rounded"])
def test_draws_have_their_law(law: str, scale: float) -> None:
    drawn = DRAW[law](stream(), 300_000, scale)
    assert drawn.dtype == np.int64
    assert drawn.shape == (300_000,)
    assert fits(drawn, law, scale) > LEAST_P


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return the outcomes of all comparisons that took the exact path."""
    made: list[bool] = []

    def noting(own: Stream, first: int, bits: int, chance: Enclosure) -> bool:
        made.append(decide(own, first, bits, chance))
        return made[-1]

    monkeypatch.setattr(discrete_sampler, "decide", noting)
    return made


@pytest.mark.parametrize("scale", sweep([0.7, 3.7, 40.0], quick=1))
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_exact_path_alone_gives_the_same_law(
    law: Shape, scale: float, decisions: list[bool]
) -> None:
    drawn = DiscreteSampler(law, scale, COARSE).draw(stream(), 30_000, signed=True)
    assert len(decisions) > 1000
    assert fits(drawn, law, scale) > LEAST_P


@pytest.mark.parametrize("scale", sweep([0.7, 3.7, 40.0], quick=1))
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_tail_gives_the_same_law(law: Shape, scale: float, decisions: list[bool]) -> None:
    """With a table that ends at one scale, a third of all draws comes from beyond it."""
    reach = Precision(reach=1)
    drawn = DiscreteSampler(law, scale, reach).draw(stream(), 4_000, signed=True)
    assert len(decisions) > 200
    assert fits(drawn, law, scale) > LEAST_P


def test_the_exact_path_is_rare(decisions: list[bool]) -> None:
    DiscreteSampler("gaussian", 2.0**20 * 1.3).draw(stream(), 500_000, signed=True)
    assert decisions == []


@for_each("scale", [2.0**20, 2.0**20 * 1.7, 2.0**21 - 1.0, 2.0**30, 2.0**40])
def test_large_gaussians_look_continuous(scale: float) -> None:
    count = 400_000
    drawn = discrete_sampler.discrete_gaussian(stream(), count, scale).astype(float) / scale
    edges = stats.norm.ppf(np.linspace(0.0, 1.0, 201))
    assert stats.chisquare(np.histogram(drawn, edges)[0]).pvalue > LEAST_P
    squares = np.sum(drawn**2)
    assert LEAST_P < stats.chi2(count).cdf(squares) < 1 - LEAST_P
    for beyond in (2.5, 3.5, 4.5):
        tail = 2 * stats.norm.sf(beyond)
        found = int(np.count_nonzero(np.abs(drawn) > beyond))
        assert stats.binomtest(found, count, tail).pvalue > LEAST_P


@for_each("law", ["laplace", "rounded"])
def test_large_laplace_noise_looks_continuous(law: str) -> None:
    count, scale = 400_000, 2.0**20 * 1.7
    drawn = DRAW[law](stream(), count, scale).astype(float) / scale
    edges = stats.laplace.ppf(np.linspace(0.0, 1.0, 201))
    assert stats.chisquare(np.histogram(drawn, edges)[0]).pvalue > LEAST_P
    assert LEAST_P < stats.gamma(count).cdf(np.abs(drawn).sum()) < 1 - LEAST_P


def test_low_bits_of_large_noise_are_uniform() -> None:
    """The last bits of a value must tell nothing: offsets in a block are uniform."""
    drawn = discrete_sampler.discrete_gaussian(stream(), 400_000, 2.0**20 * 1.3)
    for bits in (1, 6):
        assert stats.chisquare(np.bincount(drawn & (2**bits - 1))).pvalue > LEAST_P


def test_tiny_scales() -> None:
    assert not discrete_sampler.discrete_gaussian(stream(), 10_000, 0.01).any()
    assert not discrete_sampler.discrete_gaussian(stream(), 100, discrete_sampler.MIN_SCALE).any()
    assert not discrete_sampler.rounded_laplace(stream(), 100, discrete_sampler.MIN_SCALE).any()
    fifth = discrete_sampler.discrete_gaussian(stream(), 1_000_000, 0.2)  # P(+-1) = 2 e^-12.5
    found = int(np.count_nonzero(fifth))
    assert stats.binomtest(found, 1_000_000, 2 * math.exp(-12.5)).pvalue > LEAST_P


@for_each("scale", [0.0, -1.0, math.nan, math.inf, 2.0**-21, 2.0**41])
@for_each("law", sorted(DRAW))
def test_scales_out_of_range_are_refused(law: str, scale: float) -> None:
    with pytest.raises(InvalidInput, match="scale"):
        DRAW[law](stream(), 1, scale)


@for_each("law", sorted(DRAW))
def test_seeded_draws_repeat_and_go_on(law: str) -> None:
    one, other = stream(), stream()
    assert DRAW[law](one, 100, 5.0).tolist() == DRAW[law](other, 100, 5.0).tolist()
    assert DRAW[law](one, 100, 5.0).tolist() != DRAW[law](stream(), 100, 5.0).tolist()
    assert DRAW[law](one, 0, 5.0).shape == (0,)


@pytest.mark.parametrize("precision", [Precision(), COARSE, Precision(reach=1)])
def test_the_number_of_bytes_tells_only_how_many_proposals_were_made(
    precision: Precision, decisions: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further bits and tails depend on the noise; they come from a fork, at 32 bytes a call."""
    made = [0]
    inner = DiscreteSampler._accepted

    def counting(own: DiscreteSampler, words: np.ndarray, rare: Stream, signed: bool) -> np.ndarray:
        made[0] += len(words) // 2
        return inner(own, words, rare, signed)

    monkeypatch.setattr(DiscreteSampler, "_accepted", counting)
    own = stream()
    DiscreteSampler("gaussian", 40.0, precision).draw(own, 500, signed=True)
    assert own.position == 32 + 16 * made[0]
    assert (len(decisions) > 50) == (precision != Precision())


def test_the_number_of_bytes_of_bernoulli_is_fixed() -> None:
    used = set()
    for x in (Fraction(0), Fraction(1, 2), Fraction(10**6)):
        own = stream()
        bernoulli(own, 10, scaled_exp(x, Fraction(1)))
        used.add(own.position)
    assert used == {112}


def test_scripted_streams_guard_their_tests() -> None:
    with pytest.raises(AssertionError, match="more words"):
        exponentials.bernoulli(Scripted(), 1, scaled_exp(Fraction(1), Fraction(1)))  # type: ignore[arg-type]
