"""Questions at an edge: mass at an infinite loss, the largest loss itself, a divergence of 0."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from privplan import account, calibrate
from privplan import events as ev

from ..cases import for_each


@for_each("relation", ["add-remove", "replace-one"])
@for_each("keys", [1, 3])
def test_a_key_of_one_unit_that_is_too_likely_leaves_no_epsilon(keys, relation):
    """Such a key is shown with probability p, and without the unit never."""
    event = ev.ThresholdSelection("gaussian", 1.0, 3.0, keys)
    shown = 1.0 - (1.0 - norm.sf(2.0)) ** keys
    below = account(event, delta=shown * 0.99, neighbours=relation).epsilon
    assert below.lower == below.upper == math.inf
    # Only one of the two units shows its new keys, so the other order says the same.
    far = account(event, epsilon=60.0, neighbours=relation).delta
    assert far.lower == pytest.approx(shown, rel=1e-9)
    assert far.lower <= shown * (1 + 1e-9) <= far.upper * (1 + 2e-9)


@for_each("epsilon", [0.5, 1.0, 1.9])
def test_a_laplace_threshold_replaced_shows_at_least_its_new_key(epsilon):
    event = ev.ThresholdSelection("laplace", 1.0, 5.0, 1)
    ends = account(event, epsilon=epsilon, neighbours="replace-one").delta
    assert ends.upper >= ends.lower >= 0.5 * math.exp(-4.0) * (1 - 1e-9)


@for_each("rounds", [1, 4])
def test_the_worst_of_a_class_with_a_larger_delta_has_no_epsilon(rounds):
    event = ev.Repeat(rounds, ev.Approximate(1.0, 0.1))
    ends = account(event, delta=1e-3).epsilon
    assert ends.lower == ends.upper == math.inf
    # On a sample it reveals all with probability 0.05; by steps of several records it need not.
    sampled = ev.Poisson(0.5, ev.Approximate(1.0, 0.1))
    assert account(sampled, delta=1e-3).epsilon.lower == math.inf
    assert account(sampled, delta=0.06).epsilon.upper < math.inf
    drawn = ev.FixedSize(1, 2, ev.Approximate(1.0, 0.1))
    assert account(drawn, delta=1e-3).epsilon.lower == 0.0
    finite = account(event, delta=1.0 - 0.9**rounds + 0.01).epsilon
    assert finite.lower <= finite.upper < math.inf


def test_noise_that_is_truncated_next_to_its_centre():
    """Outcomes -2 to 3 with losses of 200, 600 and without end; those of -2 and 3 underflow."""
    noise, bound = 0.05, 2
    event = ev.TruncatedDiscreteGaussian(noise, 1, bound)
    weights = {x: math.exp(-0.5 * (x / noise) ** 2) for x in range(-bound, bound + 1)}
    total = sum(weights.values())
    for epsilon in (1.0, 150.0, 199.0, 250.0):
        truth = sum(
            max(w / total - math.exp(epsilon) * weights.get(x + 1, 0.0) / total, 0.0)
            for x, w in weights.items()
        )
        ends = account(event, epsilon=epsilon).delta
        assert ends.lower <= truth * (1 + 1e-9)
        assert ends.lower == pytest.approx(truth, rel=1e-6, abs=1e-300)
        assert ends.upper >= truth * (1 - 1e-9)


@for_each("relation", ["add-remove", "replace-one"])
def test_a_divergence_of_0_at_one_order_is_equality(relation):
    event = ev.Repeat(5, ev.Renyi([2.0, 3.0], [0.0, 0.5]))
    assert account(event, delta=0.0, neighbours=relation).epsilon == 0.0
    assert account(event, epsilon=0.0, neighbours=relation).delta == 0.0
    other = ev.Compose([ev.Renyi([2.0], [0.0]), ev.Renyi([2.0], [0.1])])
    alone = account(ev.Renyi([2.0], [0.1]), delta=1e-5, neighbours=relation).epsilon
    assert account(other, delta=1e-5, neighbours=relation).epsilon.upper == alone.upper


@for_each(
    ("distribution", "shape", "factor"),
    [("negative-binomial", -0.5, 1.5), ("geometric", None, 3.0), ("logarithmic", None, 2.0)],
)
def test_a_search_loses_nothing_beyond_its_largest_loss(distribution, shape, factor):
    """Papernot and Steinke 2022: (2 + shape) epsilon, exactly."""
    event = ev.BestOf(distribution, 3.0, ev.Laplace(1.0), shape)
    assert account(event, delta=0.0).epsilon.upper == factor
    assert account(event, epsilon=factor).delta.upper == 0.0
    assert account(event, epsilon=factor * 0.999).delta.upper > 0.0
    thirds = ev.BestOf(distribution, 3.0, ev.Repeat(3, ev.Laplace(10.0)), shape)
    assert 0.3 * factor <= account(thirds, delta=0.0).epsilon.upper <= 0.3 * factor * (1 + 1e-15)


def test_calibration_to_a_class_is_refused_where_nothing_serves():
    found = calibrate(lambda s: ev.Approximate(1.0 / s, 1e-9), epsilon=0.5, delta=1e-5)
    assert found.guarantee.epsilon.upper <= 0.5
