"""The clones bounds, against exact sums, brute force on small mechanisms, and published values."""

from __future__ import annotations

import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from privplan.accountant.amplification.shuffling.blanket import blanket_profile
from privplan.accountant.amplification.shuffling.clones import (
    clones_profile,
    fmt21_profile,
    fmt23_profile,
)
from privplan.accountant.amplification.shuffling.profile import smallest_epsilon
from privplan.accountant.amplification.shuffling.randomizers import ResponseRandomizer
from privplan.accountant.errors import InvalidInput, Unsupported

from ..cases import for_each


@cache
def exact_delta(epsilon0: float, users: int, epsilon: float, adaptive: bool) -> mpmath.mpf:
    """Sum the pair's hockey stick outcome by outcome: no threshold, no Pascal, 40 digits."""
    with mpmath.workdps(40):
        p, growth = mpmath.exp(epsilon0), mpmath.exp(epsilon)
        success = 1 / p if adaptive else 2 / (p + 1)
        total = mpmath.mpf(0)
        for clones in range(users):
            weight = mpmath.binomial(users - 1, clones) * success**clones
            weight *= (1 - success) ** (users - 1 - clones)
            for first in range(clones + 2):
                with_it = mpmath.binomial(clones, first - 1) if first else mpmath.mpf(0)
                without = mpmath.binomial(clones, first) if first <= clones else mpmath.mpf(0)
                likely = (p * with_it + without) / (p + 1) / 2**clones
                law_q = (with_it + p * without) / (p + 1) / 2**clones
                total += weight * max(likely - growth * law_q, 0)
        return +total


@for_each("adaptive", [False, True])
@for_each(
    ("epsilon0", "users", "epsilon"),
    [
        (1.0, 1, 0.5),
        (1.0, 2, 0.0),
        (1.0, 12, 0.3),
        (1.0, 60, 0.7),
        (0.01, 30, 0.004),
        (1e-7, 20, 3e-8),
        (4.0, 40, 2.0),
        (12.0, 15, 11.9),
        (math.log(3.0), 24, math.log(2.0)),  # the threshold meets integers here
        (math.log(5.0), 30, math.log(2.0)),
        (2.0, 50, 1.999999),
    ],
)
def test_bound_is_just_above_the_exact_sum(
    epsilon0: float, users: int, epsilon: float, adaptive: bool
) -> None:
    exact = exact_delta(epsilon0, users, epsilon, adaptive)
    result = math.exp(clones_profile(epsilon0, users, adaptive=adaptive).log_delta(epsilon))
    assert exact <= result <= exact * (1 + 1e-6) + 1e-21


@for_each("adaptive", [False, True])
@for_each(
    ("epsilon0", "users", "epsilon"),
    [(1.0, 10**6, 0.004), (1.0, 10**4, 0.06), (8.0, 10**6, 0.5), (4.0, 10**5, 0.2)],
)
def test_large_sums_agree_with_another_library(
    epsilon0: float, users: int, epsilon: float, adaptive: bool
) -> None:
    p, growth = math.exp(epsilon0), math.exp(epsilon)
    success = 1 / p if adaptive else 2 / (p + 1)
    clones = np.arange(*binom.ppf([1e-280, 1 - 1e-16], users - 1, success).astype(int))
    m = clones + 1
    t = np.floor(m * (p * growth - 1) / ((p - 1) * (1 + growth))) + 1
    each = (p - growth) / (p + 1) * binom.pmf(t - 1, m - 1, 0.5)
    each -= math.expm1(epsilon) * binom.sf(t - 1, m - 1, 0.5)
    reference = float((binom.pmf(clones, users - 1, success) * each).sum())
    result = clones_profile(epsilon0, users, adaptive=adaptive).log_delta(epsilon)
    assert result == pytest.approx(math.log(reference), abs=1e-7)


@for_each(
    ("epsilon0", "users", "delta", "fmt21", "fmt23"),
    [
        (1.0, 10**4, 1e-6, 0.05301, 0.04321),
        (4.0, 10**5, 1e-7, 0.19343, 0.13522),
        (8.0, 10**6, 1e-8, 0.55664, 0.38112),
    ],
)
def test_published_settings(
    epsilon0: float, users: int, delta: float, fmt21: float, fmt23: float
) -> None:
    """Values of an independent prototype, rounded to five digits."""
    assert smallest_epsilon(fmt21_profile(epsilon0, users), delta) == pytest.approx(fmt21, abs=6e-6)
    assert smallest_epsilon(fmt23_profile(epsilon0, users), delta) == pytest.approx(fmt23, abs=6e-6)


def shuffled_law(laws: list[np.ndarray]) -> dict[tuple[int, ...], float]:
    """Enumerate the multiset of one message from each law."""
    size = laws[0].size
    result: dict[tuple[int, ...], float] = {}
    for messages in itertools.product(range(size), repeat=len(laws)):
        counts = tuple(messages.count(symbol) for symbol in range(size))
        chance = math.prod(float(law[y]) for law, y in zip(laws, messages, strict=True))
        result[counts] = result.get(counts, 0.0) + chance
    return result


def hockey_stick(law_p: dict, law_q: dict, epsilon: float) -> float:  # type: ignore[type-arg]
    keys = law_p.keys() | law_q.keys()
    growth = math.exp(epsilon)
    return sum(max(law_p.get(key, 0.0) - growth * law_q.get(key, 0.0), 0.0) for key in keys)


def random_rows(rng: np.random.Generator, rows: int, size: int, epsilon0: float) -> np.ndarray:
    """Return laws whose probabilities differ by at most e^epsilon0, some exactly by that."""
    base = rng.dirichlet(np.ones(size))
    while True:
        tilts = np.exp(epsilon0 * rng.choice([0.0, 0.5, 1.0], size=(rows, size)))
        laws = base * tilts
        laws /= laws.sum(axis=1, keepdims=True)
        worst = np.log(laws.max(axis=0) / laws.min(axis=0)).max()
        if 0.5 * epsilon0 < worst <= epsilon0:
            return laws


def test_shared_randomizers_stay_below_the_2023_bound() -> None:
    """Brute force: 60 random randomizers, all messages enumerated, both orders."""
    rng = np.random.default_rng(7)
    closest = 0.0
    for _ in range(60):
        users, size = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        epsilon0 = rng.uniform(0.3, 3)
        laws = random_rows(rng, users + 1, size, epsilon0)
        if rng.random() < 0.3:  # others may hold the neighbours' own values
            laws[2:] = laws[rng.integers(0, 2, users - 1)]
        others = list(laws[2:])
        law_p, law_q = (shuffled_law([laws[x], *others]) for x in (0, 1))
        profile = fmt23_profile(epsilon0, users)
        for epsilon in epsilon0 * np.array([0.0, 0.2, 0.5, 0.8]):
            bound = math.exp(profile.log_delta(float(epsilon)))
            truth = max(hockey_stick(law_p, law_q, epsilon), hockey_stick(law_q, law_p, epsilon))
            assert truth <= bound
            closest = max(closest, truth / bound)
    assert closest > 0.5  # the comparison is not an empty one


def test_own_alphabets_break_the_2023_bound_so_it_is_refused() -> None:
    """Messages that name their users: the shuffler hides nothing, and the pair is exceeded."""
    users, epsilon0 = 4, 1.0
    true = 1.0 / (1.0 + math.exp(-epsilon0))
    laws = []
    for user in range(users):
        law = np.zeros(2 * users)
        law[2 * user : 2 * user + 2] = true, 1.0 - true
        laws.append(law)
    flipped = laws[0].copy()
    flipped[:2] = flipped[1::-1]
    exact = hockey_stick(shuffled_law(laws), shuffled_law([flipped, *laws[1:]]), 0.5)
    assert exact > 1.2 * math.exp(fmt23_profile(epsilon0, users).log_delta(0.5))
    with pytest.raises(Unsupported, match="own") as refusal:
        fmt23_profile(epsilon0, users, shared=False)
    assert "local epsilon" in refusal.value.next_step


def test_adaptive_randomizers_are_sent_to_the_2021_bound() -> None:
    with pytest.raises(Unsupported, match="adaptive") as refusal:
        fmt23_profile(1.0, 100, adaptive=True)
    assert "adaptive=True" in refusal.value.next_step
    adaptive = clones_profile(1.0, 100, adaptive=True).log_delta(0.3)
    assert adaptive == fmt21_profile(1.0, 100).log_delta(0.3)


def test_binary_response_attains_the_blanket_form_of_the_2023_bound() -> None:
    for epsilon0, users in ((0.5, 200), (3.0, 5000)):
        profile = fmt23_profile(epsilon0, users)
        two = blanket_profile(ResponseRandomizer(epsilon0, 2), users)
        for epsilon in (0.1 * epsilon0, 0.3 * epsilon0):
            assert two.log_delta(epsilon) == pytest.approx(profile.log_delta(epsilon), abs=5e-4)
            assert two.log_delta(epsilon) >= profile.log_delta(epsilon) - 1e-9


@for_each("adaptive", [False, True])
def test_laws(adaptive: bool) -> None:
    """More users never worse; delta falls with epsilon; amplified never above local; 2021 above."""
    rng = np.random.default_rng(11)
    for _ in range(25):
        epsilon0, users = float(rng.uniform(0.01, 10.0)), int(10 ** rng.uniform(0.0, 5.0))
        profile = clones_profile(epsilon0, users, adaptive=adaptive)
        more = clones_profile(epsilon0, 2 * users, adaptive=adaptive)
        epsilons = epsilon0 * np.sort(rng.uniform(0.0, 1.0, 5))
        deltas = [profile.log_delta(float(epsilon)) for epsilon in epsilons]
        assert all(b <= a + 1e-9 for a, b in itertools.pairwise(deltas))
        for epsilon, log_delta in zip(epsilons, deltas, strict=True):
            alone = math.log(-math.expm1(epsilon - epsilon0) / (1.0 + math.exp(-epsilon0)))
            assert more.log_delta(float(epsilon)) <= log_delta + 1e-9
            assert log_delta <= alone + 1e-12
            older = clones_profile(epsilon0, users, adaptive=True).log_delta(float(epsilon))
            assert log_delta <= older + 1e-9
        assert profile.log_delta(epsilon0) == -math.inf


@for_each(
    ("epsilon0", "users", "epsilon"),
    [
        (1e-12, 10, 1e-13),
        (60.0, 10**6, 30.0),
        (800.0, 10, 1.0),
        (1.0, 10**8, 5e-4),
        (1.0, 10**18, 5e-4),
        (1.0, 10**6, 0.9),
        (0.0, 10, 0.0),
    ],
)
def test_extremes_give_numbers(epsilon0: float, users: int, epsilon: float) -> None:
    result = clones_profile(epsilon0, users).log_delta(epsilon)
    assert result <= 0.0
    assert not math.isnan(result)
    assert (result == -math.inf) == (epsilon >= epsilon0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="epsilon0"):
        clones_profile(-1.0, 10)
    with pytest.raises(InvalidInput, match="users"):
        clones_profile(1.0, 0)


def test_steps_name_the_conditions() -> None:
    (step,) = clones_profile(1.0, 100).steps
    assert step.stage == "shuffling"
    assert any("share" in condition for condition in step.conditions)
    (step,) = clones_profile(1.0, 100, adaptive=True).steps
    assert any("permuted" in condition for condition in step.conditions)
