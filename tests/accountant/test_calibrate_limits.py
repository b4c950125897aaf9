"""Calibration where more noise does not always protect better: bounds and thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from privplan import calibrate
from privplan import events as ev
from privplan.accountant.account import bounds_on_epsilon
from privplan.accountant.errors import TargetTrivial, TargetUnreachable

from ..cases import for_each


def shown(noise: str, scale: float, threshold: float) -> float:
    """Return the probability that a new key of one unit passes the threshold."""
    above = (threshold - 1.0) / scale
    return 0.5 * math.exp(-above) if noise == "laplace" else float(norm.sf(above))


@for_each(
    ("noise", "threshold", "keys", "epsilon"),
    [("laplace", 5.0, 1, 4.0), ("gaussian", 60.0, 2, 0.5)],
)
def test_a_window_of_noise_under_a_threshold_is_hit(noise, threshold, keys, epsilon):
    found = calibrate(
        lambda s: ev.ThresholdSelection(noise, s, threshold, keys), epsilon=epsilon, delta=1e-5
    )
    # A new key alone is below delta there; less noise, and much more, fail.
    assert keys * shown(noise, found.value, threshold) <= 1e-5 * (1 + 1e-6)
    assert bounds_on_epsilon(found.event, delta=1e-5).upper <= epsilon
    less = ev.ThresholdSelection(noise, 0.99 * found.value, threshold, keys)
    assert bounds_on_epsilon(less, delta=1e-5).upper > epsilon
    assert shown(noise, 2.0 * found.value, threshold) > 1e-5


@for_each(("bound", "epsilon", "delta"), [(10, 0.01, 0.0477), (2, 0.05, 0.21)])
def test_noise_wider_than_its_bound_serves_where_uniform_noise_does(bound, epsilon, delta):
    # Uniform noise in [-B, B] moved by one differs in 1 of 2 B + 1 outcomes.
    assert 1.0 / (2 * bound + 1) < delta
    found = calibrate(
        lambda s: ev.TruncatedDiscreteGaussian(s, 1, bound), epsilon=epsilon, delta=delta
    )
    assert found.value > bound
    assert found.guarantee.epsilon.upper <= epsilon

    def exact(sigma: float) -> float:
        z = np.arange(-bound, bound + 1)
        masses = np.exp(-0.5 * (z / sigma) ** 2)
        masses /= masses.sum()
        padded = np.append(masses, 0.0), np.append(0.0, masses)
        return float(np.maximum(padded[0] - math.exp(epsilon) * padded[1], 0.0).sum())

    assert exact(found.value) <= delta * (1 + 1e-9)
    assert exact(0.995 * found.value) > delta


@for_each(
    ("at", "limit"),
    [
        (lambda s: ev.TruncatedDiscreteGaussian(s, 1, 10), "bound"),
        (lambda s: ev.ThresholdSelection("laplace", s, 10.0, 1), "threshold"),
    ],
)
def test_a_limit_that_is_too_near_is_named(at, limit):
    with pytest.raises(TargetUnreachable) as caught:
        calibrate(at, epsilon=0.5, delta=1e-5)
    assert f"larger {limit}" in str(caught.value)
    # None of these serves, and the noise that is named is among the best.
    for scale in np.geomspace(0.1, 50.0, 9):
        assert bounds_on_epsilon(at(float(scale)), delta=1e-5).upper > 0.5


UNREACHABLE = [
    (ev.Gaussian, {"epsilon": 1e-9, "delta": 1e-12}, "noise", "The search ends at 1e+09"),
    (
        lambda s: ev.Compose([ev.Gaussian(s), ev.Laplace(1.0)]),
        {"epsilon": 0.1, "delta": 1e-6},
        "noise",
        "What does not depend on it",
    ),
    (
        lambda n: ev.Repeat(n, ev.Gaussian(1.0)),
        {"epsilon": 0.1, "delta": 1e-6},
        "rounds",
        "Already the smallest, 1,",
    ),
    (lambda _: ev.NoGuarantee("none"), {"advantage": 0.1}, "noise", "Release something with a"),
    (lambda _: ev.NoGuarantee("none"), {"bayes_risk": 0.1}, "noise", "Release something with a"),
    (lambda _: ev.Gaussian(1.0), {"advantage": 0.1}, "noise", "Ask for a larger advantage"),
]


@for_each(("at", "target", "unknown", "says"), UNREACHABLE)
def test_why_a_target_is_not_met(at, target, unknown, says):
    with pytest.raises(TargetUnreachable) as caught:
        calibrate(at, unknown=unknown, **target)
    assert says in str(caught.value)


def test_a_target_that_pld_cannot_reach_is_not_blamed_on_rdp():
    with pytest.raises(TargetUnreachable) as caught:
        calibrate(
            lambda s: ev.Poisson(0.97, ev.TruncatedDiscreteGaussian(s, 1, 10)),
            epsilon=0.8,
            delta=5e-9,
        )
    assert "larger bound" in str(caught.value)


@for_each(
    ("unknown", "at"),
    [
        ("rounds", lambda n: ev.Repeat(n, ev.Gaussian(1e8))),
        ("group", lambda n: ev.Group(n, ev.Gaussian(1e8))),
    ],
)
def test_a_target_beyond_the_range_says_where_the_search_ends(unknown, at):
    with pytest.raises(TargetTrivial) as caught:
        calibrate(at, advantage=0.1, unknown=unknown)
    assert "The search ends there" in str(caught.value)
