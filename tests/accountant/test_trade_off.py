"""Trade-off functions and the delta curves behind them: never above the truth, and close to it."""

from __future__ import annotations

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.compose.curve import delta_curves
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.guarantee import NEIGHBOURS, Neighbours
from privplan.accountant.risk.trade_off import attained_trade_off
from privplan.audit.statistics import TradeOff, scaled, trade_off

from ..cases import for_each
from ..sweeps import sweep

SAMPLED = ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(1.0)))
ALPHAS = np.concatenate(
    (
        [0.0],
        np.geomspace(1e-300, 1e-9, 20),
        np.geomspace(1e-8, 0.5, 120),
        1.0 - np.geomspace(0.5, 1e-12, 60),
        [1.0],
    )
)
EVENTS: tuple[ev.Event, ...] = (
    SAMPLED,
    ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(0.7))),
    ev.Poisson(0.3, ev.Laplace(0.5)),
    ev.Compose([ev.Gaussian(2.0), ev.Laplace(3.0)]),
    ev.Repeat(10, ev.DiscreteLaplace(2.0, 3)),
    ev.Approximate(0.5, 0.01),
    ev.Repeat(5, ev.Group(3, ev.Poisson(0.1, ev.Gaussian(4.0)))),
    ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(0.03))),  # hardly any noise
    ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(300.0))),  # hardly any loss
)


@for_each("event", sweep([*EVENTS[:7], EVENTS[8]], quick=3), ids=str)
@for_each("neighbours", ["add-remove", "replace-one"])
def test_deltas_lie_between_the_engine_s_own_ends(event: ev.Event, neighbours: Neighbours) -> None:
    curves = delta_curves(Composition.of(event), neighbours)
    for epsilon in (0.0, 0.6, 40.0):
        here = max(float(curve.at(np.array([epsilon]))[0]) for curve in curves)
        known = account(event, epsilon=epsilon, neighbours=neighbours, engine="pld").delta
        assert known.lower <= here <= known.upper + 1e-5


def test_between_and_beyond_nodes() -> None:
    for curve in delta_curves(Composition.of(SAMPLED), "add-remove"):
        assert (np.diff(curve.epsilons) > 0.0).all()
        assert (np.diff(curve.deltas) <= 0.0).all()
        middles = 0.5 * (curve.epsilons[1:] + curve.epsilons[:-1])
        found = curve.at(middles)
        assert (found <= curve.deltas[:-1] * (1.0 + 1e-14)).all()
        assert (found >= curve.deltas[1:]).all()
        np.testing.assert_allclose(curve.at(curve.epsilons), curve.deltas, rtol=1e-14)
        assert curve.at(np.array([1e9]))[0] <= 1e-9
        assert curve.at(np.array([-1e9]))[0] == pytest.approx(1.0)


def test_a_release_about_nobody_and_one_about_everybody() -> None:
    (nothing,) = delta_curves(Composition.of(ev.Poisson(0.0, ev.Gaussian(1.0))), "add-remove")
    assert nothing.at(np.zeros(1))[0] <= 1e-11
    (everything,) = delta_curves(Composition.of(ev.NoGuarantee("shown")), "add-remove")
    assert everything.at(np.array([0.0, 50.0])).tolist() == [1.0, 1.0]


def test_below_epsilon_0_a_unit_that_is_not_drawn_is_no_bound() -> None:
    # Drawn with probability .1 and then shown: 1 - .9 x against e^epsilon = x, and 0 beyond 1 / .9.
    _, back = delta_curves(Composition.of(ev.Poisson(0.1, ev.NoGuarantee("shown"))), "add-remove")
    x = np.linspace(0.5, 1.2, 50)
    assert (back.at(np.log(x)) >= np.maximum(1.0 - 0.9 * x, 0.0) - 1e-12).all()


def laplace_truth(b: float, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the trade-off function of Lap(0, b) against Lap(1, b)."""
    e = math.exp(1.0 / b)
    with np.errstate(divide="ignore"):
        middle = math.exp(-1.0 / b) / (4.0 * alpha)
    steep, flat = 1.0 - e * alpha, math.exp(-1.0 / b) * (1.0 - alpha)
    return np.where(alpha < 0.5 / e, steep, np.where(alpha <= 0.5, middle, flat))


@for_each("b", [0.2, 1.0, 7.0])
def test_laplace(b: float) -> None:
    truth = laplace_truth(b, ALPHAS)
    found = trade_off(ev.Laplace(b))(ALPHAS)
    assert (found <= truth).all()
    assert (truth - found).max() < 1e-5


@for_each("epsilon", [0.0, 0.3, 5.0])
@for_each("delta", [0.0, 0.1])
def test_bare_numbers(epsilon: float, delta: float) -> None:
    found = trade_off(ev.Approximate(epsilon, delta))(ALPHAS)
    steep = 1.0 - delta - math.exp(epsilon) * ALPHAS
    flat = math.exp(-epsilon) * (1.0 - delta - ALPHAS)
    truth = np.maximum(0.0, np.maximum(steep, flat))
    assert (found <= truth + 1e-15).all()
    assert (truth - found).max() < 1e-5


@for_each("sigma", [0.3, 1.0, 20.0])
def test_the_closed_form_and_the_lines_agree(sigma: float) -> None:
    truth = ndtr(-ndtri(ALPHAS) - 1.0 / sigma)
    closed = trade_off(ev.Gaussian(sigma))(ALPHAS)
    lines = trade_off(ev.Compose([ev.Gaussian(sigma), ev.Pure(0.0)]))(ALPHAS)
    assert (lines <= closed + 1e-11).all()
    assert (closed <= truth).all()
    assert (truth - closed).max() < 1e-10
    assert (truth - lines).max() < 1e-5


def test_the_closed_form_against_mpmath() -> None:
    for mu, alpha in product((1e-5, 0.5, 4.0, 30.0), (1e-300, 1e-9, 0.2, 0.999, 1.0 - 1e-12)):
        found = trade_off(ev.Gaussian(1.0 / mu))(alpha)
        with mp.workdps(60):
            cut = mp.mpf(-float(ndtri(alpha)))
            step = (1 - mp.mpf(alpha) - mp.ncdf(cut)) / mp.npdf(cut)  # to 30 digits
            exact = mp.ncdf(cut + step * (1 + cut * step / 2) - mp.mpf(mu))
        assert found <= exact
        assert found == pytest.approx(float(exact), rel=1e-9)


@for_each(("rate", "sigma"), [(0.1, 0.5), (0.5, 1.0), (0.01, 0.3)])
def test_one_sampled_round_against_the_best_test(rate: float, sigma: float) -> None:
    # Out: N(0, s^2).  In: the mixture.  The best tests are half lines.
    cuts = np.linspace(-9.0, 9.0, 4001)
    alarms = ndtr(-cuts)
    misses = (1.0 - rate) * ndtr(cuts) + rate * ndtr(cuts - 1.0 / sigma)
    event = ev.Poisson(rate, ev.Gaussian(sigma))
    found = trade_off(event)
    assert (found(alarms) <= misses + 1e-15).all()
    assert (found(np.minimum(misses, 1.0)) <= alarms + 1e-15).all()  # the other direction, too
    # Where the unit's arrival is the worse direction, nothing is lost.
    steep = np.diff(misses) >= -np.diff(alarms)
    assert (misses[1:] - found(alarms[1:]))[steep].max() < 3e-5
    # And knowing the direction, nothing is lost anywhere.
    known = attained_trade_off(event)(alarms)
    assert np.abs(known - misses).max() < 3e-5
    assert (known >= found(alarms) - 3e-5).all()


def test_composed_responses_against_enumeration() -> None:
    # Three binary responses of epsilon 1 under replace-one: 8 outcomes, all tests of them.
    truth, lie = math.e / (1.0 + math.e), 1.0 / (1.0 + math.e)
    ones = np.array([sum(bits) for bits in product((0, 1), repeat=3)])
    p, q = truth ** (3 - ones) * lie**ones, lie ** (3 - ones) * truth**ones
    order = np.argsort(ones)[::-1]  # say q on the outcomes with most ones
    alarms = np.concatenate(([0.0], np.cumsum(p[order])))
    misses = 1.0 - np.concatenate(([0.0], np.cumsum(q[order])))
    exact = np.interp(ALPHAS, alarms, misses)
    event = ev.Repeat(3, ev.RandomizedResponse(1.0, 2))
    found = trade_off(event, "replace-one")(ALPHAS)
    assert (found <= exact + 1e-14).all()
    assert (exact - found).max() < 1e-5


@for_each("event", EVENTS, ids=str)
@for_each("neighbours", NEIGHBOURS)
def test_a_trade_off_function_has_its_shape(event: ev.Event, neighbours: Neighbours) -> None:
    f = trade_off(event, neighbours)
    values = f(ALPHAS)
    assert ((values >= 0.0) & (values <= 1.0 - ALPHAS)).all()
    assert (np.diff(values) <= 1e-12).all()
    for apart in (1, 7, 40):  # convex
        middles = f(0.5 * (ALPHAS[apart:] + ALPHAS[:-apart]))
        assert (middles <= 0.5 * (values[apart:] + values[:-apart]) + 1e-9).all()
    inside = values > 1e-12  # below, e^-epsilon is rounded away
    assert (f(values[inside]) <= ALPHAS[inside] + 1e-9).all()
    assert values.tolist() == [f(float(alpha)) for alpha in ALPHAS]
    curve = f.curve(50)
    assert curve[0][0] == 0.0
    assert curve[-1] == (1.0, 0.0)
    assert [f(alpha) for alpha, _ in curve] == [beta for _, beta in curve]


@for_each("event", EVENTS[:5], ids=str)
def test_more_noise_allows_less(event: ev.Event) -> None:
    alphas = np.array([1e-3, 0.05, 0.3, 0.7])
    rows = [trade_off(scaled(event, factor))(alphas) for factor in (0.5, 0.9, 1.0, 1.1, 4.0)]
    assert (np.diff(rows, axis=0) > 0.0).all()


def test_replace_one_is_worse_than_a_unit_that_comes_or_goes() -> None:
    alphas = np.geomspace(1e-6, 0.9, 30)
    one, other = trade_off(SAMPLED, "add-remove"), trade_off(SAMPLED, "replace-one")
    assert (other(alphas) < one(alphas)).all()


def test_other_engines_answer_where_pld_does_not() -> None:
    f = trade_off(ev.ZCDP(0.5))  # such as Gaussian noise of multiplier 1, and no worse
    alphas = np.geomspace(1e-4, 0.9, 40)
    assert (f(alphas) <= trade_off(ev.Gaussian(1.0))(alphas)).all()
    assert f(0.01) > 0.2


def test_what_is_no_claim_is_refused() -> None:
    with pytest.raises(InvalidInput):
        trade_off("gaussian")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        trade_off(SAMPLED, "add")
    with pytest.raises(Unsupported):
        trade_off(ev.Shuffle(100, ev.Local(1.0)), "add-remove")
    with pytest.raises(Unsupported):
        trade_off(ev.Gaussian(1e-320))
    f = trade_off(SAMPLED)
    for alpha in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidInput):
            f(alpha)
        with pytest.raises(InvalidInput):
            f(np.array([0.5, alpha]))


def test_nothing_is_hidden_without_a_guarantee() -> None:
    f: TradeOff = trade_off(ev.NoGuarantee("shown"))
    assert f(ALPHAS).max() == 0.0


def test_scaled_reaches_every_noise() -> None:
    event = ev.Compose(
        [
            ev.Repeat(2, ev.Poisson(0.1, ev.Gaussian(1.0))),
            ev.Group(3, ev.Laplace(2.0)),
            ev.Pure(1.0),
            ev.ZCDP(4.0),
            ev.Approximate(0.5, 1e-6),
            ev.FixedSize(2, 10, ev.DiscreteGaussian(3.0, 5)),
        ]
    )
    assert scaled(event, 2.0) == ev.Compose(
        [
            ev.Repeat(2, ev.Poisson(0.1, ev.Gaussian(2.0))),
            ev.Group(3, ev.Laplace(4.0)),
            ev.Pure(0.5),
            ev.ZCDP(1.0),
            ev.Approximate(0.25, 1e-6),
            ev.FixedSize(2, 10, ev.DiscreteGaussian(6.0, 5)),
        ]
    )
    assert scaled(event, 1.0) == event


@for_each("event", [ev.NoGuarantee("shown"), ev.Compose([])])
def test_without_noise_there_is_no_family(event: ev.Event) -> None:
    with pytest.raises(Unsupported):
        scaled(event, 2.0)


@for_each("factor", [0.0, -1.0, math.inf, math.nan])
def test_a_factor_is_a_number_above_0(factor: float) -> None:
    with pytest.raises(InvalidInput):
        scaled(ev.Gaussian(1.0), factor)
