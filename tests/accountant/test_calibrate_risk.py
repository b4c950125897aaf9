"""Calibration to an attack risk: closed forms, enumerated tests, laws, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.calibration_targets import (
    AdvantageTarget,
    BayesTarget,
    TprTarget,
    risk_target,
)
from privplan.accountant.errors import InvalidInput, TargetTrivial, TargetUnreachable
from privplan.accountant.guarantee import Bounds
from privplan.accountant.risk.attack_power import attack_power

from ..cases import for_each


def sampled(rate, rounds):
    return lambda noise: ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise)))


def gaussian_bayes(mu, prior):
    """Return the least error, by the test at the log odds of the prior: no formula of deltas."""
    # "Member" where mu x - mu^2 / 2 is above log((1 - prior) / prior).
    cut = math.log((1.0 - prior) / prior) / mu + mu / 2.0
    return (1.0 - prior) * norm.sf(cut) + prior * norm.cdf(cut - mu)


@for_each("engine", [None, "pld"])
@for_each("advantage", [0.01, 0.1, 0.5, 0.9])
def test_the_noise_for_an_advantage_of_one_gaussian(advantage, engine):
    calibrated = pp.calibrate(ev.Gaussian, advantage=advantage, engine=engine)
    tight = 1.0 / (2.0 * norm.ppf((1.0 + advantage) / 2.0))
    assert tight <= calibrated.value <= tight * (1.0 + 1e-4)
    assert calibrated.risk.upper <= advantage
    assert calibrated.gap == advantage - calibrated.risk.lower <= 1e-4 * advantage
    assert (calibrated.measure, calibrated.target) == ("advantage", advantage)


RATES = [(0.07, 0.01), (0.02, 1e-4), (0.9, 0.5), (0.3, 0.25), (0.99, 0.9), (0.5, 1e-9)]


@for_each("engine", [None, "pld"])
@for_each(("tpr", "fpr"), RATES)
def test_the_noise_for_a_tpr_of_one_gaussian(tpr, fpr, engine):
    calibrated = pp.calibrate(ev.Gaussian, tpr=tpr, fpr=fpr, engine=engine)
    tight = 1.0 / (norm.ppf(tpr) - norm.ppf(fpr))
    assert tight * (1.0 - 1e-9) <= calibrated.value <= tight * (1.0 + 1e-4)
    assert calibrated.risk.upper <= tpr
    assert calibrated.risk.lower <= norm.cdf(norm.ppf(fpr) + 1.0 / calibrated.value) * (1.0 + 1e-9)
    assert 0.0 <= calibrated.gap <= 1e-3 * tpr


@for_each("prior", [0.5, 0.3, 0.7, 0.02, 0.98])
@for_each("share", [0.3, 0.9])
def test_the_noise_for_a_bayes_risk_of_one_gaussian(prior, share):
    target = share * min(prior, 1.0 - prior)
    calibrated = pp.calibrate(ev.Gaussian, bayes_risk=target, prior=prior)
    assert gaussian_bayes(1.0 / calibrated.value, prior) >= target * (1.0 - 1e-12)
    assert gaussian_bayes(1.0 / (calibrated.value * (1.0 - 1e-4)), prior) < target
    assert calibrated.risk.lower >= target
    assert 0.0 <= calibrated.gap == calibrated.risk.upper - target <= 1e-3 * target


def sampled_gaussian_tests(noise, rate, rounds):
    """Return (FPR, TPR) of all likelihood ratio tests of a few sampled rounds, by a convolution.

    The loss of one round is put on the grid point below for P and Q alike, which is a statistic,
    so each (FPR, TPR) is that of a real test, and the best of them are nearly the best of all.
    """
    width = 2e-4
    edges = np.linspace(-9.0 * noise, 1.0 + 9.0 * noise, 400_001)
    middle = 0.5 * (edges[1:] + edges[:-1])
    without = np.diff(norm.cdf(edges / noise))
    within = (1.0 - rate) * without + rate * np.diff(norm.cdf((edges - 1.0) / noise))
    loss = np.log1p(rate * np.expm1((2.0 * middle - 1.0) / (2.0 * noise**2)))
    bins = np.floor(loss / width).astype(int)
    bins -= bins.min()
    size = 1 << int(rounds * (bins.max() + 1)).bit_length()
    masses = [
        np.fft.irfft(np.fft.rfft(np.bincount(bins, each), size) ** rounds, size)
        for each in (without, within)
    ]
    # "Member" from some sum of losses on.
    false, true = (np.cumsum(np.maximum(each, 0.0)[::-1]) for each in masses)
    return false, true


def test_no_enumerated_test_beats_the_targets_and_little_less_noise_would_let_one():
    rate, rounds = 0.2, 5
    make = sampled(rate, rounds)
    by_advantage = pp.calibrate(make, advantage=0.2)
    false, true = sampled_gaussian_tests(by_advantage.value, rate, rounds)
    assert 0.2 * (1.0 - 1e-3) < (true - false).max() <= 0.2 + 1e-9
    by_tpr = pp.calibrate(make, tpr=0.1, fpr=0.02)
    false, true = sampled_gaussian_tests(by_tpr.value, rate, rounds)
    assert 0.1 * (1.0 - 1e-3) < np.interp(0.02, false, true) <= 0.1 + 1e-9
    by_bayes = pp.calibrate(make, bayes_risk=0.25, prior=0.3)
    false, true = sampled_gaussian_tests(by_bayes.value, rate, rounds)
    # Of both orders the worse: here the suspect is the one who is there.
    assert 0.25 - 1e-9 <= (0.7 * false + 0.3 * (1.0 - true)).min() < 0.25 * (1.0 + 1e-3)


# riskcal 1.5.1, grid_step 1e-4: find_noise_multiplier_for_advantage_dpsgd, advantage_tol 1e-6.
RISKCAL_ADVANTAGE = [((0.1, 0.01, 1_000), 1.4224564), ((0.2, 0.01, 10_000), 2.0880747)]


@for_each(("case", "peer"), RISKCAL_ADVANTAGE)
def test_riskcal_finds_the_same_noise_for_an_advantage(case, peer):
    advantage, rate, rounds = case
    calibrated = pp.calibrate(sampled(rate, rounds), advantage=advantage)
    assert calibrated.value == pytest.approx(peer, rel=1e-4)


def test_the_deltas_that_riskcal_composes_meet_the_tpr_at_our_noise():
    """Its own noise is 0.697286 here, where the same deltas allow a TPR of 0.070128."""
    calibrated = pp.calibrate(sampled(0.01, 1_000), tpr=0.07, fpr=0.01)
    # Least of e^eps FPR + delta by dp_accounting 0.6.0, grid 3e-5, at noise 0.6976674: 0.0699960.
    assert calibrated.value == pytest.approx(0.6976674, rel=1e-5)
    assert calibrated.risk.lower <= 0.0699960 * (1.0 + 1e-5)
    assert calibrated.risk.upper >= 0.0699960 * (1.0 - 2e-5)


GRID = [
    (rate, rounds, neighbours, mechanism)
    for rate, rounds in ((1.0, 1), (1.0, 7), (0.2, 12))
    for neighbours in ("add-remove", "replace-one")
    for mechanism in (ev.Gaussian, ev.Laplace)
    if mechanism is ev.Gaussian or rounds == 7
]


def reached(event, measure, neighbours="add-remove"):
    """Return bounds on an advantage, the TPR at FPR .01, or the Bayes risk at prior .2."""
    if measure == "tpr":
        return attack_power(event, neighbours).tpr(0.01)
    if measure == "advantage":
        return pp.account(event, epsilon=0.0, neighbours=neighbours).delta
    delta = pp.account(event, epsilon=math.log(4.0), neighbours=neighbours).delta
    return Bounds(0.2 * (1.0 - delta.upper), 0.2 * (1.0 - delta.lower))


@for_each(("rate", "rounds", "neighbours", "mechanism"), GRID)
def test_no_target_is_exceeded_and_less_noise_misses_it(rate, rounds, neighbours, mechanism):
    def make(noise):
        return ev.Repeat(rounds, ev.Poisson(rate, mechanism(noise)))

    by_advantage = pp.calibrate(make, advantage=0.15, neighbours=neighbours)
    by_tpr = pp.calibrate(make, tpr=0.08, fpr=0.01, neighbours=neighbours)
    by_bayes = pp.calibrate(make, bayes_risk=0.15, prior=0.2, neighbours=neighbours)
    for calibrated in (by_advantage, by_tpr, by_bayes):
        bounds = reached(calibrated.event, calibrated.measure, neighbours)
        fewer = reached(make(calibrated.value * 0.999), calibrated.measure, neighbours)
        if calibrated.measure == "bayes_risk":
            assert calibrated.risk.lower >= calibrated.target
            assert bounds.upper >= calibrated.target > fewer.lower
        else:
            assert calibrated.risk.upper <= calibrated.target
            assert bounds.lower <= calibrated.target < fewer.upper


@for_each(("neighbours", "reach"), [("add-remove", 1), ("replace-one", 2)])
def test_the_noise_for_a_tpr_of_one_laplace(neighbours, reach):
    # Up to an FPR of e^(-reach / noise) / 2 the best test has TPR = e^(reach / noise) FPR.
    calibrated = pp.calibrate(ev.Laplace, tpr=0.08, fpr=0.01, neighbours=neighbours)
    assert 1.0 <= calibrated.value * math.log(8.0) / reach <= 1.0 + 1e-4


def test_bayes_risk_at_even_odds_is_half_of_what_the_advantage_leaves():
    by_advantage = pp.calibrate(sampled(0.01, 1_000), advantage=0.1)
    by_bayes = pp.calibrate(sampled(0.01, 1_000), bayes_risk=0.45)
    assert by_bayes.value == pytest.approx(by_advantage.value, rel=5e-5)
    assert by_bayes.risk.lower == pytest.approx((1.0 - by_advantage.risk.upper) / 2.0, rel=1e-6)


def test_the_advantage_is_the_largest_difference_of_the_rates():
    calibrated = pp.calibrate(sampled(0.2, 12), advantage=0.2)
    power = attack_power(calibrated.event, "add-remove")
    differences = [power.tpr(fpr).upper - fpr for fpr in np.linspace(0.02, 0.98, 97).tolist()]
    assert max(differences) <= 0.2 + 1e-4
    assert max(differences) == pytest.approx(0.2, abs=2e-3)


def test_more_noise_for_a_stricter_target():
    make = sampled(0.05, 100)
    advantages = [pp.calibrate(make, advantage=each).value for each in (0.4, 0.1)]
    rates = [pp.calibrate(make, tpr=each, fpr=0.01).value for each in (0.3, 0.02)]
    assert advantages == sorted(advantages)
    assert rates == sorted(rates)


def test_the_most_rounds_for_a_risk():
    def make(rounds):
        return ev.Repeat(rounds, ev.Poisson(0.01, ev.Gaussian(1.0)))

    calibrated = pp.calibrate(make, unknown="rounds", tpr=0.07, fpr=0.01)
    assert calibrated.risk.upper <= 0.07
    more = make(int(calibrated.value * 1.002) + 2)
    assert reached(more, "tpr").lower > 0.07 - 1e-5


def test_the_largest_group_for_an_epsilon_and_for_gaussian_noise_in_closed_form():
    # k records move the sum by k bounds: mu = k / 50, and the advantage is 2 Phi(mu / 2) - 1.
    calibrated = pp.calibrate(
        lambda k: ev.Group(k, ev.Gaussian(50.0)), advantage=0.5, unknown="group"
    )
    assert calibrated.value == math.floor(50.0 * 2.0 * norm.ppf(0.75))
    calibrated = pp.calibrate(
        lambda k: ev.Group(k, ev.Gaussian(50.0)), epsilon=4, delta=1e-5, unknown="group"
    )
    event = ev.Group(int(calibrated.value) + 1, ev.Gaussian(50.0))
    assert calibrated.guarantee.epsilon.upper <= 4.0 < pp.account(event, delta=1e-5).epsilon.lower
    assert calibrated.risk == calibrated.guarantee.epsilon


def test_the_certificate_implies_the_risk():
    calibrated = pp.calibrate(sampled(0.01, 1_000), tpr=0.07, fpr=0.01)
    epsilon, delta = calibrated.guarantee.epsilon.upper, calibrated.guarantee.delta.upper
    assert math.exp(epsilon) * 0.01 + delta <= 0.07
    assert pp.account(calibrated.event, epsilon=epsilon).delta.upper == delta


def test_an_epsilon_that_implies_the_risk_costs_more():
    delta = 1e-5
    for values in ({"tpr": 0.07, "fpr": 0.01}, {"bayes_risk": 0.2, "prior": 0.3}):
        (kind, *_) = values
        target = risk_target(kind, values)
        epsilon = target.through_epsilon(delta)
        direct = pp.calibrate(sampled(0.01, 300), **values)
        through = pp.calibrate(sampled(0.01, 300), epsilon=epsilon, delta=delta)
        assert direct.value < 0.9 * through.value


@for_each("delta", [0.0, 1e-5, 0.02])
def test_the_worst_mechanism_of_an_epsilon_just_meets_the_risk(delta):
    """Its trade-off function has three corners, at which a linear objective is least."""

    def corners(epsilon):
        corner = (1.0 - delta) / (1.0 + math.exp(epsilon))
        return [(0.0, 1.0 - delta), (corner, corner), (1.0 - delta, 0.0)]

    def miss(epsilon, fpr):
        grown = math.exp(epsilon)
        return max(0.0, 1.0 - delta - grown * fpr, (1.0 - delta - fpr) / grown)

    epsilon = AdvantageTarget(0.1).through_epsilon(delta)
    assert max(1.0 - b - a for a, b in corners(epsilon)) == pytest.approx(0.1)
    for prior in (0.3, 0.7):
        epsilon = BayesTarget(0.2, prior).through_epsilon(delta)
        least = min((1.0 - prior) * a + prior * b for a, b in corners(epsilon))
        assert min(least, prior, 1.0 - prior) == pytest.approx(0.2)
    for tpr, fpr in ((0.07, 0.01), (0.9, 0.5), (0.97, 0.9)):
        epsilon = TprTarget(tpr, fpr).through_epsilon(delta)
        assert 1.0 - miss(epsilon, fpr) == pytest.approx(tpr)


def test_no_epsilon_implies_a_risk_below_its_delta():
    assert AdvantageTarget(1e-6).through_epsilon(1e-5) is None
    assert TprTarget(0.010001, 0.01).through_epsilon(1e-5) is None


@for_each(
    ("target", "field"),
    [
        ({"advantage": 0.0}, "`advantage`"),
        ({"advantage": 1.0}, "`advantage`"),
        ({"advantage": math.nan}, "`advantage`"),
        ({"tpr": 0.5, "fpr": 0.0}, "`fpr`"),
        ({"tpr": 0.5, "fpr": 1.0}, "`fpr`"),
        ({"tpr": 1.0, "fpr": 0.1}, "`tpr`"),
        ({"tpr": 0.01, "fpr": 0.07}, "`tpr` must be above `fpr`"),
        ({"tpr": 0.07, "fpr": 0.07}, "`tpr` must be above `fpr`"),
        ({"tpr": 0.07}, "`fpr` is missing"),
        ({"fpr": 0.07}, "`tpr` is missing"),
        ({"prior": 0.3}, "`bayes_risk` is missing"),
        ({"bayes_risk": 0.5}, "below 0.5 at prior 0.5"),
        ({"bayes_risk": 0.3, "prior": 0.8}, "below 0.2 at prior 0.8"),
        ({"bayes_risk": 0.1, "prior": 1.0}, "`prior`"),
        ({"bayes_risk": -0.1}, "`bayes_risk`"),
        ({"advantage": 0.1, "tpr": 0.3, "fpr": 0.1}, "Several targets"),
        ({"advantage": 0.1, "epsilon": 1.0, "delta": 1e-5}, "Several targets"),
        ({"epsilon": 1.0}, "`delta` is missing"),
        ({"delta": 1e-5}, "`epsilon` is missing"),
        ({}, "No target is given"),
    ],
)
def test_what_is_no_target_is_refused(target, field):
    with pytest.raises(InvalidInput) as caught:
        pp.calibrate(ev.Gaussian, **target)
    assert field in caught.value.what
    assert caught.value.next_step


def test_what_no_noise_meets_is_refused_with_what_can_be_met():
    def make(noise):
        return ev.Compose([ev.Gaussian(noise), ev.Gaussian(1.0)])

    for target, says in (
        ({"advantage": 0.1}, "advantage is at most 0.3830"),
        ({"tpr": 0.05, "fpr": 0.01}, "TPR is at most 0.09237"),
        ({"bayes_risk": 0.45}, "Bayes risk is at least 0.3085"),
    ):
        with pytest.raises(TargetUnreachable) as caught:
            pp.calibrate(make, **target)
        assert says in caught.value.why


def test_what_needs_no_noise_is_refused():
    with pytest.raises(TargetTrivial):
        pp.calibrate(lambda noise: ev.Poisson(0.001, ev.Gaussian(noise)), advantage=0.1)


def test_reached_rounds_to_the_safe_side():
    target = TprTarget(0.07, 0.01)
    for epsilon in (0.0, 0.3, 1.5, 1.9):
        delta = target.delta(epsilon)
        risk = target.reached(epsilon, Bounds(0.0, delta))
        assert 0.07 * (1.0 - 1e-9) <= risk.upper <= 0.07


@for_each(
    ("call", "keyword", "says"),
    [
        (pp.calibrate, "bayes", "Did you mean `bayes_risk`?"),
        (pp.calibrate, "eps", "Did you mean `epsilon`?"),
        (pp.calibrate, "sigma", "Give one of make_event, epsilon, delta"),
        (pp.account, "neighbors", "Did you mean `neighbours`?"),
        (pp.risk, "guess", "Did you mean `guesses`?"),
    ],
)
def test_a_keyword_that_is_none_is_named_with_the_nearest(call, keyword, says) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call(ev.Gaussian(1.0), **{keyword: 0.1})
    assert f"`{call.__name__}` has no `{keyword}`." in str(refusal.value)
    assert says in str(refusal.value)
