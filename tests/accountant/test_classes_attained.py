"""The worst of a class of mechanisms, at every question: profiles, delta 0, clients, curves."""

from __future__ import annotations

import math

import numpy as np
import pytest

import privplan as pp
from privplan import account
from privplan import events as ev
from privplan.accountant.errors import InvalidInput

from ..cases import for_each


def response_delta(epsilon: float, at: float) -> float:
    """Return delta of binary randomized response, by its two outcomes."""
    true = 1.0 / (1.0 + math.exp(-epsilon))
    return max(true - math.exp(at) * (1.0 - true), 0.0)


def test_a_profile_has_the_ends_of_every_mechanism_of_a_class():
    """The upper ends are those of the worst, and some lose nothing; `account` says which."""
    epsilons = [0.0, 0.5, 0.9]
    profile = pp.privacy_profile(ev.Pure(1.0), epsilons)
    for epsilon, lower, upper in zip(epsilons, profile.lower, profile.upper, strict=True):
        exact = response_delta(1.0, epsilon)
        assert upper == pytest.approx(exact, rel=1e-3)
        assert upper >= exact * (1 - 1e-12)
        assert lower == 0.0
        worst = account(ev.Pure(1.0), epsilon=epsilon)
        assert worst.lower_of_class
        assert worst.delta.lower == pytest.approx(exact, rel=1e-3)
        assert worst.delta.lower <= exact * (1 + 1e-12)


@for_each("event", [ev.Pure(1.0), ev.Local(1.0), ev.Approximate(1.0, 0.0)])
def test_randomized_response_attains_the_sum_at_delta_0(event):
    epsilon = account(ev.Repeat(30, event), delta=0.0).epsilon
    assert epsilon.lower == pytest.approx(30.0, rel=1e-14)
    assert epsilon.lower <= 30.0 <= epsilon.upper
    # So does the geometric mechanism for units of several records.
    grouped = account(ev.Repeat(30, ev.Group(2, event)), delta=0.0).epsilon
    assert grouped.lower == pytest.approx(60.0, rel=1e-14)
    assert grouped.lower <= 60.0 <= grouped.upper


@for_each("rate", [0.05, 0.5])
@for_each("at", [0.0, 0.4])
def test_a_client_that_is_seen_shows_the_worst_of_the_class(rate, at):
    exact = rate * response_delta(1.0, at)
    delta = account(ev.ClientSampled(rate, ev.Pure(1.0)), epsilon=at).delta
    assert delta.lower <= exact * (1 + 1e-12)
    assert delta.lower == pytest.approx(exact, rel=1e-3)
    assert account(ev.ClientSampled(rate, ev.Group(2, ev.Pure(1.0))), epsilon=at).delta.lower == 0.0


def test_the_renyi_curve_of_a_client_has_a_lower_end():
    orders = np.array([1.5, 2.0, 8.0, 30.0])
    curve = pp.rdp(ev.ClientSampled(0.1, ev.Gaussian(1.0)), orders.tolist())
    exact = np.log1p(0.1 * np.expm1((orders - 1) * orders / 2)) / (orders - 1)
    assert (curve.lower <= exact * (1 + 1e-12)).all()
    np.testing.assert_allclose(curve.lower, exact, rtol=1e-8)


@for_each(
    ("event", "relation", "rho"),
    [
        (ev.ClientSampled(0.1, ev.Gaussian(2.0)), "add-remove", 1 / 8),
        (ev.ClientSampled(0.1, ev.Repeat(3, ev.Gaussian(2.0))), "replace-one", 12 / 8),
        (ev.GaussianMixture(2.0, (0.5, 3.0), (0.9, 0.1)), "add-remove", 9 / 8),
        (ev.WithReplacement(3, 10, ev.Gaussian(2.0)), "zero-out", 9 / 8),
        (ev.WithReplacement(3, 10, ev.Gaussian(2.0)), "add-remove", 36 / 8),
    ],
)
def test_samplers_have_the_rho_of_what_they_may_show(event, relation, rho):
    answer = pp.zcdp(event, neighbours=relation).rho
    assert answer.upper == pytest.approx(rho, rel=1e-12)
    # Each Renyi divergence stays below the line.
    orders = [2.0, 8.0, 64.0, 512.0]
    lower = pp.rdp(event, orders, neighbours=relation).lower
    assert (lower <= rho * np.array(orders) * (1 + 1e-12)).all()


def test_a_certain_contribution_is_a_sum_inside_of_samplers_too():
    mixture = ev.GaussianMixture(2.0, (1.0,), (1.0,))
    for wrap in (lambda e: ev.FixedSize(3, 10, e), lambda e: ev.ShuffledBatches(3, e)):
        for relation in ("replace-one", "zero-out"):
            one = account(wrap(mixture), delta=1e-5, neighbours=relation).epsilon
            other = account(wrap(ev.Gaussian(2.0)), delta=1e-5, neighbours=relation).epsilon
            assert one.upper == pytest.approx(other.upper, rel=1e-9)


def test_an_empty_list_is_called_empty():
    with pytest.raises(InvalidInput, match="at least one; it is empty"):
        ev.Renyi([], [])
    with pytest.raises(InvalidInput, match="at least one; it is a float"):
        ev.Renyi(2.0, [1.0])
