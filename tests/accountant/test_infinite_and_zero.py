"""Answers at the ends: a delta of exactly 0, an epsilon that is infinite, and what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privplan import account, calibrate
from privplan import events as ev
from privplan.accountant.engines.rdp.curves import of_pair, pure_pair
from privplan.accountant.errors import InvalidInput, TargetUnreachable

from ..cases import for_each


@for_each(
    ("event", "largest"),
    [
        (ev.Repeat(3, ev.Laplace(1.0)), 3.0),
        (ev.Repeat(3, ev.Pure(1.0)), 3.0),
        (ev.Compose([ev.DiscreteLaplace(0.5, 2), ev.RandomizedResponse(1.5, 4)]), 3.5),
        (ev.Group(4, ev.Laplace(2.0)), 2.0),
        (ev.Repeat(10, ev.Laplace(3.0)), 10.0 / 3.0),
    ],
)
def test_delta_is_exactly_zero_from_the_largest_loss_on(event: ev.Event, largest: float) -> None:
    for epsilon in (largest * (1.0 + 1e-15), largest + 1e-6, 2.0 * largest):
        assert account(event, epsilon=epsilon).delta == 0.0
    assert account(event, epsilon=0.9 * largest).delta.upper > 0.0
    at_zero = account(event, delta=0.0).epsilon.upper
    assert at_zero == pytest.approx(largest, rel=1e-14)
    assert account(event, epsilon=at_zero).delta == 0.0


def test_just_below_the_largest_loss_delta_is_that_of_one_outcome() -> None:
    # Three Laplace releases lose 3 in all where each lies beyond its centre: probability 1/8.
    below = account(ev.Repeat(3, ev.Laplace(1.0)), epsilon=3.0 - 1e-3).delta
    assert -math.expm1(-1e-3) / 8.0 * (1 - 1e-6) <= below.upper <= -math.expm1(-1e-3) / 8.0 * 1.01


def test_a_group_whose_delta_by_the_lemma_outgrows_1() -> None:
    answer = account(ev.Group(3, ev.Approximate(8.0, 1e-6)), epsilon=24.0)
    assert answer.delta.lower == pytest.approx(0.9996655, abs=1e-7)
    assert answer.delta.upper == pytest.approx(0.9996655, abs=1e-7)
    assert answer.warnings == ()
    at_delta = account(ev.Group(3, ev.Approximate(8.0, 1e-6)), delta=1e-5)
    assert any("unit of 3 records is 1" in text for text in at_delta.warnings)
    smaller = account(ev.Group(3, ev.Approximate(1.0, 1e-6)), epsilon=3.0)
    assert smaller.delta.upper == pytest.approx(1e-6 * (1 + math.e + math.e**2), rel=1e-6)
    assert smaller.warnings == ()


@for_each("epsilon", [1e80, 1e155, 1.7e308])
@for_each(
    "release", [ev.Pure, ev.Exponential, lambda epsilon: ev.ClientSampled(0.1, ev.Pure(epsilon))]
)
def test_an_epsilon_whose_square_is_no_number_still_has_ends(release, epsilon: float) -> None:
    event = release(epsilon)
    within = account(event, epsilon=1.0).delta
    assert 0.0 <= within.lower <= within.upper <= 1.0
    # A loss of +-epsilon shows nearly everybody who takes part.
    assert within.upper >= (0.0999 if isinstance(event, ev.ClientSampled) else 0.999)
    assert account(event, epsilon=epsilon).delta.upper == 0.0
    at_delta = account(event, delta=1e-3).epsilon
    assert at_delta.lower <= epsilon * (1.0 + 1e-12)
    assert at_delta.upper >= epsilon * (1.0 - 1e-6)


@for_each("loss", [1e9, 1e13, 1e20, 1e30, 1e306])
def test_no_divergence_of_a_large_loss_is_below_the_loss_itself(loss: float) -> None:
    # Binary randomized response: R(a) = eps + log((1 + e^((1-2a) eps)) / (1 + e^-eps)) / (a - 1).
    orders = 1.0 + np.array([1e-10, 1e-8, 1e-5, 1e-3, 1.0])
    values = of_pair(pure_pair(loss))(orders)
    assert np.all(values >= loss)
    assert np.all(values <= loss * (1.0 + 1e-10))
    for event in (ev.Pure(loss), ev.ClientSampled(0.1, ev.Pure(loss))):
        upper = account(event, delta=1e-3, engine="rdp").epsilon.upper
        # Exactly eps + log(1 - 1e-3) and eps + log(1 - 1e-2), which a float rounds.
        assert upper >= loss - 0.0101


@for_each("rounds", [1, 5])
def test_no_guarantee_is_an_infinite_epsilon_with_its_reason(rounds: int) -> None:
    event = ev.Repeat(rounds, ev.NoGuarantee("the update is sent in the clear"))
    at_delta = account(event, delta=1e-5)
    assert at_delta.epsilon.upper == math.inf
    assert account(event, epsilon=50.0).delta.upper == 1.0
    for answer in (at_delta, account(event, epsilon=50.0), account(event, delta=0.0)):
        assert any("sent in the clear" in text for text in answer.warnings)


def test_no_guarantee_in_a_sample_costs_who_is_drawn() -> None:
    event = ev.Poisson(0.01, ev.NoGuarantee("no noise is added"))
    assert account(event, epsilon=1.0).delta.upper == pytest.approx(0.01, rel=1e-6)
    assert account(event, delta=0.001).epsilon.upper == math.inf
    drawn_seldom = account(event, delta=0.02)
    assert drawn_seldom.epsilon.upper == 0.0
    assert drawn_seldom.warnings == ()


def test_no_noise_is_refused_with_the_event_that_means_it() -> None:
    for make in (ev.Gaussian, ev.Laplace):
        with pytest.raises(InvalidInput, match="NoGuarantee"):
            make(0.0)
        with pytest.raises(InvalidInput) as caught:
            make(-1.0)
        assert "NoGuarantee" not in str(caught.value)


def test_no_noise_calibrates_what_protects_nobody() -> None:
    with pytest.raises(TargetUnreachable):
        calibrate(
            lambda s: ev.Compose([ev.Gaussian(s), ev.NoGuarantee("sent in the clear")]),
            epsilon=1.0,
            delta=1e-5,
        )
