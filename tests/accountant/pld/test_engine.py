"""The engine against closed forms, exact sums, published values, and the laws of accounting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom, multinomial, norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld import PldEngine
from privplan.accountant.engines.pld.compose.questions import MIN_CERTIFIED_DELTA
from privplan.accountant.errors import PrivplanError, Unsupported

from ...cases import for_each

ENGINE = PldEngine()


def epsilon(event, delta, neighbours="add-remove"):
    return ENGINE.epsilon(Composition.of(event), delta, neighbours).bounds


def delta(event, eps, neighbours="add-remove"):
    return ENGINE.delta(Composition.of(event), eps, neighbours).bounds


def _gaussian_log_delta(mu, eps):
    a = log_ndtr(mu / 2 - eps / mu)
    b = eps + log_ndtr(-mu / 2 - eps / mu)
    return a + math.log(-math.expm1(b - a))


# Settings of Gaussian DP: rounds of noise sigma, with mu = sqrt(n) / sigma.
@for_each("rounds", [1, 100_000])
@for_each("mu", [0.01, 0.3, 5.0, 60.0])
@for_each("target", [0.1, 1e-5, 1e-60])
def test_unsampled_gaussians_bracket_the_closed_form(rounds, mu, target):
    sigma = math.sqrt(rounds) / mu
    mu = math.sqrt(rounds) / sigma  # as rounded
    bounds = epsilon(ev.Repeat(rounds, ev.Gaussian(sigma)), target)
    if _gaussian_log_delta(mu, 1e-12) <= math.log(target):
        assert bounds.lower == 0.0
        assert bounds.upper <= 1e-6
        return
    exact = brentq(
        lambda e: _gaussian_log_delta(mu, e) - math.log(target), 1e-12, 1e5, xtol=1e-13, rtol=1e-13
    )
    assert bounds.lower <= exact * (1 + 1e-11)
    assert bounds.upper >= exact * (1 - 1e-11)
    assert bounds.gap <= 1e-3 * bounds.upper


@for_each(
    ("event", "target", "neighbours", "published"),
    [
        # From dp_accounting 0.6.0, PLD at discretisation 1e-5; the last four are rounded.
        (ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))), 1e-5, "add-remove", 1.828237),
        (ev.Repeat(100_000, ev.Poisson(0.001, ev.Gaussian(0.6))), 1e-6, "add-remove", 6.960846),
        (ev.Repeat(5000, ev.Poisson(0.1, ev.Gaussian(5.0))), 1e-5, "add-remove", 6.676899),
        (ev.Repeat(100, ev.Gaussian(10.0)), 1e-5, "add-remove", 4.377178),
        (ev.Gaussian(1.0), 1e-5, "add-remove", 4.377178),
        (ev.Gaussian(1.0), 1e-5, "zero-out", 4.377178),
        (ev.Gaussian(1.0), 1e-5, "replace-one", 9.997256),
        (ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))), 1e-5, "replace-one", 2.8434),
        (ev.Repeat(5000, ev.Poisson(0.1, ev.Gaussian(5.0))), 1e-5, "replace-one", 15.42),
        (ev.Repeat(10_000, ev.Poisson(0.001, ev.Gaussian(0.5))), 1e-6, "add-remove", 6.35),
        (ev.Repeat(100_000, ev.Poisson(0.01, ev.Gaussian(5.0))), 1e-5, "add-remove", 2.627),
    ],
)
def test_published_values_lie_between_the_ends(event, target, neighbours, published):
    bounds = epsilon(event, target, neighbours)
    digits = len(str(published).split(".")[1])
    slack = 2e-5 if digits == 6 else 0.6 * 10**-digits  # published upper bounds, rounded
    assert bounds.lower <= published + slack
    assert bounds.upper >= published - slack
    assert bounds.gap <= 1e-3 * bounds.upper


@for_each("rounds", [1, 2, 13, 100])
@for_each("categories", [2, 3, 10])
def test_randomized_response_against_exact_multinomials(rounds, categories):
    eps = 0.4
    total = math.exp(eps) + categories - 1
    event = ev.Repeat(rounds, ev.RandomizedResponse(eps, categories))
    probabilities = np.array([math.exp(eps), 1.0, categories - 2.0]) / total
    up, down = np.meshgrid(np.arange(rounds + 1), np.arange(rounds + 1), indexing="ij")
    valid = up + down <= rounds
    up, down = up[valid], down[valid]
    counted = np.stack([up, down, rounds - up - down], axis=1)
    masses = multinomial.pmf(counted, rounds, probabilities)
    losses = eps * (up - down)
    for at in (0.0, 0.3, 0.39 * rounds * eps, 0.9 * rounds * eps):
        exact = float((masses * np.maximum(-np.expm1(at - losses), 0.0)).sum())
        bounds = delta(event, at, "replace-one")
        assert bounds.lower <= exact * (1 + 1e-9)
        assert bounds.upper >= exact * (1 - 1e-9)
        assert bounds.gap <= 1e-4 * bounds.upper


@for_each(("rounds", "rate", "eps"), [(50, 0.1, 1.0), (400, 0.01, 2.0)])
def test_sampled_bare_epsilon_against_exact_binomials(rounds, rate, eps):
    """The dominating pair has two outcomes, so the composition is a binomial sum."""
    truth = math.exp(eps) / (1 + math.exp(eps))
    p = np.array([rate * truth + (1 - rate) * (1 - truth), 0.0])
    p[1] = 1 - p[0]
    q = np.array([1 - truth, truth])
    k = np.arange(rounds + 1)
    worst = dict.fromkeys((0.0, 0.2, 0.5), 0.0)
    for numerator, denominator in ((p, q), (q, p)):
        log_ratio = np.log(numerator / denominator)
        losses = k * log_ratio[0] + (rounds - k) * log_ratio[1]
        masses = binom.pmf(k, rounds, numerator[0])
        for at in worst:
            exact = float((masses * np.maximum(-np.expm1(at - losses), 0.0)).sum())
            worst[at] = max(worst[at], exact)
    for at, exact in worst.items():
        bounds = delta(ev.Repeat(rounds, ev.Poisson(rate, ev.Pure(eps))), at)
        assert bounds.upper >= exact * (1 - 1e-9)
        assert bounds.lower == 0.0  # a stated epsilon has no lower end
        assert at != 0.2 or bounds.upper == pytest.approx(exact, rel=1e-3)


def test_approximate_composes_its_delta():
    bounds = delta(ev.Repeat(10, ev.Approximate(0.0, 1e-3)), 0.5)
    assert bounds.upper == pytest.approx(1 - (1 - 1e-3) ** 10, rel=1e-9)
    assert bounds.upper >= 1 - (1 - 1e-3) ** 10
    assert epsilon(ev.Repeat(10, ev.Approximate(0.1, 1e-3)), 1e-3).upper == math.inf


def test_no_guarantee_is_infinite_unless_sampling_hides_it():
    assert epsilon(ev.NoGuarantee("as published"), 0.5).upper == math.inf
    sampled = ev.Repeat(3, ev.Poisson(0.01, ev.NoGuarantee("as published")))
    assert delta(sampled, 1.0).upper == pytest.approx(1 - 0.99**3, rel=1e-9)
    assert epsilon(sampled, 0.03).upper == 0.0
    assert epsilon(sampled, 0.02).upper == math.inf


def test_a_mechanism_that_composes_with_a_bare_epsilon_keeps_its_own_lower_end():
    gaussian = epsilon(ev.Gaussian(2.0), 1e-5)
    both = epsilon(ev.Compose([ev.Gaussian(2.0), ev.Pure(0.1)]), 1e-5)
    assert both.lower == pytest.approx(gaussian.lower, rel=1e-3)
    assert gaussian.upper < both.upper <= gaussian.upper + 0.1 + 1e-3


@for_each("neighbours", ["add-remove", "replace-one"])
def test_discrete_mechanisms_approach_the_continuous_ones(neighbours):
    """On a fine lattice the discrete sum is the continuous one."""
    for discrete, continuous in (
        (ev.DiscreteGaussian(1.2, 400), ev.Gaussian(1.2)),
        (ev.DiscreteLaplace(1.2, 400), ev.Laplace(1.2)),
    ):
        for wrap in (lambda e: ev.Repeat(3, e), lambda e: ev.Repeat(30, ev.Poisson(0.1, e))):
            fine, limit = (epsilon(wrap(e), 1e-5, neighbours) for e in (discrete, continuous))
            assert fine.lower <= limit.upper * (1 + 2e-3)
            assert fine.upper >= limit.lower * (1 - 2e-3)
            assert fine.upper == pytest.approx(limit.upper, rel=4e-3)


def test_replacing_a_sampled_unit_is_neither_adding_nor_half_the_noise():
    event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
    replaced = epsilon(event, 1e-5, "replace-one")
    added = epsilon(event, 1e-5)
    halved = epsilon(ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(0.5))), 1e-5)
    assert added.upper < replaced.lower
    assert replaced.upper < halved.lower


def test_a_bare_epsilon_is_not_sampled_under_replace_one():
    for inner in (ev.Pure(1.0), ev.Local(1.0), ev.RandomizedResponse(1.0, 3), ev.Exponential(1.0)):
        with pytest.raises(Unsupported, match="not supported under replace-one"):
            epsilon(ev.Poisson(0.1, inner), 1e-5, "replace-one")


@for_each("target", [1e-15, 1e-30, 1e-100, 1e-200])
def test_tiny_deltas_stay_tight(target):
    bounds = epsilon(ev.Repeat(200, ev.Poisson(0.05, ev.Gaussian(1.5))), target)
    assert 0 < bounds.gap <= 1e-3 * bounds.upper


def test_below_the_floor_it_refuses():
    with pytest.raises(Unsupported, match="certifies delta down to"):
        epsilon(ev.Poisson(0.5, ev.Gaussian(1.0)), MIN_CERTIFIED_DELTA / 10)


def test_large_epsilons_do_not_underflow():
    bounds = epsilon(ev.Repeat(100_000, ev.Poisson(0.5, ev.Gaussian(2.0))), 1e-5)
    assert 2000 < bounds.lower <= bounds.upper < 10_000
    assert bounds.gap <= 1e-3 * bounds.upper


def test_epsilon_and_delta_are_inverse_to_each_other():
    event = ev.Repeat(300, ev.Poisson(0.02, ev.Gaussian(0.9)))
    bounds = epsilon(event, 1e-6)
    assert delta(event, bounds.upper).lower <= 1e-6
    assert delta(event, bounds.lower).upper >= 1e-6


noises = st.floats(0.4, 20.0)
rates = st.floats(1e-3, 1.0)
rounds_ = st.integers(1, 3000)


QUESTIONS = {"noise": noises, "rate": rates, "rounds": rounds_, "log_delta": st.floats(-30, -5)}


def monotone(noise, rate, rounds, log_delta):
    """Assert it of noise, rate and rounds."""
    target = math.exp(log_delta)

    def bounds(noise, rate, rounds):
        return epsilon(ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise))), target)

    base = bounds(noise, rate, rounds)
    assert base.lower <= base.upper
    assert bounds(noise * 1.1, rate, rounds).lower <= base.upper
    assert bounds(noise, min(rate * 1.2, 1.0), rounds).upper >= base.lower
    assert bounds(noise, rate, rounds + 1 + rounds // 5).upper >= base.lower


@settings(max_examples=8, deadline=None, derandomize=True)
@given(**QUESTIONS)
def test_monotone_in_noise_rate_and_rounds(**question):
    monotone(**question)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(**QUESTIONS)
def test_monotone_at_many_settings(**question):
    monotone(**question)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    parts=st.lists(
        st.one_of(
            st.builds(ev.Gaussian, st.floats(2, 20)),
            st.builds(ev.Laplace, st.floats(2, 20)),
            st.builds(ev.Poisson, st.floats(0.01, 0.5), st.builds(ev.Gaussian, st.floats(0.7, 5))),
            st.builds(ev.RandomizedResponse, st.floats(0.01, 0.5), st.integers(2, 2)),
        ),
        min_size=1,
        max_size=4,
    ),
    times=st.integers(1, 6),
)
def test_composition_forgets_order_and_repeat_is_compose(parts, times):
    together = epsilon(ev.Compose(parts), 1e-6)
    backwards = epsilon(ev.Compose(parts[::-1]), 1e-6)
    assert together.lower <= backwards.upper
    assert backwards.lower <= together.upper
    assert together.upper == pytest.approx(backwards.upper, rel=1e-6, abs=1e-9)
    repeated = epsilon(ev.Repeat(times, ev.Compose(parts)), 1e-6)
    listed = epsilon(ev.Compose(parts * times), 1e-6)
    assert repeated == listed


def test_answers_do_not_depend_on_the_grid():
    event = ev.Repeat(500, ev.Poisson(0.03, ev.Gaussian(0.8)))
    answers = [
        PldEngine(accuracy=accuracy, tolerance=1.0)
        .epsilon(Composition.of(event), 1e-6, "add-remove")
        .bounds
        for accuracy in (3e-2, 3e-3, 3e-4, 3e-5, 3e-6)
    ]
    assert max(a.lower for a in answers) <= min(a.upper for a in answers)
    gaps = [a.gap for a in answers]
    assert gaps == sorted(gaps, reverse=True)


@for_each("scale", [13.8, 1e3])
def test_sampled_laplace_of_a_large_scale_stays_tight(scale):
    """Its loss moves only between 0 and 1, far inside one scale."""
    event = ev.Repeat(1735, ev.Poisson(0.017052, ev.Laplace(scale)))
    bounds = epsilon(event, 6.8e-8)
    assert bounds.lower > 0
    assert bounds.gap <= 2e-3 * bounds.upper
    assert delta(event, bounds.upper).upper <= 6.8e-8 * 1.02


@for_each("bare", [1e-12, 1e-9, 1e-6])
def test_tiny_losses_do_not_drown_in_rounding(bare):
    bounds = delta(ev.RandomizedResponse(bare, 2), 0.0, "replace-one")
    exact = math.tanh(bare / 2)
    assert bounds.lower <= exact * (1 + 1e-12)
    assert bounds.upper >= exact * (1 - 1e-12)


@for_each("rate", [1e-4, 1e-6])
def test_one_round_at_a_tiny_rate_against_the_closed_form(rate):
    """A single sampled Gaussian: delta = q Phi(-(x-1)/s) - z Phi(-x/s) at the threshold x."""
    sigma, target = 0.3, rate / 100
    bounds = epsilon(ev.Poisson(rate, ev.Gaussian(sigma)), target)

    def log_delta(eps):
        z = math.expm1(eps) + rate
        x = sigma**2 * math.log(z / rate) + 0.5
        return math.log(rate * norm.cdf(-(x - 1) / sigma) - z * norm.cdf(-x / sigma))

    exact = brentq(lambda e: log_delta(e) - math.log(target), 1e-9, 20.0, xtol=1e-12)
    assert bounds.lower <= exact <= bounds.upper
    assert bounds.upper <= exact * (1 + 1e-3)


def test_extreme_numbers_are_refused_and_do_not_crash():
    for noise in (1e-170, 1e-20, 1e20, 1e170):
        for event in (ev.Gaussian(noise), ev.DiscreteLaplace(noise, 3)):
            for wrapped in (event, ev.Repeat(10, ev.Poisson(0.3, event))):
                try:
                    bounds = account(wrapped, delta=1e-5).epsilon
                except PrivplanError:
                    continue
                assert 0.0 <= bounds.lower <= bounds.upper


def test_an_absent_unit_gives_a_response_no_lower_end():
    """What it would report is not said, so no pair of data sets is known to attain the bound."""
    bounds = epsilon(ev.RandomizedResponse(1.0, 4), 1e-5)
    assert bounds.lower == 0.0
    assert bounds.upper == pytest.approx(epsilon(ev.Pure(1.0), 1e-5).upper)
    assert epsilon(ev.RandomizedResponse(1.0, 4), 1e-5, "replace-one").lower > 0.99


def test_a_direction_that_is_dismissed_still_bounds_the_epsilon():
    """Its losses cannot exceed the target, but they may exceed what the other direction needs."""
    event = ev.Repeat(50, ev.Poisson(0.01, ev.Gaussian(3.0)))
    certificate = ENGINE.certificate(Composition.of(event), 1.0, 1e-5, "add-remove")
    assert len(certificate.directions) == 1
    adding = -50 * math.log1p(-0.01)
    assert certificate.epsilon_upper >= min(adding, 1.0)
    assert certificate.bounds().upper == certificate.epsilon_upper
