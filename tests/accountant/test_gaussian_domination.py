"""The least mu of a whole plan: its domination at ten thousand epsilons, by another library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.special import log_ndtr, ndtr

from privplan.accountant import events as ev
from privplan.accountant.account import bounds_on_deltas
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.ask.upper_profile import UpperProfile
from privplan.accountant.errors import Unsupported
from privplan.accountant.odometer import gaussian_domination
from privplan.accountant.odometer.gaussian_domination import (
    ProfilePoints,
    dominates,
    least_mu,
)

from ..cases import for_each

SLACK = 1e-6
PLAN = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))


def gaussian_deltas(mu: float, epsilons: np.ndarray) -> np.ndarray:
    """Return delta of N(0, 1) against N(mu, 1) in plain double precision."""
    log_term = epsilons + log_ndtr(-epsilons / mu - mu / 2)
    return ndtr(mu / 2 - epsilons / mu) - np.exp(log_term)


LIBRARY_ERROR = 2e-3
"""Relative excess that the grid of the other library may have, which errs upward."""


@for_each("rate, noise, count", [(0.01, 1.0, 1000), (0.3, 0.9, 5)])
def test_at_ten_thousand_epsilons_another_library_finds_no_more(rate, noise, count):
    plan = ev.Repeat(count, ev.Poisson(rate, ev.Gaussian(noise)))
    mu = least_mu(Composition.of(plan), "add-remove", SLACK)
    epsilons = np.linspace(0.0, 9.0, 10_000)
    most = SLACK + (1 - SLACK) * gaussian_deltas(mu, epsilons)
    losses = privacy_loss_distribution.from_gaussian_mechanism(noise, sampling_prob=rate)
    theirs = np.asarray(losses.self_compose(count).get_delta_for_epsilon(epsilons))
    assert (theirs <= most * (1 + LIBRARY_ERROR)).all()
    # With a mu that is a hundredth smaller they find more somewhere.
    less = SLACK + (1 - SLACK) * gaussian_deltas(0.99 * mu, epsilons)
    assert (theirs > less * (1 + LIBRARY_ERROR)).any()


@for_each(
    "event, relation",
    [
        (ev.Repeat(300, ev.Poisson(0.02, ev.Gaussian(1.1))), "replace-one"),
        (ev.Repeat(10, ev.Laplace(5.0)), "add-remove"),
        (ev.Repeat(4, ev.RandomizedResponse(0.7, 3)), "replace-one"),
        (
            ev.Compose([ev.Gaussian(3.0), ev.Repeat(50, ev.Poisson(0.05, ev.Gaussian(2.0)))]),
            "add-remove",
        ),
        (ev.Repeat(3, ev.Approximate(0.5, 1e-8)), "add-remove"),
        (ev.Repeat(20, ev.Group(3, ev.Poisson(0.01, ev.Gaussian(2.0)))), "add-remove"),
    ],
)
def test_it_dominates_what_the_engine_shows_from_below_and_is_near_the_least(event, relation):
    mu = least_mu(Composition.of(event), relation, SLACK)
    assert 0.0 < mu < math.inf
    epsilons = np.array([0.0, 0.1, 0.3, 0.7, 1.1, 1.6, 2.5])
    shown = bounds_on_deltas(event, epsilons.tolist(), neighbours=relation)
    most = SLACK + (1 - SLACK) * gaussian_deltas(mu, epsilons)
    assert all(bounds.lower <= limit for bounds, limit in zip(shown, most, strict=True))
    # Two hundredths less fails on certified points themselves.
    profile, finer = UpperProfile(Composition.of(event), relation, SLACK), np.linspace(0, 4, 300)
    less = SLACK + (1 - SLACK) * gaussian_deltas(0.98 * mu, finer)
    assert any(profile.at(float(e)) > limit for e, limit in zip(finer, less, strict=True))


def test_gaussian_noise_is_dominated_by_itself():
    mu = least_mu(Composition.of(ev.Repeat(4, ev.Gaussian(4.0))), "add-remove", 1e-7)
    assert mu * (1 + 1e-6) >= 0.5
    assert mu <= 0.5 * (1 + 1e-4)


def test_it_falls_as_the_slack_grows():
    parts = Composition.of(PLAN)
    mus = [least_mu(parts, "add-remove", slack) for slack in (1e-8, 1e-6, 1e-3)]
    assert mus == sorted(mus, reverse=True)
    # Without any slack it would be that of the noise without sampling.
    assert mus[0] < math.sqrt(1000)


@for_each("delta", [1e-6, 1e-4, 0.5])
def test_a_delta_of_its_own_above_the_slack_has_no_mu(delta):
    event = ev.Repeat(2, ev.Approximate(0.1, delta))
    assert math.isinf(least_mu(Composition.of(event), "add-remove", 1e-6))


# Between the points of a grid.


def test_a_test_on_the_points_alone_would_be_too_small_and_ours_is_not(monkeypatch):
    """Both ends of one long interval pass long before what lies between does."""
    slack, parts = 1e-6, Composition.of(ev.Repeat(100, ev.Poisson(0.02, ev.Gaussian(1.0))))
    profile = UpperProfile(parts, "add-remove", slack)
    at = [0.0, 6.0]
    points = ProfilePoints(tuple(at), tuple(map(profile.at, at)))

    def passes_on_points(mu):
        limits = slack + (1 - slack) * gaussian_deltas(mu, np.array(at))
        return all(d <= limit for d, limit in zip(points.deltas, limits, strict=True))

    naive = min(mu for mu in np.linspace(0.05, 3.0, 2000) if passes_on_points(mu))
    dense = np.linspace(0.0, 6.0, 300)
    truth = np.array([profile.at(each) for each in dense]) * (1 - 1e-9)
    assert (truth > slack + (1 - slack) * gaussian_deltas(naive, dense)).any()
    assert not dominates(naive, slack, points)
    monkeypatch.setattr(gaussian_domination, "FIRST_POINTS", 5)
    monkeypatch.setattr(gaussian_domination, "REFINEMENTS", 0)
    coarse = least_mu.__wrapped__(parts, "add-remove", slack)
    assert (truth <= slack + (1 - slack) * gaussian_deltas(coarse, dense)).all()


def test_points_that_end_above_the_slack_prove_nothing():
    points = ProfilePoints((0.0, 1.0), (0.1, 2e-6))
    assert not dominates(100.0, 1e-6, points)
    assert dominates(100.0, 3e-6, points)
    assert not dominates(100.0, 3e-6, ProfilePoints((0.5, 1.0), (0.1, 2e-6)))


def test_both_orders_of_the_neighbours_count():
    """With only the order in which a record is added, mu would be smaller, and too small."""
    plan = ev.Repeat(3, ev.Poisson(0.2, ev.Gaussian(0.8)))
    parts = Composition.of(plan)
    mu = least_mu(parts, "add-remove", SLACK)
    whole = UpperProfile(parts, "add-remove", SLACK)
    singles = []
    for direction in whole._directions:
        one = UpperProfile.__new__(UpperProfile)
        one._directions = [direction]
        singles.append(one)
    assert len(singles) == 2
    epsilons = np.linspace(0.0, 6.0, 200)
    worst = [max(each.at(float(e)) for each in singles) for e in epsilons]
    assert worst == [whole.at(float(e)) for e in epsilons]
    at = np.linspace(0.0, 9.0, 400)
    needed = []
    for each in singles:
        points = ProfilePoints(tuple(at), tuple(each.at(float(e)) for e in at))
        needed.append(dominates(0.97 * mu, SLACK, points))
    assert sorted(needed) == [False, True]


def test_what_has_no_dominating_pair_is_refused():
    with pytest.raises(Unsupported):
        least_mu(Composition.of(ev.ZCDP(0.1)), "add-remove", SLACK)
