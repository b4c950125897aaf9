"""The privacy blanket, from the randomizers to the guarantee: golden values, oracles, laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.amplification.shuffling.blanket import blanket_profile
from privplan.accountant.amplification.shuffling.clones import clones_profile
from privplan.accountant.amplification.shuffling.profile import smallest_epsilon
from privplan.accountant.amplification.shuffling.randomizers import (
    GaussianRandomizer,
    LaplaceRandomizer,
    Randomizer,
    ResponseRandomizer,
    randomizer_of,
)

from ..cases import for_each
from ..sweeps import sweep
from .blankets import RANDOMIZERS, delta_of, histogram


@for_each(
    ("users", "exact"),
    # 1-LDP Laplace noise at delta = .01 / n; computed with a lattice four times as fine and without
    # certification, to all digits given.
    sweep(
        [(10**3, 0.10920854), (10**4, 0.03784308), (10**5, 0.01296710), (10**6, 0.00440039)],
        quick=2,
    ),
)
def test_laplace_reaches_the_exact_blanket(users: int, exact: float) -> None:
    result = account(
        ev.Shuffle(users, ev.Laplace(2.0)), delta=0.01 / users, neighbours="replace-one"
    )
    assert result.engine == "blanket"
    assert exact - 5e-9 <= result.epsilon.upper <= exact * 1.00002
    assert 0.8 * exact <= result.epsilon.lower <= exact


@for_each(
    ("randomizer", "users", "delta", "low", "high"),
    [
        (LaplaceRandomizer(1.0), 10**4, 1e-6, 0.0378430, 0.0378440),
        (LaplaceRandomizer(4.0), 10**5, 1e-7, 0.1092765, 0.1092790),
        (LaplaceRandomizer(8.0), 10**6, 1e-8, 0.3056710, 0.3056760),
        (ResponseRandomizer(1.0, 2), 10**4, 1e-6, 0.04320, 0.04322),
        (ResponseRandomizer(4.0, 2), 10**5, 1e-7, 0.13521, 0.13523),
        (ResponseRandomizer(8.0, 2), 10**6, 1e-8, 0.38110, 0.38113),
        # For 10 categories the exact lower bounds of data with all others on a third value.
        (ResponseRandomizer(1.0, 10), 10**4, 1e-6, 0.02325, 0.02326),
        (ResponseRandomizer(4.0, 10), 10**5, 1e-7, 0.12589, 0.12591),
        (ResponseRandomizer(8.0, 10), 10**6, 1e-8, 0.38055, 0.38056),
        (ResponseRandomizer(4.0, 100), 10**5, 1e-7, 0.07887, 0.07892),
        (GaussianRandomizer(1.0), 10**4, 1e-6, 0.0600, 0.0602),
        (GaussianRandomizer(1.0), 10**5, 1e-7, 0.0204, 0.0205),
    ],
)
def test_blankets_of_known_settings(
    randomizer: Randomizer, users: int, delta: float, low: float, high: float
) -> None:
    assert low <= smallest_epsilon(blanket_profile(randomizer, users), delta) <= high


@for_each(("noise", "sigma"), [(2.0, 1.0), (0.6, 0.3)])
def test_units_of_noise_are_those_of_a_range_of_two_bounds(noise: float, sigma: float) -> None:
    assert randomizer_of(ev.Gaussian(noise)) == GaussianRandomizer(sigma)
    assert randomizer_of(ev.Laplace(noise)) == LaplaceRandomizer(
        pytest.approx(2.0 / noise, rel=1e-15)
    )


def test_composed_rounds_of_a_whole_vector() -> None:
    # SS-Simple: 7,850 coordinates, .01-LDP each, shuffled each by itself among 1,000.
    event = ev.Repeat(7850, ev.Shuffle(1000, ev.Laplace(200.0)))
    result = account(event, delta=5.0119e-6, neighbours="replace-one")
    assert 0.0900 <= result.epsilon.lower <= result.epsilon.upper
    assert 0.09035 <= result.epsilon.upper <= 0.09045


def response_delta(epsilon0: float, categories: int, users: int, epsilon: float) -> float:
    """Return (1/n) E[(sum)+] for k-ary randomized response by listing the three kinds of terms."""
    p = math.exp(epsilon0)
    first = 1.0 / (p + categories - 1.0)
    others = (categories - 2) * first
    total = 0.0
    for rest in range(users + 1):  # messages in the blanket on neither of the two categories
        weight = binom.pmf(rest, users, others)
        for both in range(users - rest + 1):
            both_weight = weight * binom.pmf(both, users - rest, 2.0 * first / (1.0 - others))
            a = np.arange(both + 1)
            value = a * (p - math.exp(epsilon)) + (both - a) * (1.0 - p * math.exp(epsilon))
            value += rest * (1.0 - math.exp(epsilon))
            total += both_weight * float((binom.pmf(a, both, 0.5) * np.maximum(value, 0.0)).sum())
    return total / users


@for_each("categories", [2, 3, 10])
@for_each("users", sweep([1, 2, 3, 5, 8, 13, 20], quick=3))
@for_each("epsilon0", [0.3, 1.0, 3.0])
def test_response_is_its_exact_sum(categories: int, users: int, epsilon0: float) -> None:
    profile = blanket_profile(ResponseRandomizer(epsilon0, categories), users)
    for share in (0.0, 0.1, 0.5, 0.9, 0.99):
        exact = response_delta(epsilon0, categories, users, share * epsilon0)
        result = delta_of(profile, share * epsilon0)
        assert exact * (1.0 - 1e-12) <= result <= exact * (1.0 + 2e-3)


@for_each("users", [30, 1000, 10**5, 10**6])
@for_each("epsilon0", [0.5, 2.0, 6.0])
def test_binary_response_is_the_clones_pair(users: int, epsilon0: float) -> None:
    # The same variable, summed in another way (over the exact binomials) by the clones.
    blanket = blanket_profile(ResponseRandomizer(epsilon0, 2), users)
    clones = clones_profile(epsilon0, users)
    for share in (0.01, 0.1, 0.4):
        here, there = blanket.log_delta(share * epsilon0), clones.log_delta(share * epsilon0)
        if there > -200.0:
            assert here == pytest.approx(there, abs=1e-3)


def of_two(masses: np.ndarray, values: np.ndarray, rest: float) -> float:
    """Return E(sum)+ of two values drawn alike, each 0 with probability `rest`."""
    alone = float((masses * np.maximum(values, 0.0)).sum())
    order = np.argsort(values)
    masses, values = masses[order], values[order]
    # For each value the mass, and the mean, of those with which its sum is above 0.
    first = np.searchsorted(values, -values, side="right")
    above, mean = (
        np.append(np.cumsum(each[::-1])[::-1], 0.0)[first] for each in (masses, masses * values)
    )
    return 2.0 * rest * alone + float((masses * (values * above + mean)).sum())


def laplace_delta_of_two(epsilon0: float, epsilon: float) -> float:
    """Return the blanket's delta for two users, by the midpoint rule over both messages."""
    y = (np.arange(3000) + 0.5) / 3000.0
    mu_0, mu_1 = (0.5 * epsilon0 * np.exp(-epsilon0 * np.abs(y - x)) for x in (0.0, 1.0))
    shared = np.concatenate((np.minimum(mu_0, mu_1) / 3000.0, 2 * [0.5 * math.exp(-epsilon0)]))
    loss = np.concatenate((np.log(mu_0 / mu_1), [epsilon0, -epsilon0]))
    value = np.exp(np.maximum(loss, 0.0)) - math.exp(epsilon) * np.exp(np.maximum(-loss, 0.0))
    rest = 1.0 - math.exp(-0.5 * epsilon0)
    return 0.5 * of_two(shared, value, rest)


@for_each("epsilon0", [0.5, 2.0, 5.0])
@for_each("share", [0.0, 0.2, 0.6, 0.95])
def test_laplace_of_two_users_is_its_integral(epsilon0: float, share: float) -> None:
    result = delta_of(blanket_profile(LaplaceRandomizer(epsilon0), 2), share * epsilon0)
    assert result == pytest.approx(laplace_delta_of_two(epsilon0, share * epsilon0), rel=1e-4)


@for_each("sigma", [0.5, 1.0, 3.0])
@for_each("epsilon", [0.0, 0.1, 1.0])
def test_gaussian_of_two_users_is_its_integral(sigma: float, epsilon: float) -> None:
    y = 0.5 + sigma * (np.arange(4001) - 2000.0) / 2000.0 * (6.0 + 0.5 / sigma)
    mu_0, mu_1 = norm.pdf(y, 0.0, sigma), norm.pdf(y, 1.0, sigma)
    shared = np.minimum(mu_0, mu_1)
    value = (mu_0 - math.exp(epsilon) * mu_1) / shared
    shared = shared * (y[1] - y[0])
    rest = 1.0 - 2.0 * norm.cdf(-0.5 / sigma)
    result = delta_of(blanket_profile(GaussianRandomizer(sigma), 2), epsilon)
    exact = 0.5 * of_two(shared, value, rest)
    assert exact * (1.0 - 1e-6) <= result <= exact * 1.01


@for_each(
    ("categories", "users", "epsilon0"),
    [(2, 2, 1.0), (2, 5, 0.5), (2, 9, 2.0), (3, 3, 1.0), (3, 5, 2.0), (4, 4, 0.7)],
)
def test_no_data_of_randomized_response_exceed_the_bound(
    categories: int, users: int, epsilon0: float
) -> None:
    profile = blanket_profile(ResponseRandomizer(epsilon0, categories), users)
    tightest = 0.0
    for share in (0.0, 0.15, 0.5, 0.9):
        worst = 0.0
        for others in itertools.combinations_with_replacement(range(categories), users - 1):
            first = histogram((0, *others), categories, epsilon0)
            second = histogram((1, *others), categories, epsilon0)
            excess = (first[h] - math.exp(share * epsilon0) * second[h] for h in first)
            worst = max(worst, math.fsum(max(each, 0.0) for each in excess))
        result = delta_of(profile, share * epsilon0)
        assert worst <= result
        tightest = max(tightest, worst / result)
    assert tightest > 0.5


@for_each("epsilon0", [0.5, 2.0, 4.0])
def test_no_data_of_laplace_exceed_the_bound(epsilon0: float) -> None:
    y = np.linspace(-6.0 / epsilon0, 1.0 + 6.0 / epsilon0, 301)
    laws = {x: np.exp(-epsilon0 * np.abs(y - x)) for x in (0.0, 0.4, 1.0)}
    laws = {x: law / law.sum() for x, law in laws.items()}
    profile = blanket_profile(LaplaceRandomizer(epsilon0), 2)
    for share in (0.0, 0.2, 0.6):
        result = delta_of(profile, share * epsilon0)
        for first, second, crowd in itertools.product(laws, repeat=3):
            drawn = np.outer(laws[first], laws[crowd])
            instead = np.outer(laws[second], laws[crowd])
            # The analyzer sees the two messages in no order.
            excess = drawn + drawn.T - math.exp(share * epsilon0) * (instead + instead.T)
            assert 0.5 * float(np.maximum(excess, 0.0).sum()) <= result * (1.0 + 1e-9)


def excess(
    first: np.ndarray, second: np.ndarray, shared: np.ndarray, at: tuple[float, float]
) -> float:
    """Return E(L - s)+ over the blanket, up to its mass, for (epsilon, s) = `at`."""
    ratio = (first - math.exp(at[0]) * second) / shared
    return float((shared * np.maximum(ratio - at[1], 0.0)).sum())


@for_each("kind", ["laplace", "gaussian", "response"])
def test_the_ends_of_the_range_are_the_worst_pair_of_values(kind: str) -> None:
    rng = np.random.default_rng(17)
    for _ in range(60):
        scale = rng.uniform(0.2, 2.0)
        reach = scale * (25.0 if kind == "laplace" else 9.0)
        y = 0.5 + np.linspace(-0.5 - reach, 0.5 + reach, 6001)
        off = (y - np.concatenate(([0.0, 1.0], rng.uniform(0.0, 1.0, 5)))[:, None]) / scale
        if kind == "laplace":
            laws = np.exp(-np.abs(off))
        elif kind == "gaussian":
            laws = np.exp(-0.5 * off**2)
        else:
            laws = 1.0 + math.expm1(1.0 / scale) * np.eye(7)
        shared = laws.min(axis=0) if kind == "response" else np.minimum(laws[0], laws[1])
        assert (laws >= shared * (1.0 - 1e-12)).all()
        at = (rng.uniform(-1.0, 2.0), 2.0 * rng.normal())
        worst = excess(laws[0], laws[1], shared, at)
        for first, second in itertools.permutations(range(7), 2):
            result = excess(laws[first], laws[second], shared, at)
            assert result <= worst + 1e-4 * float(laws[0].sum())


@for_each("randomizer", RANDOMIZERS, ids=str)
def test_alone_it_is_the_local_randomizer_and_more_users_never_hurt(randomizer: Randomizer) -> None:
    scale = min(randomizer.largest_loss, 2.0)
    for epsilon in scale * np.array([0.0, 0.05, 0.8]):
        local = randomizer.log_local_delta(epsilon)
        logs = [
            blanket_profile(randomizer, users).log_delta(epsilon) for users in (1, 2, 10, 10_000)
        ]
        assert logs[0] == pytest.approx(min(local, 0.0), abs=1e-12)
        assert all(after <= before + 5e-3 for before, after in itertools.pairwise(logs))
        assert max(logs) <= local


@for_each("randomizer", RANDOMIZERS, ids=str)
def test_delta_falls_with_epsilon_and_ends_at_the_local_epsilon(randomizer: Randomizer) -> None:
    profile = blanket_profile(randomizer, 300)
    scale = min(randomizer.largest_loss, 1.0)
    logs = [profile.log_delta(epsilon) for epsilon in scale * np.linspace(0.0, 0.999, 6)]
    assert all(after <= before + 5e-3 for before, after in itertools.pairwise(logs))
    if randomizer.largest_loss < math.inf:
        assert profile.log_delta(randomizer.largest_loss) == -math.inf
        assert smallest_epsilon(profile, 1e-250) <= randomizer.largest_loss


def test_local_hockey_sticks_are_exact() -> None:
    y = np.linspace(-9.0, 10.0, 400_001)
    for randomizer, law in (
        (GaussianRandomizer(0.7), lambda x: norm.pdf(y, x, 0.7)),
        (LaplaceRandomizer(1.5), lambda x: 0.75 * np.exp(-1.5 * np.abs(y - x))),
    ):
        for epsilon in (0.0, 0.4, 1.2):
            excess = np.maximum(law(0.0) - math.exp(epsilon) * law(1.0), 0.0)
            assert math.exp(randomizer.log_local_delta(epsilon)) == pytest.approx(
                float(excess.sum() * (y[1] - y[0])), rel=1e-4
            )


@for_each("randomizer", [*RANDOMIZERS, GaussianRandomizer(0.2)], ids=str)
@for_each("outside", [1e-3, 1e-12])
def test_a_blanket_keeps_mass_and_means(randomizer: Randomizer, outside: float) -> None:
    blanket = randomizer.blanket(outside)
    masses = np.exp(np.append(blanket.log_masses, blanket.log_rest))
    assert math.fsum(masses) == pytest.approx(1.0, abs=1e-12)
    for epsilon in (0.0, 0.1, 1.0):
        values, _ = blanket.terms(epsilon)
        mean = float((masses * values).sum())
        exact = -math.expm1(epsilon)
        # Raised, never lowered, by rounding and by the losses that are left out.
        gone = blanket.outside if randomizer.largest_loss == math.inf else 0.0
        assert exact - gone - 1e-13 <= mean <= exact + 3.0 * math.exp(epsilon) * gone + 1e-11
        local = math.exp(randomizer.log_local_delta(epsilon))
        assert float((masses * np.maximum(values, 0.0)).sum()) + gone >= local * (1.0 - 1e-11)


@for_each("noise", [1e-30, 1e-8, 3e-8, 1e-3, 0.05])
def test_hardly_any_noise_is_bounded_by_what_one_message_shows(noise: float) -> None:
    # One message in the clear: Phi(a - b) - e^eps Phi(-a - b), a = 1 / noise, b = eps noise / 2.
    event = ev.Shuffle(10, ev.Gaussian(noise))
    answer = account(event, epsilon=1.0, neighbours="replace-one").delta
    assert answer.upper == pytest.approx(norm.cdf(1.0 / noise - 0.5 * noise), abs=1e-6)
    at_delta = account(event, delta=1e-3, neighbours="replace-one").epsilon
    assert at_delta.upper >= 1.9 / noise**2  # the mean of the losses is 2 / noise^2


def test_an_inexact_ratio_is_rounded_up() -> None:
    for noise in np.random.default_rng(3).uniform(0.1, 30.0, 300):
        known = randomizer_of(ev.Laplace(float(noise)))
        assert isinstance(known, LaplaceRandomizer)
        num, den = known.epsilon0.as_integer_ratio()
        top, bottom = float(noise).as_integer_ratio()
        assert num * top >= 2 * den * bottom
        assert known.epsilon0 <= math.nextafter(2.0 / noise, math.inf)
