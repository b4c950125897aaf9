"""Calibration to a TPR against the most powerful test of each order of two data sets.

Where the two orders differ, or losses lie on atoms, no single (epsilon, delta) tells the TPR.  Each
oracle is the lemma of Neyman and Pearson: outcomes in the order of their likelihood ratio.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.calibration_targets import BayesTarget, TprTarget
from privplan.accountant.errors import InvalidInput, TargetTrivial, TargetUnreachable
from privplan.accountant.guarantee import Bounds
from privplan.accountant.risk.attack_power import attack_power

from ..cases import for_each
from ..sweeps import sweep

NEAR = 1e-4
"""How far above the smallest noise a result may lie, relatively."""


def lattice_tpr(noise, sensitivity, fpr, bound=None):
    """Return the TPR of one integer that moves by the sensitivity under discrete Gaussian noise."""
    sigma = noise * sensitivity
    reach = bound if bound is not None else math.ceil(26.0 * sigma) + sensitivity
    x = np.arange(-reach, reach + 1)
    grid = np.arange(-reach - sensitivity, reach + sensitivity + 1)
    with np.errstate(under="ignore"):
        near, moved = (
            np.exp(-0.5 * ((grid - shift) / sigma) ** 2)
            * (np.abs(grid - shift) <= reach)
            / np.exp(-0.5 * (x / sigma) ** 2).sum()
            for shift in (0, sensitivity)
        )
    # What only one of the two can show is a certain sign of it.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(near > 0.0, moved / near, np.where(moved > 0.0, np.inf, -1.0))
    order = np.argsort(-ratio, kind="stable")
    false, true = (np.concatenate(([0.0], np.cumsum(each[order]))) for each in (near, moved))
    # Of several points at one FPR the one with the largest TPR.
    last = np.append(false[1:] > false[:-1], True)
    return float(np.interp(fpr, false[last], true[last]))


LATTICES = [(1, 0.05, 1e-5), (1, 0.22035, 1.083e-4), (2, 0.37388, 2.353e-4), (3, 0.2, 1e-3)]


@for_each(("sensitivity", "tpr", "fpr"), sweep(LATTICES, quick=1))
def test_the_smallest_discrete_gaussian_noise(sensitivity, tpr, fpr):
    found = pp.calibrate(lambda s: ev.DiscreteGaussian(s, sensitivity), tpr=tpr, fpr=fpr)
    assert lattice_tpr(found.value, sensitivity, fpr) <= found.risk.upper * (1.0 + 1e-9)
    assert found.risk.upper <= tpr < lattice_tpr(found.value * (1.0 - NEAR), sensitivity, fpr)


def sampled_tpr(rate, noise, fpr):
    """Return the larger TPR of both orders of one sampled Gaussian: its ratio rises along x."""

    def drawn(x):
        return (1.0 - rate) * norm.sf(x / noise) + rate * norm.sf((x - 1.0) / noise)

    there = drawn(noise * norm.isf(fpr))
    cut = brentq(lambda x: 1.0 - drawn(x) - fpr, -40.0 * noise, 40.0 * noise, xtol=1e-14)
    return max(there, norm.cdf(cut / noise))


ASYMMETRIC = [(0.05, 0.5, 0.48), (0.05, 0.42, 0.4), (0.2, 0.6, 0.5), (0.5, 0.6, 0.3)]


@for_each(("rate", "tpr", "fpr"), sweep(ASYMMETRIC, quick=1))
def test_each_order_of_the_data_sets_counts_by_itself(rate, tpr, fpr):
    found = pp.calibrate(lambda s: ev.Poisson(rate, ev.Gaussian(s)), tpr=tpr, fpr=fpr)
    assert sampled_tpr(rate, found.value, fpr) <= found.risk.upper * (1.0 + 1e-9)
    assert found.risk.upper <= tpr < sampled_tpr(rate, found.value * (1.0 - NEAR), fpr)
    # The report of the event at that noise says the same.
    assert pp.risk(found.event, fpr=fpr).tpr == found.risk


def test_a_tpr_that_no_test_of_a_sample_exceeds_needs_no_noise():
    # Of 5 in 100 that are drawn all are known, and 48 in 100 of the rest are accused: .506.
    assert sampled_tpr(0.05, 1e-3, 0.48) < 0.52
    with pytest.raises(TargetTrivial) as caught:
        pp.calibrate(lambda s: ev.Poisson(0.05, ev.Gaussian(s)), tpr=0.52, fpr=0.48)
    assert "smaller TPR" in caught.value.next_step


def with_laplace_tpr(noise, fpr):
    """Return the TPR of Laplace noise of scale 1 beside Gaussian noise, by the sum of losses."""
    mu = 1.0 / noise
    edges = np.concatenate((np.linspace(0.0, 0.9, 200), np.linspace(0.9, 1.0, 100_001)[1:]))
    middle = 0.5 * (edges[1:] + edges[:-1])
    # The loss is 2 x - 1 between both centres 0 and 1, and -1 or 1 outside.
    losses = np.concatenate(([-1.0], 2.0 * middle - 1.0, [1.0]))
    out = np.concatenate(([0.5], -np.diff(0.5 * np.exp(-edges)), [0.5 / math.e]))
    within = np.concatenate(([0.5 / math.e], np.diff(0.5 * np.exp(edges - 1.0)), [0.5]))

    def shares(cut):
        z = (cut - losses) / mu
        return (out * norm.sf(z + mu / 2.0)).sum(), (within * norm.sf(z - mu / 2.0)).sum()

    cut = brentq(lambda c: shares(c)[0] - fpr, 0.5, 1.5, xtol=1e-15)
    return shares(cut)[1]


def test_noise_beside_a_release_that_nearly_uses_up_the_target():
    tpr, fpr = 0.0273, 0.01
    found = pp.calibrate(lambda s: ev.Compose([ev.Laplace(1), ev.Gaussian(s)]), tpr=tpr, fpr=fpr)
    assert with_laplace_tpr(found.value, fpr) <= found.risk.upper <= tpr
    # All that the Gaussian may add is .0000117, of which the grid of losses takes its share.
    assert with_laplace_tpr(found.value * 0.9, fpr) > tpr


def test_an_fpr_that_only_losses_above_40_reach():
    found = pp.calibrate(
        lambda s: ev.Repeat(100, ev.Poisson(0.05, ev.Gaussian(s))), tpr=0.2, fpr=1e-30
    )
    assert found.guarantee.epsilon.upper > 40.0
    less = ev.Repeat(100, ev.Poisson(0.05, ev.Gaussian(found.value * (1.0 - NEAR))))
    assert found.risk.upper <= 0.2 < attack_power(less, "add-remove").tpr(1e-30).upper


def renyi(noise):
    return ev.Renyi((2, 8, 32), (1.0 / noise, 4.0 / noise, 16.0 / noise))


AT_SINGLE_EPSILONS = [
    (lambda s: ev.ZCDP(1.0 / s), 0.05, 0.001),
    (lambda s: ev.BestOf("geometric", 5, ev.Gaussian(s)), 0.2, 0.01),
    (renyi, 0.05, 0.001),
    (lambda s: ev.ZCDP(1.0 / s), 0.9, 0.4),
]


@for_each(("make", "tpr", "fpr"), sweep(AT_SINGLE_EPSILONS, quick=2))
def test_the_report_of_the_calibrated_event_is_not_above_the_target(make, tpr, fpr):
    """Where deltas are known at single epsilons only, the report looks for the best of them."""
    found = pp.calibrate(make, tpr=tpr, fpr=fpr)
    reported = pp.risk(found.event, fpr=fpr).tpr
    assert reported.upper == found.risk.upper <= tpr
    # Each epsilon gives a bound; the report has the least, which a fine scan shows, too.
    around = np.concatenate((np.geomspace(0.5, 2.0, 16), np.linspace(0.97, 1.03, 25)))
    scan = found.guarantee.epsilon.upper * around
    deltas = np.array([pp.account(found.event, epsilon=each).delta.upper for each in scan.tolist()])
    lines = np.minimum(np.exp(scan) * fpr + deltas, 1.0 - np.exp(-scan) * (1.0 - deltas - fpr))
    assert lines.min() * (1.0 - 1e-4) <= reported.upper <= lines.min() * (1.0 + 1e-9)


def shares(seed, count):
    """Return shares in (0, 1), many of them next to either end."""
    rng = np.random.default_rng(seed)
    near = 10.0 ** -rng.uniform(0.0, 15.0, (3, count))
    picked = np.choose(rng.integers(0, 3, count), [near[0], 1.0 - near[1], rng.random(count)])
    return picked[(picked > 0.0) & (picked < 1.0)].tolist()


def test_a_delta_that_meets_a_bayes_target_leaves_no_less_than_that():
    for prior, share in zip(shares(1, 4000), shares(2, 4000), strict=False):
        target = BayesTarget(min(prior, 1.0 - prior) * share, prior)
        if 0.0 < target.value < target.blind and (delta := target.delta(0.0)) > 0.0:
            assert target.reached(target.first_epsilon, Bounds(0.0, delta)).lower >= target.value


def test_a_delta_that_meets_a_tpr_leaves_no_more_than_that():
    for fpr, share, at in zip(shares(3, 4000), shares(4, 4000), shares(5, 4000), strict=False):
        target = TprTarget(fpr + (1.0 - fpr) * share, fpr)
        if fpr < target.value < 1.0:
            epsilon = target.admissible(8.0 * at)
            if (delta := target.delta(epsilon)) > 0.0:
                assert target.reached(epsilon, Bounds(0.0, delta)).upper <= target.value


@for_each(("risk", "near"), [(1e-3, NEAR), (5e-13, 2e-4)])
def test_a_tiny_bayes_risk_wastes_little_noise(risk, near):
    found = pp.calibrate(ev.Gaussian, bayes_risk=risk)
    # At even odds the error is Phi(-mu / 2).
    tight = -0.5 / norm.ppf(risk)
    assert tight <= found.value <= tight * (1.0 + near)
    assert found.risk.lower >= risk


@for_each(
    "target",
    [{"tpr": math.nextafter(0.01, 1.0), "fpr": 0.01}, {"bayes_risk": math.nextafter(0.5, 0.0)}],
)
def test_a_target_within_rounding_of_guessing_is_refused_in_its_words(target):
    with pytest.raises(InvalidInput) as caught:
        pp.calibrate(ev.Gaussian, **target)
    assert "too near to guessing" in caught.value.what


def test_a_tpr_next_to_the_fpr_is_refused_by_what_the_strongest_noise_leaves():
    with pytest.raises(TargetUnreachable) as caught:
        pp.calibrate(ev.Gaussian, tpr=0.01 * (1.0 + 1e-13), fpr=0.01)
    assert "delta" not in str(caught.value)
    assert "the TPR is at most 0.01001" in caught.value.why


def test_rates_that_look_alike_are_told_in_full():
    with pytest.raises(InvalidInput) as caught:
        pp.calibrate(ev.Gaussian, tpr=0.01, fpr=0.0100000001)
    assert "(0.0100000001); it is 0.01." in caught.value.what


def test_no_refusal_says_that_every_target_has_a_noise():
    for target in ({"tpr": 0.1, "fpr": 0.2}, {"bayes_risk": 0.6}):
        with pytest.raises(InvalidInput) as caught:
            pp.calibrate(ev.Gaussian, **target)
        assert "every" not in str(caught.value)


def test_a_bayes_risk_that_all_noise_meets_may_be_larger():
    with pytest.raises(TargetTrivial) as caught:
        pp.calibrate(lambda s: ev.Poisson(0.001, ev.Gaussian(s)), bayes_risk=0.3)
    assert "larger Bayes risk" in caught.value.next_step


def test_a_refusal_says_what_was_tried_and_no_more():
    def make(noise):
        return ev.Compose([ev.Gaussian(noise), ev.Gaussian(1.0)])

    with pytest.raises(TargetUnreachable) as caught:
        pp.calibrate(make, advantage=0.1)
    assert "the strongest of those tried, the advantage is at most 0.3830" in caught.value.why
    assert "no other" not in caught.value.why
