"""Pairs of the blanket bound's profiles, their composition, and the engine on top."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.amplification.shuffling.blanket import blanket_profile
from privplan.accountant.amplification.shuffling.profile import Profile, atoms, smallest_epsilon
from privplan.accountant.amplification.shuffling.randomizers import (
    GaussianRandomizer,
    Randomizer,
    ResponseRandomizer,
    randomizer_of,
)
from privplan.accountant.amplification.shuffling.rounds import shuffled_profile
from privplan.accountant.composition import Composition
from privplan.accountant.engines.blanket import BlanketEngine
from privplan.accountant.engines.gdp import GdpEngine
from privplan.accountant.engines.pld import PldEngine
from privplan.accountant.engines.rdp import RdpEngine
from privplan.accountant.errors import InvalidInput, Unsupported

from ..cases import for_each
from ..sweeps import sweep
from .blankets import RANDOMIZERS, histogram

ENGINE = BlanketEngine()


def hockey_stick(log_p: np.ndarray, log_q: np.ndarray, epsilon: float) -> float:
    excess = np.exp(log_p) - math.exp(epsilon) * np.exp(log_q)
    return float(np.maximum(excess, 0.0).sum())


def local_profile(randomizer: Randomizer) -> Profile:
    """Return the exact, convex hockey stick of one message."""
    return Profile(lambda e: randomizer.log_local_delta(e), randomizer.largest_loss, ())


@for_each("randomizer", RANDOMIZERS, ids=str)
def test_the_pair_of_a_profile_lies_above_it_and_close(randomizer: Randomizer) -> None:
    profile = local_profile(randomizer)
    log_p, log_q = atoms(profile)
    np.testing.assert_allclose(log_p, log_q[::-1], atol=0.0)
    assert 1.0 <= math.fsum(np.exp(log_p)) <= 1.0 + 2e-11
    top = min(randomizer.largest_loss, 8.0)
    for epsilon in top * np.random.default_rng(5).uniform(0.0, 1.0, 60):
        exact = math.exp(profile.log_delta(epsilon))
        assert hockey_stick(log_p, log_q, epsilon) >= exact * (1.0 - 1e-13)
        mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * exact
        assert hockey_stick(log_p, log_q, -epsilon) >= mirrored * (1.0 - 1e-15)
    for delta in (1e-1, 1e-3, 1e-6):
        epsilon = smallest_epsilon(profile, delta, 1e-9)
        if 0.0 < epsilon < math.inf:
            assert hockey_stick(log_p, log_q, 1.001 * epsilon) <= delta


@for_each("randomizer", sweep(RANDOMIZERS[1::2], quick=2), ids=str)
def test_a_single_round_loses_little_through_its_pair(randomizer: Randomizer) -> None:
    for users in (3000,) if randomizer.largest_loss == math.inf else (200,):
        profile = blanket_profile(randomizer, users)
        log_p, log_q = atoms(profile)
        for delta in (1e-3, 1e-6, 1e-9):
            epsilon = smallest_epsilon(profile, delta)
            if epsilon > 0.0:
                assert hockey_stick(log_p, log_q, 1.001 * epsilon) <= delta


def test_a_dented_bound_is_replaced_by_its_hull() -> None:
    # Bounds that a hockey stick cannot have: a bump, and a value at 0 that is too large.
    def dented(epsilon: float) -> float:
        bump = 0.5 * math.exp(-((epsilon - 0.8) ** 2) / 1e-3)
        lifted = 0.3 if epsilon < 1e-3 else 0.0
        return GaussianRandomizer(1.5).log_local_delta(epsilon) + bump + lifted

    log_p, log_q = atoms(Profile(dented, math.inf, ()))
    exact = GaussianRandomizer(1.5)
    assert 1.0 <= math.fsum(np.exp(log_p)) <= 1.0 + 2e-11
    for epsilon in np.linspace(-3.0, 3.0, 121):
        result = hockey_stick(log_p, log_q, epsilon)
        local = math.exp(exact.log_local_delta(abs(epsilon)))
        if epsilon < 0.0:
            local = -math.expm1(epsilon) + math.exp(epsilon) * local
        assert local * (1.0 - 1e-13) <= result <= local * 1.05


def test_what_tells_nothing_has_one_outcome() -> None:
    log_p, log_q = atoms(blanket_profile(ResponseRandomizer(0.0, 5), 10))
    assert log_p.tolist() == log_q.tolist() == [0.0]


def two_round_delta(epsilon0: float, users: int, epsilon: float) -> float:
    """Return the exact delta of two rounds of binary responses on the same, worst data."""
    worst = 0.0
    for ones in range(users):
        crowd = (1,) * ones + (0,) * (users - 1 - ones)
        first, second = (histogram((x, *crowd), 2, epsilon0) for x in (0, 1))
        ratios = [(first[h], second[h]) for h in first]
        excess = (p * r - math.exp(epsilon) * q * s for p, q in ratios for r, s in ratios)
        worst = max(worst, math.fsum(max(each, 0.0) for each in excess))
    return worst


@for_each(("epsilon0", "users"), [(1.0, 2), (2.0, 6), (0.5, 12)])
def test_two_rounds_are_bounded_by_the_composed_pair(epsilon0: float, users: int) -> None:
    # Exchanging the two categories exchanges the neighbours, so one order is enough.
    event = ev.Repeat(2, ev.Shuffle(users, ev.RandomizedResponse(epsilon0, 2)))
    for share in (0.1, 0.5, 1.0):
        exact = two_round_delta(epsilon0, users, share * epsilon0)
        bounds = PldEngine().delta(Composition.of(event), share * epsilon0, "replace-one").bounds
        assert 0.8 * exact <= bounds.lower <= exact <= bounds.upper <= 1.7 * exact
        assert (
            exact
            <= RdpEngine()
            .delta(Composition.of(event), share * epsilon0, "replace-one")
            .bounds.upper
        )


@for_each("randomizer", sweep([ev.Laplace(2.0), ev.RandomizedResponse(3.0, 4)], quick=1), ids=str)
def test_many_rounds_approach_their_normal_limit(randomizer: ev.Event) -> None:
    known = randomizer_of(randomizer)
    assert known is not None
    users, rounds = 10_000, 400
    blanket = known.blanket(0.0)
    values, log_masses = blanket.terms(0.0)
    mu = math.sqrt(rounds * float((np.exp(log_masses) * values**2).sum()) / users)
    event = ev.Repeat(rounds, ev.Shuffle(users, randomizer))
    result = account(event, delta=1e-6, neighbours="replace-one")
    limit = account(ev.Gaussian(1.0 / mu), delta=1e-6)
    assert result.epsilon.upper == pytest.approx(limit.epsilon.upper, rel=0.02)
    assert result.epsilon.lower <= result.epsilon.upper


def test_renyi_agrees_and_is_looser() -> None:
    event = Composition.of(ev.Repeat(50, ev.Shuffle(2000, ev.Laplace(1.0))))
    tight = PldEngine().epsilon(event, 1e-6, "replace-one").bounds
    renyi = RdpEngine().epsilon(event, 1e-6, "replace-one").bounds
    assert tight.upper <= renyi.upper <= 1.25 * tight.upper


def _random_round(rng: np.random.Generator) -> ev.Shuffle:
    users = round(10.0 ** rng.uniform(0.0, 3.5))
    kind = rng.integers(4)
    if kind == 0:
        return ev.Shuffle(users, ev.Laplace(10.0 ** rng.uniform(-0.5, 1.5)))
    if kind == 1:
        return ev.Shuffle(users, ev.Local(10.0 ** rng.uniform(-1.5, 0.8)))
    epsilon0, categories = 10.0 ** rng.uniform(-1.5, 0.8), int(rng.integers(2, 30))
    return ev.Shuffle(users, ev.RandomizedResponse(epsilon0, categories))


@for_each("trials", [16, pytest.param(80, marks=pytest.mark.slow)])
def test_lower_ends_never_exceed_upper_ends(trials: int) -> None:
    rng = np.random.default_rng(99)
    met = 0
    for trial in range(trials):
        event = _random_round(rng)
        delta = 10.0 ** rng.uniform(-12.0, -1.0)
        result = ENGINE.epsilon(Composition.of(event), delta, "replace-one").bounds
        local = getattr(event.event, "epsilon", None)
        local = 2.0 / event.event.noise_multiplier if local is None else local
        assert 0.0 <= result.lower <= result.upper <= local * (1.0 + 1e-15)
        met += result.lower > 0.9 * result.upper > 0.0
        if result.upper > 0.0 and trial % 5 == 0:
            back = ENGINE.delta(Composition.of(event), result.upper, "replace-one").bounds
            assert back.lower <= back.upper <= delta * (1.0 + 1e-12)
    assert met > trials / 4


def test_an_upper_end_is_certified_at_that_very_epsilon() -> None:
    for users, delta in ((50, 1e-3), (10_000, 1e-6)):
        event = ev.Shuffle(users, ev.Laplace(1.0))
        upper = ENGINE.epsilon(Composition.of(event), delta, "replace-one").bounds.upper
        profile = shuffled_profile(event, "replace-one")
        assert profile.log_delta(upper) <= math.log(delta)
        assert profile.log_delta(upper * (1.0 - 1e-4)) > math.log(delta)


def test_noise_for_one_user_is_the_noise_itself() -> None:
    alone = ENGINE.epsilon(
        Composition.of(ev.Shuffle(1, ev.Gaussian(3.0))), 1e-5, "replace-one"
    ).bounds
    exact = GdpEngine().epsilon(Composition.of(ev.Gaussian(3.0)), 1e-5, "replace-one").bounds
    assert exact.lower <= alone.upper <= exact.upper * (1.0 + 2e-6)
    response = ev.Shuffle(1, ev.RandomizedResponse(2.0, 2))
    delta = ENGINE.delta(Composition.of(response), 1.0, "replace-one").bounds
    exactly = (math.exp(2.0) - math.e) / (math.exp(2.0) + 1.0)
    assert exactly * (1.0 - 1e-9) <= delta.upper <= exactly * (1.0 + 1e-9)


def test_the_ends_of_the_range() -> None:
    known = Composition.of(ev.Shuffle(1000, ev.Laplace(2.0)))
    assert ENGINE.epsilon(known, 1.0, "replace-one").bounds == 0.0
    assert ENGINE.epsilon(known, 0.0, "replace-one").bounds.upper == 1.0
    assert ENGINE.delta(known, 1.0, "replace-one").bounds == 0.0
    assert ENGINE.epsilon(known, 0.5, "replace-one").bounds == 0.0
    hopeless = Composition.of(ev.Shuffle(10, ev.Laplace(1e-3)))
    assert ENGINE.epsilon(hopeless, 1e-6, "replace-one").bounds.upper <= 2000.0


ABSURD = [
    (ev.Laplace(2.0), 10**18),
    (ev.Local(0.5), 10**10),
    (ev.RandomizedResponse(1.0, 4), 10**18),
    (ev.Gaussian(1.0), 10**10),
]


@for_each(("event", "users"), sweep(ABSURD, quick=1))
def test_absurd_numbers_of_users_still_have_an_answer(event: ev.Event, users: int) -> None:
    bounds = ENGINE.epsilon(Composition.of(ev.Shuffle(users, event)), 1e-9, "replace-one").bounds
    assert 0.0 < bounds.upper < 0.01


def test_zero_out_is_a_case_of_replace_one() -> None:
    known = Composition.of(ev.Shuffle(1000, ev.Laplace(2.0)))
    zeroed = ENGINE.epsilon(known, 1e-5, "zero-out").bounds
    assert zeroed.upper == ENGINE.epsilon(known, 1e-5, "replace-one").bounds.upper
    assert zeroed.lower == 0.0


@for_each("engine", [ENGINE, PldEngine(), RdpEngine()], ids=lambda each: each.name)
def test_add_remove_is_refused_and_the_next_relation_named(engine: BlanketEngine) -> None:
    for event in (ev.Shuffle(1000, ev.Laplace(2.0)), ev.Shuffle(1000, ev.Local(1.0))):
        with pytest.raises(Unsupported) as refused:
            engine.epsilon(Composition.of(event), 1e-5, "add-remove")
        assert "visible" in refused.value.why
        assert "replace-one" in refused.value.next_step


@for_each(
    "inner",
    [
        ev.Pure(1.0),
        ev.Exponential(1.0),
        ev.Approximate(1.0, 1e-6),
        ev.DiscreteLaplace(2.0, 1),
        ev.Poisson(0.1, ev.Laplace(1.0)),
        ev.Compose([ev.Laplace(2.0), ev.Laplace(2.0)]),
        ev.Laplace(1e-40),
        ev.Gaussian(1e40),
    ],
    ids=str,
)
def test_other_randomizers_are_refused(inner: ev.Event) -> None:
    with pytest.raises(Unsupported) as refused:
        account(ev.Shuffle(100, inner), delta=1e-5, neighbours="replace-one")
    assert refused.value.next_step


def test_the_engine_takes_one_round_only() -> None:
    for event in (
        ev.Laplace(2.0),
        ev.Repeat(2, ev.Shuffle(100, ev.Laplace(2.0))),
        ev.Compose([ev.Shuffle(100, ev.Laplace(2.0)), ev.Laplace(2.0)]),
    ):
        with pytest.raises(Unsupported):
            ENGINE.epsilon(Composition.of(event), 1e-5, "replace-one")
    with pytest.raises(InvalidInput):
        ENGINE.epsilon(Composition.of(ev.Shuffle(100, ev.Laplace(2.0))), 1.5, "replace-one")


def test_drawn_users_are_amplified_and_compose() -> None:
    whole = ev.Shuffle(500, ev.Laplace(1.0))
    undrawn = ENGINE.epsilon(Composition.of(whole), 1e-6, "replace-one").bounds.upper
    for drawn in (
        ev.FixedSize(500, 5000, whole),
        ev.Poisson(0.1, ev.Shuffle(5000, ev.Laplace(1.0))),
    ):
        first = ENGINE.epsilon(Composition.of(drawn), 1e-6, "replace-one").bounds.upper
        assert first < 0.25 * undrawn
        pld = PldEngine().epsilon(Composition.of(drawn), 1e-6, "replace-one").bounds.upper
        assert first * (1.0 - 1e-4) <= pld <= first * 1.002
    many = (
        PldEngine().epsilon(Composition.of(ev.Repeat(20, drawn)), 1e-6, "replace-one").bounds.upper
    )
    assert 2.0 * first < many < 20.0 * first
