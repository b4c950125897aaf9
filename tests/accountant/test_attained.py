"""Lower bounds by exact tests: small cases in full, published values, and never above an upper."""

from __future__ import annotations

import itertools
import math
from functools import partial

import mpmath
import numpy as np
import pytest

import privplan as pp
from privplan import events as ev
from privplan.accountant.account import account, bounds_on_epsilon
from privplan.accountant.amplification.shuffling.attained import (
    attained_pairs,
    lower_delta,
    lower_epsilon,
    noise_bins,
    response_bins,
)
from privplan.accountant.amplification.shuffling.blanket import blanket_profile
from privplan.accountant.amplification.shuffling.clones import clones_profile
from privplan.accountant.amplification.shuffling.lattice import Part, law_of_sum
from privplan.accountant.amplification.shuffling.profile import smallest_epsilon
from privplan.accountant.amplification.shuffling.randomizers import (
    GaussianRandomizer,
    LaplaceRandomizer,
    Randomizer,
    ResponseRandomizer,
)

from ..cases import for_each


def exact_sum(parts: list[Part]) -> list[mpmath.mpf]:
    """Convolve one message at a time, with 40 digits."""
    law = [mpmath.mpf(1)]
    for part in parts:
        masses = [mpmath.mpf(float(mass)) for mass in part.masses]
        total = sum(masses)
        for _ in range(part.count):
            grown = [mpmath.mpf(0)] * (len(law) + len(masses) - 1)
            for i, j in itertools.product(range(len(law)), range(len(masses))):
                grown[i + j] += law[i] * masses[j] / total
            law = grown
    return law


@for_each(
    "parts",
    [
        [Part(np.array([0.3, 0.7]), 40)],
        [Part(np.array([0.999, 0.0, 0.001]), 60), Part(np.array([0.1, 0.2, 0.7]), 2)],
        [Part(np.array([0.2, 0.5, 0.0, 0.3]), 30), Part(np.array([0.5, 0.5]), 5)],
        [Part(np.array([0.0, 1.0]), 7), Part(np.array([0.5, 0.0, 0.5]), 1)],
        [Part(np.array([1e-9, 1.0 - 1e-9]), 25)],
    ],
)
def test_laws_of_sums_enclose_the_exact_ones(parts: list[Part]) -> None:
    with mpmath.workdps(40):
        exact = exact_sum(parts)
    law = law_of_sum(parts)
    tight = 0
    for s in range(law.first, law.last + 1):
        low, high = float(law.log_lower[s - law.first]), float(law.log_upper[s - law.first])
        with mpmath.workdps(40):
            truth = mpmath.log(exact[s]) if exact[s] > 0 else -math.inf
        assert low <= truth <= high
        tight += high - low < 1e-6
    assert tight >= max((law.last - law.first) // 3, 1)


def test_laws_of_long_sums_keep_their_digits_far_out() -> None:
    """A million messages; log probabilities against a binomial by log-gamma with 30 digits."""
    n = 10**6
    law = law_of_sum([Part(np.array([0.7, 0.3]), n)])
    for s in (300_000, 302_300, 297_000, 306_000):
        with mpmath.workdps(40):
            exact = mpmath.log(mpmath.binomial(n, s))
            exact += s * mpmath.log(mpmath.mpf(0.3)) + (n - s) * mpmath.log(mpmath.mpf(0.7))
            exact -= n * mpmath.log(mpmath.mpf(0.3) + mpmath.mpf(0.7))
        low, high = law.between(s, s)
        assert low[0] <= exact <= high[0]
        assert high[0] - low[0] < 2e-6


@for_each(
    ("randomizer", "published"),
    [
        (lambda e: ResponseRandomizer(e, 3), (0.03799, 0.13394, 0.38104)),
        (lambda e: ResponseRandomizer(e, 10), (0.02325, 0.12589, 0.38055)),
        (lambda e: ResponseRandomizer(e, 2), (0.03565, 0.09781, 0.28887)),
        (LaplaceRandomizer, (0.03130, 0.07842, 0.22540)),
    ],
)
def test_published_lower_ends(randomizer, published) -> None:  # type: ignore[no-untyped-def]
    """Values of exact tests in an independent prototype; ours merge outcomes, and lose a little."""
    settings = ((1.0, 10**4, 1e-6), (4.0, 10**5, 1e-7), (8.0, 10**6, 1e-8))
    for (epsilon0, users, delta), expected in zip(settings, published, strict=True):
        result = lower_epsilon(attained_pairs(randomizer(epsilon0), users), delta)
        assert expected * (1 - 4e-4) <= result <= expected * (1 + 1e-3)


@for_each(("users", "delta", "published"), [(10**4, 1e-6, 0.0458), (10**5, 1e-7, 0.0154)])
def test_gaussian_lower_ends(users: int, delta: float, published: float) -> None:
    result = lower_epsilon(attained_pairs(GaussianRandomizer(1.0), users), delta)
    assert 0.98 * published <= result <= 1.01 * published


def exact_hockey_stick(law_p: list, law_q: list, epsilon: float) -> float:  # type: ignore[type-arg]
    return float(
        sum(max(p - mpmath.exp(epsilon) * q, 0) for p, q in zip(law_p, law_q, strict=True))
    )


@for_each("users", [1, 2, 25])
@for_each("categories", [2, 3, 6])
def test_response_pairs_lie_just_below_the_exact_ones(users: int, categories: int) -> None:
    randomizer = ResponseRandomizer(1.2, categories)
    bins = response_bins(randomizer)
    others = Part(bins.others, users - 1)
    laws = [exact_sum([others, Part(law, 1)]) for law in (bins.first, bins.second)]
    forward, backward = attained_pairs(randomizer, users)[:2]
    for epsilon in (0.0, 0.1, 0.6):
        for pair, (p, q) in ((forward, laws), (backward, laws[::-1])):
            exact = exact_hockey_stick(p, q, epsilon)
            assert exact * (1 - 1e-7) - 1e-13 <= lower_delta(pair, epsilon) <= exact


def test_bins_are_the_probabilities_of_their_intervals() -> None:
    """Masses add up to 1, and the likelihood ratio grows from bin to bin."""
    for randomizer in (LaplaceRandomizer(0.5), LaplaceRandomizer(9.0), GaussianRandomizer(0.6)):
        bins = noise_bins(randomizer, 0.0, 1000, reach=2.0 if hasattr(randomizer, "sigma") else 0.0)
        for masses in (bins.others, bins.first, bins.second, bins.middle):
            assert math.fsum(masses) == pytest.approx(1.0, abs=1e-13)
        ratios = bins.first / bins.second
        assert np.all(np.diff(ratios) > -1e-9 * ratios[1:])
        assert np.array_equal(bins.others, bins.second)


def upper_of(randomizer: Randomizer, users: int, delta: float) -> float:
    return smallest_epsilon(blanket_profile(randomizer, users), delta)


@for_each("count", [11, pytest.param(70, marks=pytest.mark.slow)])
def test_no_lower_end_is_above_an_upper_end(count: int) -> None:
    """Random settings: blanket, and for bounded losses both clones bounds too."""
    rng = np.random.default_rng(2024)
    gaps = []
    for index in range(count):
        epsilon0 = float(10 ** rng.uniform(-1.5, 1.0))
        users, delta = int(10 ** rng.uniform(0.0, 4.0)), float(10 ** rng.uniform(-10, -1))
        kinds = (
            LaplaceRandomizer(epsilon0),
            ResponseRandomizer(epsilon0, int(rng.integers(2, 30))),
            GaussianRandomizer(float(rng.uniform(0.3, 5.0))),
        )
        randomizer = kinds[index % 3] if index % 12 == 2 else kinds[index % 2]
        lower = lower_epsilon(attained_pairs(randomizer, users), delta)
        upper = upper_of(randomizer, users, delta)
        assert lower <= upper
        if randomizer.largest_loss < math.inf:
            for adaptive in (False, True):
                bound = clones_profile(randomizer.largest_loss, users, adaptive=adaptive)
                assert lower <= smallest_epsilon(bound, delta)
        gaps.append(lower / upper if upper > 0.0 else 1.0)
    assert np.median(gaps) > 0.7


def wang_variation_ratio(epsilon0: float, users: int, categories: int, epsilon: float) -> float:
    """The "upper bound" of Wang et al. (VLDB 2024) for k-ary response, which is none for k > 3."""
    p = math.exp(epsilon0)
    alpha = 1.0 / (p + categories - 1.0)
    clone = 2.0 * alpha
    law_p: dict[tuple[int, int], float] = {}
    law_q: dict[tuple[int, int], float] = {}
    for count in range(users):
        chance = math.comb(users - 1, count) * clone**count * (1 - clone) ** (users - 1 - count)
        for first in range(count + 1):
            weight = chance * math.comb(count, first) * 0.5**count
            for up, down, share in (
                (1, 0, p * alpha),
                (0, 1, alpha),
                (0, 0, 1 - alpha - p * alpha),
            ):
                key = (first + up, count - first + down)
                law_p[key] = law_p.get(key, 0.0) + weight * share
                law_q[key[::-1]] = law_q.get(key[::-1], 0.0) + weight * share
    keys = law_p.keys() | law_q.keys()
    return sum(max(law_p.get(k, 0.0) - math.exp(epsilon) * law_q.get(k, 0.0), 0.0) for k in keys)


@for_each(
    ("epsilon0", "epsilon", "exact", "claimed"),
    [(2.0, 1.0, 6.274e-4, 3.915e-4), (1.0, 0.5, 4.28e-7, 2.31e-7)],
)
def test_the_variation_ratio_bound_is_contradicted_and_ours_is_not(
    epsilon0: float, epsilon: float, exact: float, claimed: float
) -> None:
    """10 categories, 30 users, all others on one third value: a published counterexample."""
    assert wang_variation_ratio(epsilon0, 30, 10, epsilon) == pytest.approx(claimed, rel=2e-3)
    randomizer = ResponseRandomizer(epsilon0, 10)
    shown = max(lower_delta(pair, epsilon) for pair in attained_pairs(randomizer, 30))
    assert 1.2 * claimed < shown <= exact * 1.002  # printed to three digits
    proven = math.exp(blanket_profile(randomizer, 30).log_delta(epsilon))
    assert exact * 0.999 <= proven


def test_a_bare_local_epsilon_names_no_mechanism() -> None:
    assert attained_pairs(None, 1000) == ()
    assert lower_epsilon((), 1e-6) == 0.0


def test_the_worst_randomizer_of_a_local_epsilon_gives_a_lower_end() -> None:
    """Where an audit asks about one mechanism, nothing is known; of all of them the worst is."""
    event = ev.Shuffle(1000, ev.Local(1.0))
    ternary = ev.Shuffle(1000, ev.RandomizedResponse(1.0, 3))
    ask = partial(pp.account, delta=1e-6, neighbours="replace-one")
    assert bounds_on_epsilon(event, delta=1e-6, neighbours="replace-one").lower == 0.0
    whole, one = ask(event), ask(ternary)
    assert one.epsilon.lower <= whole.epsilon.lower <= whole.epsilon.upper
    assert any("may lose less" in step.statement for step in whole.derivation)
    assert not any("may lose less" in step.statement for step in one.derivation)
    ten = ev.Repeat(10, ev.Pure(1.0))
    response = ask(ev.Repeat(10, ev.RandomizedResponse(1.0, 2)))
    assert account(ten, delta=1e-6).epsilon.lower == pytest.approx(response.epsilon.lower, rel=1e-6)
    assert bounds_on_epsilon(ten, delta=1e-6).lower == 0.0


def test_edges_give_no_false_lower_end() -> None:
    assert attained_pairs(LaplaceRandomizer(1e-9), 10) == ()
    assert attained_pairs(ResponseRandomizer(300.0, 5), 10) == ()
    assert attained_pairs(LaplaceRandomizer(1.0), 10**12) == ()
    pairs = attained_pairs(LaplaceRandomizer(1.0), 1)
    for epsilon in (0.2, 0.9):
        exact = -math.expm1(0.5 * (epsilon - 1.0))
        shown = max(lower_delta(pair, epsilon) for pair in pairs)
        assert 0.95 * exact <= shown <= exact
    assert max(lower_delta(pair, 1.0) for pair in pairs) == 0.0


def test_rounds_compose_from_below_too() -> None:
    """Ten rounds through the pld engine: between the tests and the blanket."""
    event = ev.Repeat(10, ev.Shuffle(2000, ev.RandomizedResponse(1.0, 3)))
    result = pp.account(event, delta=1e-6, neighbours="replace-one").epsilon
    assert 0.9 * result.upper < result.lower <= result.upper


def test_sums_that_lie_far_apart_give_a_lower_end() -> None:
    event = ev.Shuffle(3, ev.RandomizedResponse(8.0, 3))
    result = pp.account(event, delta=1e-3, neighbours="replace-one").epsilon
    assert 7.99 < result.lower <= result.upper <= 8.0


def test_messages_that_say_nothing_show_nothing() -> None:
    for event in (ev.Local(0.0), ev.RandomizedResponse(0.0, 4)):
        shuffled = ev.Shuffle(100, event)
        assert pp.account(shuffled, delta=1e-5, neighbours="replace-one").epsilon == 0.0
        among_others = ev.Compose([shuffled, ev.Laplace(2.0)])
        found = pp.account(among_others, delta=1e-5, neighbours="replace-one").epsilon
        assert found.lower <= found.upper == pytest.approx(1.0, rel=1e-3)
