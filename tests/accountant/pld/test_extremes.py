"""Little noise and deltas near 1: bounded work, bounds that hold, a word where they are wide."""

from __future__ import annotations

import math

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.gdp import GdpEngine
from privplan.accountant.engines.pld.ask.certificate import wide_interval_warnings
from privplan.accountant.engines.pld.ask.engine import PldEngine
from privplan.accountant.engines.pld.compose import delta_bounds
from privplan.accountant.guarantee import Bounds
from privplan.accountant.rootfinding import log_odds_over

from ...cases import for_each
from ...sweeps import sweep

MAX_ANSWER_POINTS = 6_000_000
"""Grid points of all transforms of one answer: less than about a second."""


def _sampled(rate, rounds, noise):
    return ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise)))


@pytest.fixture
def work(monkeypatch):
    """Return the sizes of all transforms; it fills as they are made."""
    sizes: list[int] = []
    compose = delta_bounds.compose

    def counted(rounds, tilt):
        result = compose(rounds, tilt)
        sizes.append(result.losses.size)
        return result

    monkeypatch.setattr(delta_bounds, "compose", counted)
    return sizes


EXTREME = [
    (_sampled(0.001, 10_000, 0.1), 0.99),
    (_sampled(0.5, 10_000, 0.1), 0.999999),
    (_sampled(0.5, 100_000, 0.02), 1e-5),
    (ev.Repeat(1000, ev.Laplace(0.05)), 0.999999),
    (ev.Repeat(1000, ev.DiscreteGaussian(1.0, 10)), 0.999999),
    (ev.Group(8, _sampled(0.01, 1000, 0.3)), 0.999999),
    (ev.Repeat(1000, ev.TruncatedPoisson(0.01, 120, 10_000, ev.Gaussian(0.1))), 0.99),
]


@pytest.mark.quick(3)
@pytest.mark.parametrize(("event", "delta"), EXTREME)
def test_an_extreme_question_for_epsilon_takes_little_work(event, delta, work):
    result = pp.account(event, delta=delta, engine="pld").epsilon
    assert 0.0 <= result.lower <= result.upper < math.inf
    assert sum(work) <= MAX_ANSWER_POINTS


@pytest.mark.parametrize(
    ("noise", "epsilon"), sweep([(0.02, 100.0), (0.02, 0.0), (0.1, 1.0)], quick=2)
)
def test_an_extreme_question_for_delta_takes_little_work(noise, epsilon, work):
    result = pp.account(_sampled(0.01, 1000, noise), epsilon=epsilon, engine="pld").delta
    assert result.upper - result.lower < 1e-4
    assert sum(work) <= 3 * MAX_ANSWER_POINTS


@pytest.mark.parametrize(
    ("epsilon", "delta"), sweep([(10.0, 0.99), (1000.0, 0.99), (10.0, 0.9)], quick=1)
)
def test_a_target_near_certainty_is_met_and_nearly_reached(epsilon, delta, work):
    result = pp.calibrate(lambda s: _sampled(0.01, 1000, s), epsilon=epsilon, delta=delta)
    assert (1 - 1e-3) * epsilon <= result.guarantee.epsilon.upper <= epsilon
    assert sum(work) <= 8 * MAX_ANSWER_POINTS


@for_each("delta", [0.2, 0.5, 0.9, 0.99, 0.999999])
@for_each(("noise", "rounds"), [(0.05, 1), (0.1, 100), (1.0, 10), (3.0, 1000)])
def test_deltas_near_one_hold_against_the_closed_form(noise, rounds, delta):
    parts = Composition.of(ev.Repeat(rounds, ev.Gaussian(noise)))
    exact = GdpEngine().epsilon(parts, delta, "add-remove").bounds
    result = PldEngine().epsilon(parts, delta, "add-remove").bounds
    assert result.lower <= exact.upper
    assert exact.lower <= result.upper
    assert result.upper <= exact.upper * (1 + 5e-3) + 1e-3


@for_each("epsilon", [0.0, 1.0, 50.0])
def test_deltas_near_one_hold_against_the_closed_form_when_asked_for(epsilon):
    parts = Composition.of(ev.Repeat(100, ev.Gaussian(1.0)))
    exact = GdpEngine().delta(parts, epsilon, "add-remove").bounds
    result = PldEngine().delta(parts, epsilon, "add-remove").bounds
    assert result.lower <= exact.upper
    assert exact.lower <= result.upper
    assert result.upper - result.lower < 1e-3


def test_an_interval_that_stays_wide_says_so():
    wide = pp.account(_sampled(0.5, 10_000, 0.1), delta=0.999999)
    assert wide.epsilon.lower < 0.9 * wide.epsilon.upper
    assert any("stayed wide" in warning for warning in wide.warnings)
    usual = pp.account(_sampled(0.01, 1000, 1.0), delta=1e-5)
    assert not any("stayed wide" in warning for warning in usual.warnings)


def test_a_calibration_whose_interval_stays_wide_says_so():
    result = pp.calibrate(lambda s: _sampled(0.5, 10_000, s), epsilon=2e4, delta=0.999999)
    assert result.gap > 0.1 * result.target
    assert any("stayed wide" in warning for warning in result.guarantee.warnings)


def test_what_is_wide():
    assert wide_interval_warnings("epsilon", Bounds(1.0, 1.001), 5e-4) == ()
    assert wide_interval_warnings("epsilon", Bounds(1.0, math.inf), 5e-4) == ()
    (said,) = wide_interval_warnings("delta", Bounds(1.0, 1.1), 5e-4)
    assert "delta lies between 1 and 1.1" in said


@for_each("target", [1e-9, 0.1, 0.5, 0.99, 0.999999])
def test_log_odds_have_the_sign_of_the_difference(target):
    assert log_odds_over(math.log(target), target) == pytest.approx(0.0, abs=1e-9)
    assert log_odds_over(math.log(target) - 1e-9, target) < 0.0
    assert log_odds_over(math.log(target) + 1e-9, target) > 0.0
    assert log_odds_over(0.0, target) > 0.0
    assert log_odds_over(-math.inf, target) == -math.inf
