"""Users drawn before they are shuffled: brute force, formulas, and what is refused."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import privplan as pp
from privplan import events as ev
from privplan.accountant.amplification.shuffling.blanket import blanket_profile
from privplan.accountant.amplification.shuffling.clones import clones_profile
from privplan.accountant.amplification.shuffling.profile import smallest_epsilon
from privplan.accountant.amplification.shuffling.randomizers import ResponseRandomizer
from privplan.accountant.amplification.subsampling import (
    drawn_profile,
    drawn_without_replacement,
    poisson_drawn,
)
from privplan.accountant.errors import InvalidInput, Unsupported

from ..cases import for_each
from .sampled_rounds import hockey_stick, ones


def drawn(chances: tuple[float, ...], batch: int) -> np.ndarray:
    """Law of the shuffled bits of a uniformly random set of `batch` users."""
    samples = list(itertools.combinations(chances, batch))
    return sum(ones(sample) for sample in samples) / len(samples)


@for_each(("batch", "population"), [(1, 3), (2, 3), (2, 5), (4, 5)])
def test_drawn_sets_stay_below_the_bound(batch: int, population: int) -> None:
    """Binary response, all data sets up to order, both orders of the neighbours."""
    epsilon0 = 1.5
    true = 1.0 / (1.0 + math.exp(-epsilon0))
    event = ev.FixedSize(batch, population, ev.Shuffle(batch, ev.Local(epsilon0)))
    profile = drawn_profile(event, lambda users: clones_profile(epsilon0, users))
    closest = 0.0
    for others in itertools.combinations_with_replacement((true, 1.0 - true), population - 1):
        for mine, changed in ((true, 1.0 - true), (1.0 - true, true)):
            one, other = (drawn((value, *others), batch) for value in (mine, changed))
            for epsilon in (0.0, 0.1, 0.3, 0.6):
                bound = math.exp(profile.log_delta(epsilon))
                truth = hockey_stick(one, other, epsilon)
                assert truth <= bound
                closest = max(closest, truth / bound)
    assert closest > 0.6


@for_each("rate", [0.2, 0.5, 0.9])
def test_joining_users_stay_below_the_bound(rate: float) -> None:
    """The number of messages is seen with the bits: outcomes are pairs of both."""
    epsilon0, users = 1.5, 4
    true = 1.0 / (1.0 + math.exp(-epsilon0))
    profile = poisson_drawn(ResponseRandomizer(epsilon0, 2), users, rate)
    closest = 0.0
    for others in itertools.combinations_with_replacement((true, 1.0 - true), users - 1):
        one, other = (
            [binom.pmf(n, users, rate) * drawn((value, *others), n) for n in range(users + 1)]
            for value in (true, 1.0 - true)
        )
        for epsilon in (0.0, 0.2, 0.6):
            truth = sum(hockey_stick(p, q, epsilon) for p, q in zip(one, other, strict=True))
            truth = max(
                truth, sum(hockey_stick(q, p, epsilon) for p, q in zip(one, other, strict=True))
            )
            bound = math.exp(profile.log_delta(epsilon))
            assert truth <= bound
            closest = max(closest, truth / bound)
    assert closest > 0.6


def test_fixed_size_is_its_formula() -> None:
    inner = clones_profile(1.0, 500)
    profile = drawn_without_replacement(inner, 500, 2000)
    for epsilon in (1e-4, 0.01, 0.1):
        expected = math.log(0.25) + inner.log_delta(math.log1p(math.expm1(epsilon) / 0.25))
        assert expected <= profile.log_delta(epsilon) <= expected + 1e-9
    assert profile.largest_loss == pytest.approx(math.log(1.0 + 0.25 * (math.e - 1.0)), rel=1e-12)
    assert profile.log_delta(profile.largest_loss) == -math.inf
    far = drawn_without_replacement(clones_profile(40.0, 50), 50, 100)
    assert far.log_delta(35.0) == pytest.approx(
        math.log(0.5) + clones_profile(40.0, 50).log_delta(35.0 + math.log(2.0)), abs=1e-9
    )


@for_each(("users", "rate"), [(40, 0.3), (3000, 0.1), (20_000, 0.02)])
def test_joining_is_no_worse_than_the_mean_over_the_number_of_messages(
    users: int, rate: float
) -> None:
    """The other proof: m of n for every visible N = m, its bound averaged over N, term by term."""
    known = cache(lambda n: clones_profile(1.0, n))
    profile = poisson_drawn(ResponseRandomizer(1.0, 2), users, rate)
    n = np.arange(1, users + 1)
    chances = binom.pmf(n, users, rate)
    for epsilon in (0.0, 0.0005, 0.002):
        direct = sum(
            chance * k / users
            * math.exp(known(int(k)).log_delta(math.log1p(math.expm1(epsilon) * users / k)))
            for k, chance in zip(n, chances, strict=True)
            if chance > 1e-12
        )  # fmt: skip
        found = math.exp(profile.log_delta(epsilon))
        assert 0.1 * direct <= found <= direct * (1 + 1e-3)


def test_joining_with_a_bare_epsilon_is_joining_with_binary_response() -> None:
    found = [
        pp.account(ev.Poisson(0.2, ev.Shuffle(500, inner)), delta=1e-6, neighbours="replace-one")
        for inner in (ev.Local(1.0), ev.RandomizedResponse(1.0, 2))
    ]
    assert found[0].epsilon.upper == found[1].epsilon.upper


def test_sampling_never_hurts_and_more_of_it_never_helps_less() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        epsilon0, users = float(rng.uniform(0.1, 4.0)), int(rng.integers(20, 3000))
        delta = float(10 ** rng.uniform(-8, -3))
        inner = clones_profile(epsilon0, users)
        alone = smallest_epsilon(inner, delta)
        found = [
            smallest_epsilon(drawn_without_replacement(inner, users, users * factor), delta)
            for factor in (1, 2, 10)
        ]
        assert found[0] == alone
        assert found[2] <= found[1] * (1 + 1e-5) <= alone * (1 + 2e-5)


def test_rates_at_the_ends() -> None:
    response = ResponseRandomizer(1.0, 3)
    plain = blanket_profile(response, 100)
    assert poisson_drawn(response, 100, 1.0).log_delta(0.1) == plain.log_delta(0.1)
    assert poisson_drawn(response, 100, 0.0).log_delta(0.0) == -math.inf
    nearly = poisson_drawn(response, 100, 1.0 - 1e-9).log_delta(0.1)
    assert nearly == pytest.approx(plain.log_delta(0.1), abs=1e-3)
    rare = poisson_drawn(response, 100, 1e-6)
    assert rare.log_delta(0.0) <= math.log(1e-6) + 1e-9
    assert rare.log_delta(1.0) == -math.inf


def test_account_knows_both_samplers() -> None:
    fixed = ev.FixedSize(1000, 10_000, ev.Shuffle(1000, ev.Laplace(2.0)))
    poisson = ev.Poisson(0.1, ev.Shuffle(10_000, ev.Laplace(2.0)))
    plain = pp.account(ev.Shuffle(1000, ev.Laplace(2.0)), delta=1e-6, neighbours="replace-one")
    for event in (fixed, poisson):
        found = pp.account(event, delta=1e-6, neighbours="replace-one")
        assert 0.0 < found.epsilon.upper < 0.2 * plain.epsilon.upper
        assert any("sampling" in step.stage for step in found.derivation)
        with pytest.raises(Unsupported):
            pp.account(event, delta=1e-6, neighbours="add-remove")


def test_the_bound_counts_the_users_who_were_drawn() -> None:
    mismatch = ev.FixedSize(100, 1000, ev.Shuffle(1000, ev.Laplace(2.0)))
    with pytest.raises(InvalidInput, match="100 users are drawn, but 1,000"):
        drawn_profile(mismatch, lambda users: clones_profile(1.0, users))
    with pytest.raises(InvalidInput, match="batch"):
        drawn_without_replacement(clones_profile(1.0, 10), 10, 9)
    with pytest.raises(Unsupported, match="gaussian"):
        drawn_profile(ev.Gaussian(1.0), lambda users: clones_profile(1.0, users))


def test_a_sample_that_is_cut_is_not_shuffled_as_if_it_were_whole() -> None:
    """Four of eight users hide one less than all eight do."""
    bits = ev.Shuffle(8, ev.RandomizedResponse(2.0, 2))
    for rate in (0.5, 1.0):
        with pytest.raises(Unsupported):
            pp.account(ev.TruncatedPoisson(rate, 4, 8, bits), epsilon=0.2, neighbours="replace-one")
    uncut = pp.account(ev.TruncatedPoisson(0.5, 8, 8, bits), epsilon=0.2, neighbours="replace-one")
    joined = pp.account(ev.Poisson(0.5, bits), epsilon=0.2, neighbours="replace-one")
    assert uncut.delta.upper == pytest.approx(joined.delta.upper, rel=0.01)
