"""Lower bounds on delta at every epsilon: never above what the pair attains, and close to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.engines.pld.compose.curve import (
    AttainedCurve,
    attained_curves,
    delta_curves,
)
from privplan.accountant.guarantee import NEIGHBOURS, Neighbours

from ...cases import for_each
from ...sweeps import sweep

EVENTS: tuple[ev.Event, ...] = (
    ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(1.0))),
    ev.Poisson(0.3, ev.Laplace(0.5)),
    ev.Compose([ev.Gaussian(2.0), ev.Laplace(3.0)]),
    ev.Repeat(10, ev.DiscreteLaplace(2.0, 3)),
    ev.Repeat(4, ev.RandomizedResponse(0.5, 3)),
    ev.Repeat(5, ev.Group(3, ev.Poisson(0.1, ev.Gaussian(4.0)))),
    ev.Compose([ev.Poisson(0.01 + i / 1000, ev.Gaussian(1.0)) for i in range(40)]),
)


def at(curve: AttainedCurve, epsilons: np.ndarray) -> np.ndarray:
    """Return the chords of a curve in e^epsilon."""
    x = np.concatenate(([0.0], np.exp(curve.epsilons)))
    deltas = np.concatenate(([curve.total], curve.deltas))
    return np.interp(np.exp(epsilons), x, deltas, right=curve.beyond)


@for_each("event", sweep([*EVENTS], quick=5), ids=str)
@for_each("neighbours", NEIGHBOURS)
def test_lower_deltas_lie_below_upper_ones(event: ev.Event, neighbours: Neighbours) -> None:
    epsilons = np.array([0.0, 0.01, 0.2, 0.6, 3.0, 40.0])
    uppers = [curve.at(epsilons) for curve in delta_curves(Composition.of(event), neighbours)]
    curves = attained_curves(Composition.of(event), neighbours)
    if isinstance(event, ev.Repeat) and isinstance(event.event, ev.RandomizedResponse):
        # What an absent unit responds is not said.
        assert (curves == ()) == (neighbours != "replace-one")
        if not curves:
            return
    lowers = [at(curve, epsilons) for curve in curves]
    assert len(lowers) == len(uppers)
    for lower, upper in zip(lowers, uppers, strict=True):
        assert (lower <= upper).all()
        assert (upper - lower).max() < 3e-5
    # Below 0 each order is seen in the other one: delta(-e) = 1 - e^-e + e^-e delta'(e).
    for curve, reverse in zip(curves, uppers[::-1], strict=True):
        below = at(curve, -epsilons)
        mirrored = -np.expm1(-epsilons) + np.exp(-epsilons) * reverse
        assert (below <= mirrored + 1e-15).all()
        assert (mirrored - below).max() < 3e-5


@for_each(("rate", "sigma"), [(1.0, 0.3), (0.2, 1.0), (0.01, 0.5)])
def test_against_one_round_in_closed_form(rate: float, sigma: float) -> None:
    # The losses of a sampled Gaussian rise with x: the best tests are half lines.
    cuts = np.linspace(-6.0 * sigma, 1.0 + 8.0 * sigma, 400)
    with_unit = (1.0 - rate) * ndtr(-cuts / sigma) + rate * ndtr((1.0 - cuts) / sigma)
    without = ndtr(-cuts / sigma)
    epsilons = np.log1p(rate * np.expm1((cuts - 0.5) / sigma**2))
    forth = attained_curves(
        Composition([Leaf(ev.Poisson(rate, ev.Gaussian(sigma)), 1)]), "add-remove"
    )[0]
    exact = with_unit - np.exp(epsilons) * without
    usable = epsilons < 500.0
    shown = at(forth, epsilons[usable])
    assert (shown <= exact[usable] + 1e-15 * np.exp(np.maximum(epsilons[usable], 0.0))).all()
    assert np.abs(shown - exact[usable]).max() < 2e-5


def test_no_pair_no_curve() -> None:
    assert attained_curves(Composition.of(ev.Pure(1.0)), "add-remove") == ()


def test_nodes_fall_and_ends_are_those_of_a_pmf() -> None:
    for event in EVENTS[:4]:
        for curve in attained_curves(Composition.of(event), "add-remove"):
            assert (np.diff(curve.epsilons) > 0.0).all()
            assert (np.diff(curve.deltas) <= 1e-12).all()
            assert 1.0 - 1e-6 < curve.total <= 1.0
            assert 0.0 <= curve.beyond <= curve.deltas[-1] + 1e-15


def test_lower_ends_agree_with_the_engine_s() -> None:
    event = EVENTS[0]
    for epsilon in (0.0, 0.3, 1.0):
        known = account(event, epsilon=epsilon, engine="pld").delta
        shown = max(
            float(at(curve, np.array([epsilon]))[0])
            for curve in attained_curves(Composition.of(event), "add-remove")
        )
        assert shown <= known.upper
        assert shown == pytest.approx(known.lower, abs=1e-5)
