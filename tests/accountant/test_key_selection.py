"""The best partition selections at an (epsilon, delta): certified, and against published ones."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from scipy.stats import laplace, norm

from privplan import account, calibrate
from privplan import events as ev
from privplan.accountant import key_selection
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


def selection(monkeypatch, shares, noise, keys, neighbours="add-remove"):
    """Return the best of so few shares of delta, each of which is a calibration."""
    monkeypatch.setattr(key_selection, "SHARES", shares)
    return threshold_selection(
        noise, epsilon=1.0, delta=1e-5, partitions=keys, neighbours=neighbours
    )


def test_the_laplace_threshold_is_at_most_the_published_one(monkeypatch):
    found = selection(monkeypatch, (0.5, 0.999999), "laplace", 3)
    each = -math.expm1(math.log1p(-1e-5) / 3)
    assert isinstance(found.event, ev.ThresholdSelection)
    assert found.event.threshold <= (1.0 - 3.0 * math.log(2.0 * each)) * (1 + 1e-4)
    assert found.guarantee.epsilon.upper <= 1.0
    assert account(found.event, epsilon=1.0).delta.upper <= 1e-5


def test_more_keys_need_a_higher_gaussian_threshold_that_beats_equal_halves(monkeypatch):
    cases = ((1, "add-remove"), (4, "add-remove"), (4, "replace-one"))
    found = [selection(monkeypatch, (0.5,), "gaussian", *case).event for case in cases]
    thresholds = [event.threshold for event in found]
    assert thresholds == sorted(set(thresholds))
    sigma = calibrate(lambda s: ev.Repeat(4, ev.Gaussian(s)), epsilon=1.0, delta=0.5e-5).value
    halves = least_threshold("gaussian", sigma, -math.expm1(math.log1p(-0.5e-5) / 4))
    assert thresholds[1] <= halves * (1 + 1e-4)
    assert account(found[1], delta=1e-5).epsilon.upper <= 1.0


@for_each("keys", [1, 2])
def test_the_truncated_geometric_keeps_no_less_than_an_even_split(keys, monkeypatch):
    monkeypatch.setattr(key_selection, "SHARES", (0.5, 0.999999))
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


def test_the_best_of_all_shares_is_returned(monkeypatch):
    tried = []

    def at_one_noise(make, **_target):
        tried.append(make(2.0))
        return SimpleNamespace(event=tried[-1])

    monkeypatch.setattr(key_selection, "calibrate", at_one_noise)
    best = threshold_selection("laplace", epsilon=1.0, delta=1e-5, partitions=1).event
    assert len(tried) == len(key_selection.SHARES)
    assert best.threshold == min(event.threshold for event in tried)


def test_bad_input_is_refused_by_its_field():
    with pytest.raises(InvalidInput, match="noise"):
        threshold_selection("cauchy", epsilon=1.0, delta=1e-5, partitions=1)
    with pytest.raises(InvalidInput, match="delta"):
        truncated_geometric_selection(epsilon=1.0, delta=0.0, partitions=1)
    with pytest.raises(InvalidInput, match="partitions"):
        threshold_selection("laplace", epsilon=1.0, delta=1e-5, partitions=0)
