"""`privacy_profile`: delta by epsilon of any sign, against closed forms and enumeration."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.account import bounds_on_delta
from privplan.accountant.engines.pld.compose import delta_bounds
from privplan.accountant.errors import InvalidInput
from privplan.accountant.guarantee import Bounds

from ..cases import for_each

EPSILONS = (-3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 3.0)


def gaussian(mu: float, epsilon: float) -> mp.mpf:
    """Return E_{e^epsilon}(N(mu, 1) || N(0, 1)); it has no other form below 0."""
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


@for_each("noise", [0.5, 1.0, 4.0])
def test_gaussian_noise_equals_its_closed_form(noise: float) -> None:
    profile = pp.privacy_profile(ev.Gaussian(noise), EPSILONS)
    with mp.workdps(40):
        for epsilon, bounds in zip(EPSILONS, profile.deltas, strict=True):
            truth = gaussian(1.0 / noise, epsilon)
            assert bounds.lower <= truth <= bounds.upper
            assert bounds.gap <= 1e-11 * float(truth)


def binary(rate: float, epsilon0: float, epsilon: float) -> float:
    """Return the larger of both directions, summed over outcomes, of a sampled binary response."""
    truthful = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    absent = np.array([1 - truthful, truthful])
    present = (1 - rate) * absent + rate * absent[::-1]
    t = math.exp(epsilon)
    return max(
        float(np.maximum(p - t * q, 0).sum()) for p, q in ((present, absent), (absent, present))
    )


@for_each("rate", [0.2, 0.7])
def test_both_directions_of_a_sampled_response(rate: float) -> None:
    """Its directions differ on both sides of 0, and the bound is never below the larger one."""
    profile = pp.privacy_profile(ev.Poisson(rate, ev.Pure(1.5)), EPSILONS)
    for epsilon, bounds in zip(EPSILONS, profile.deltas, strict=True):
        truth = binary(rate, 1.5, epsilon)
        assert bounds.lower <= truth * (1 + 1e-12) + 1e-15
        assert truth * (1 - 1e-12) <= bounds.upper <= truth + 1e-3


def test_below_0_it_is_the_mirror_image() -> None:
    event = ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(0.8)))
    profile = pp.privacy_profile(event, [-1.0, 1.0])
    for end in (profile.lower, profile.upper):
        assert end[0] == pytest.approx(1 - math.exp(-1) + math.exp(-1) * end[1], rel=1e-12)
    assert any("Below 0" in step.statement for step in profile.derivation)


@for_each(
    "event",
    [
        ev.Repeat(20, ev.Poisson(0.1, ev.Gaussian(1.0))),
        ev.Repeat(3, ev.Laplace(2.0)),
        ev.Approximate(1.0, 0.01),
        ev.Renyi([2.0, 8.0], [0.5, 2.0]),
    ],
)
def test_it_falls_and_is_convex_in_the_odds(event: ev.Event) -> None:
    epsilons = np.linspace(-2.0, 2.0, 9)
    profile = pp.privacy_profile(event, epsilons)
    assert (np.diff(profile.upper) <= 0.0).all()
    assert (np.diff(profile.lower) <= 0.0).all()
    assert (profile.lower <= profile.upper).all()
    # Nobody is told apart with less than this, and no delta exceeds 1.
    floor = np.maximum(1.0 - np.exp(epsilons), 0.0)
    assert (profile.upper >= floor).all()
    assert (profile.upper <= 1.0).all()


def test_it_agrees_with_account() -> None:
    event = ev.Repeat(20, ev.Poisson(0.1, ev.Gaussian(1.0)))
    profile = pp.privacy_profile(event, [1.0, 0.0, 1.0])
    assert profile.deltas[0] == profile.deltas[2]
    assert profile.deltas[0] == pp.account(event, epsilon=1.0).delta
    assert isinstance(profile.deltas[1], Bounds)


def test_nothing_released_and_everything() -> None:
    nothing = pp.privacy_profile(ev.Compose([]), [-1.0, 0.0])
    assert nothing.lower[0] <= 1 - math.exp(-1) <= nothing.upper[0]
    assert nothing.upper[1] == 0.0
    everything = pp.privacy_profile(ev.NoGuarantee("clear text"), [-1.0, 0.0, 5.0])
    assert everything.upper.tolist() == [1.0, 1.0, 1.0]


@for_each("epsilons", [[], [math.inf], [math.nan], ["1"], 1.0])
def test_epsilons_are_checked(epsilons) -> None:
    with pytest.raises(InvalidInput, match="`epsilons"):
        pp.privacy_profile(ev.Gaussian(1.0), epsilons)


MANY = (
    ev.Repeat(400, ev.Poisson(0.01, ev.Gaussian(1.1))),
    ev.Compose([ev.Gaussian(3.0), ev.Repeat(50, ev.Poisson(0.05, ev.Gaussian(1.0)))]),
    ev.Repeat(30, ev.Laplace(2.0)),
    ev.Repeat(20, ev.Pure(0.3)),
)


@for_each(
    ("event", "neighbours"),
    list(zip(MANY, ("add-remove", "replace-one") * 2, strict=True)),
    ids=["samples", "mixed", "laplace", "pure"],
)
def test_many_epsilons_say_what_each_says_alone(event: ev.Event, neighbours: str) -> None:
    """Ends hold beside those of single questions, and differ by what 1e-3 of epsilon does."""
    epsilons = np.linspace(0.0, 5.0, 11)
    many = pp.privacy_profile(event, epsilons, neighbours=neighbours).deltas
    for epsilon, bounds in list(zip(epsilons.tolist(), many, strict=True))[::5]:
        alone = bounds_on_delta(event, epsilon=epsilon, neighbours=neighbours)
        assert bounds.lower <= alone.upper
        assert alone.lower <= bounds.upper
        before, after = (
            bounds_on_delta(event, epsilon=epsilon * factor, neighbours=neighbours)
            for factor in (1.0 - 1e-3, 1.0 + 1e-3)
        )
        assert bounds.upper <= before.upper * (1.0 + 5e-4)
        assert bounds.lower >= after.lower * (1.0 - 5e-4)


def test_many_epsilons_share_compositions(monkeypatch: pytest.MonkeyPatch) -> None:
    composed = []
    compose = delta_bounds.compose
    monkeypatch.setattr(
        delta_bounds, "compose", lambda *given: composed.append(given) or compose(*given)
    )
    pp.privacy_profile(MANY[0], np.linspace(0.0, 2.0, 51))
    assert len(composed) < 51
