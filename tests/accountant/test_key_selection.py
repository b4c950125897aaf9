"""The best partition selections at an (epsilon, delta): certified, and against published ones."""

from __future__ import annotations

import math

import pytest
from scipy.stats import laplace, norm

from privplan import account, calibrate
from privplan import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.key_selection import (
    keep_probability,
    least_threshold,
    threshold_selection,
    truncated_geometric_selection,
)

from ..cases import for_each


@for_each(("eps", "delta"), [(1.0, 1e-5), (0.3, 1e-2)])
def test_the_probabilities_are_the_published_closed_form(eps, delta):
    """Desfontaines, Voss and Gipson, Theorem 1: both branches, and the count where they meet."""
    event = ev.TruncatedGeometricSelection(eps, delta, 1)
    n1 = 1 + math.floor(
        math.log((math.exp(eps) + 2 * delta - 1) / (delta * (math.exp(eps) + 1))) / eps
    )
    n2 = n1 + math.floor(
        math.log(
            1
            + (math.exp(eps) - 1)
            / delta
            * (1 - (math.exp(n1 * eps) - 1) / (math.exp(eps) - 1) * delta)
        )
        / eps
    )
    at_n1 = (math.exp(n1 * eps) - 1) / (math.exp(eps) - 1) * delta
    for n in range(n2 + 3):
        if n <= n1:
            exact = (math.exp(n * eps) - 1) / (math.exp(eps) - 1) * delta
        elif n <= n2:
            m = n - n1
            fade = math.exp(-m * eps)
            exact = (1 - fade) * (1 + delta / (math.exp(eps) - 1)) + fade * at_n1
        else:
            exact = 1.0
        assert keep_probability(event, n) == pytest.approx(exact, rel=1e-9)


@for_each("noise", ["laplace", "gaussian"])
@for_each("shown", [0.4, 1e-3, 1e-12])
def test_a_key_of_one_unit_passes_with_that_probability(noise, shown):
    law = (norm if noise == "gaussian" else laplace)(scale=3.0)
    assert law.sf(least_threshold(noise, 3.0, shown) - 1.0) == pytest.approx(shown, rel=1e-8)


@pytest.mark.parametrize("keys", [1, 3])
def test_the_laplace_threshold_is_at_most_the_published_one(keys):
    epsilon, delta = 1.0, 1e-5
    found = threshold_selection("laplace", epsilon=epsilon, delta=delta, partitions=keys)
    each = -math.expm1(math.log1p(-delta) / keys)
    published = 1.0 - keys / epsilon * math.log(2.0 * each)
    assert isinstance(found.event, ev.ThresholdSelection)
    assert found.event.threshold <= published * (1 + 1e-4)
    assert found.guarantee.epsilon.upper <= epsilon
    assert account(found.event, epsilon=epsilon).delta.upper <= delta


def test_the_gaussian_threshold_beats_equal_halves_of_delta():
    epsilon, delta, keys = 1.0, 1e-5, 4
    found = threshold_selection("gaussian", epsilon=epsilon, delta=delta, partitions=keys)
    sigma = calibrate(
        lambda s: ev.Repeat(keys, ev.Gaussian(s)), epsilon=epsilon, delta=delta / 2
    ).value
    halves = least_threshold("gaussian", sigma, -math.expm1(math.log1p(-delta / 2) / keys))
    assert isinstance(found.event, ev.ThresholdSelection)
    assert found.event.threshold <= halves * (1 + 1e-4)
    assert account(found.event, delta=delta).epsilon.upper <= epsilon


@for_each("keys", [1, 2])
def test_the_truncated_geometric_keeps_no_less_than_an_even_split(keys):
    epsilon, delta = 1.0, 1e-5
    found = truncated_geometric_selection(epsilon=epsilon, delta=delta, partitions=keys)
    assert account(found.event, delta=delta).epsilon.upper <= epsilon
    assert isinstance(found.event, ev.TruncatedGeometricSelection)
    split = ev.TruncatedGeometricSelection(epsilon / keys, delta / keys, keys)
    half = [
        next(n for n in range(1000) if keep_probability(event, n) >= 0.5)
        for event in (found.event, split)
    ]
    assert half[0] <= half[1]


def test_more_keys_per_unit_need_a_higher_threshold():
    thresholds = [
        threshold_selection(
            "gaussian", epsilon=2.0, delta=1e-4, partitions=keys, neighbours=relation
        ).event.threshold
        for keys, relation in ((1, "add-remove"), (2, "add-remove"), (2, "replace-one"))
    ]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[-1]


def test_bad_input_is_refused_by_its_field():
    with pytest.raises(InvalidInput, match="noise"):
        threshold_selection("cauchy", epsilon=1.0, delta=1e-5, partitions=1)
    with pytest.raises(InvalidInput, match="delta"):
        truncated_geometric_selection(epsilon=1.0, delta=0.0, partitions=1)
    with pytest.raises(InvalidInput, match="partitions"):
        threshold_selection("laplace", epsilon=1.0, delta=1e-5, partitions=0)
