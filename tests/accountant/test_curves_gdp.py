"""`gdp`: the least mu against closed forms, and delta by delta."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.account import bounds_on_delta
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.risk.release_mu import mu_of_pure

from ..cases import for_each
from .rdp_answers import ADD, REPLACE


@for_each("neighbours", [ADD, REPLACE, "zero-out"])
def test_gaussian_noise_is_exact(neighbours: str) -> None:
    c = 2.0 if neighbours == REPLACE else 1.0
    event = ev.Compose([ev.Repeat(9, ev.Gaussian(2.0)), ev.Gaussian(0.5)])
    mu = pp.gdp(event, neighbours=neighbours).mu
    truth = c * math.sqrt(9 / 4 + 4)
    assert mu.lower <= truth <= mu.upper
    assert mu.gap <= 1e-14 * truth


@for_each("epsilon", [1e-9, 0.01, 0.999, 1.0, 4.0, 30.0])
def test_one_corner_decides_for_binary_response(epsilon: float) -> None:
    with mp.workdps(50):
        corner = 1 / (1 + mp.exp(mp.mpf(epsilon)))
        # At the corner the false negative rate of N(mu, 1) equals the false positive rate.
        truth = mp.findroot(
            lambda mu: mp.ncdf(-mu / 2) - corner, mp.mpf(mu_of_pure(epsilon)), tol=1e-60
        )
        mu = pp.gdp(ev.Pure(epsilon)).mu
        assert mu.lower <= truth <= mu.upper
        assert mu.upper <= truth * (1 + 1e-11)


def trade_off(mu: float, rates: np.ndarray) -> np.ndarray:
    return np.array([float(mp.ncdf(-mp.sqrt(2) * mp.erfinv(2 * r - 1) - mu)) for r in rates])


def test_the_curve_of_mu_lies_below_that_of_the_response() -> None:
    """And no smaller mu does: at every false positive rate, by the definition."""
    rates = np.linspace(0.001, 0.999, 500)
    for epsilon in (0.3, 1.0, 3.0):
        response = np.maximum.reduce(
            [1 - math.exp(epsilon) * rates, math.exp(-epsilon) * (1 - rates), 0 * rates]
        )
        mu = pp.gdp(ev.Pure(epsilon)).mu
        assert (trade_off(mu.upper, rates) <= response + 1e-12).all()
        corner = np.array([1 / (1 + math.exp(epsilon))])
        assert trade_off(0.999 * mu.lower, corner)[0] > corner[0]


@for_each(("rate", "share", "epsilon"), [(0.01, 0.5, 12.0), (0.5, 0.8, 8.0)])
def test_a_sample_needs_the_whole_mu(rate: float, share: float, epsilon: float) -> None:
    event = ev.Poisson(rate, ev.Gaussian(1.0))
    mu = pp.gdp(event).mu
    assert mu.lower == pytest.approx(1.0, rel=1e-14)
    assert mu.upper == pytest.approx(1.0, rel=1e-14)
    # Far out any smaller mu promises less than what is attained; the nearer, the farther out.
    attained = pp.account(event, epsilon=epsilon).delta.lower
    assert attained > pp.account(ev.Gaussian(1.0 / share), epsilon=epsilon).delta.upper
    assert attained < pp.account(ev.Gaussian(1.0), epsilon=epsilon).delta.upper


@for_each(
    ("event", "neighbours"),
    [
        (ev.Laplace(1.0), ADD),
        (ev.Repeat(5, ev.Laplace(2.0)), REPLACE),
        (ev.Compose([ev.Laplace(2.0), ev.Gaussian(3.0)]), ADD),
        (ev.Repeat(4, ev.Poisson(0.2, ev.Gaussian(1.5))), REPLACE),
        (ev.Group(2, ev.Poisson(0.2, ev.Gaussian(1.5))), ADD),
        (ev.Repeat(3, ev.FixedSize(10, 40, ev.Gaussian(1.5))), REPLACE),
        (ev.Compose([ev.RandomizedResponse(1.0, 2), ev.Gaussian(2.0)]), REPLACE),
    ],
)
def test_no_delta_exceeds_that_of_mu(event: ev.Event, neighbours: str) -> None:
    """Duality: mu-GDP is delta(eps) <= delta_mu(eps) at every epsilon."""
    mu = pp.gdp(event, neighbours=neighbours).mu
    assert 0.0 < mu.lower <= mu.upper
    for epsilon in (0.0, 0.5, 2.0):
        delta = bounds_on_delta(event, epsilon=epsilon, neighbours=neighbours)
        assert delta.lower <= bounds_on_delta(ev.Gaussian(1 / mu.upper), epsilon=epsilon).upper


def test_batches_of_a_fixed_size() -> None:
    """No delta that is attained needs more, and a unit that is set to zero moves one bound."""
    event = ev.FixedSize(10, 40, ev.Gaussian(1.5))
    uppers = {}
    for neighbours in (ADD, REPLACE, "zero-out"):
        mu = pp.gdp(event, neighbours=neighbours).mu
        uppers[neighbours] = mu.upper
        for epsilon in (0.0, 1.0, 3.0):
            delta = pp.account(event, epsilon=epsilon, neighbours=neighbours).delta.lower
            assert delta <= pp.account(ev.Gaussian(1 / mu.upper), epsilon=epsilon).delta.upper
    assert uppers["zero-out"] == pytest.approx(1 / 1.5)
    assert uppers[REPLACE] == uppers[ADD] == pytest.approx(2 / 1.5)
    with pytest.raises(Unsupported):
        pp.gdp(ev.FixedSize(40, 40, ev.Gaussian(1.5)))


def test_the_least_mu_of_laplace_noise_lies_between_its_ends() -> None:
    """Its trade-off function meets the diagonal at e^(-t/2)/2, where mu must be as large."""
    t = 1.0
    rate = mp.exp(-mp.mpf(t) / 2) / 2
    needed = float(2 * mp.sqrt(2) * mp.erfinv(1 - 2 * rate))
    mu = pp.gdp(ev.Laplace(1.0 / t)).mu
    assert mu.lower <= needed * (1 + 1e-9)
    assert needed <= mu.upper
    assert mu.lower >= 0.99 * needed


def mu_of_responses(epsilon: float, count: int) -> float:
    """Return the least mu of `count` binary responses: of all corners of their trade-off curve.

    The worst of all compositions of epsilon-DP releases (Kairouz, Oh and Viswanath 2015).
    """
    with mp.workdps(40):
        truth = 1 / (1 + mp.exp(-mp.mpf(epsilon)))

        def tail(least: int, rate: mp.mpf) -> mp.mpf:
            return mp.fsum(
                mp.binomial(count, k) * rate**k * (1 - rate) ** (count - k)
                for k in range(least, count + 1)
            )

        def quantile(rate: mp.mpf) -> mp.mpf:
            return mp.sqrt(2) * mp.erfinv(2 * rate - 1)

        rates = [(tail(k, truth), tail(k, 1 - truth)) for k in range(1, count + 1)]
        return float(max(quantile(found) - quantile(accused) for found, accused in rates))


@for_each(("epsilon", "count"), [(0.5, 3), (0.1, 2), (1.0, 12), (0.2, 30)])
def test_responses_have_the_mu_of_their_corners(epsilon: float, count: int) -> None:
    mu = pp.gdp(ev.Repeat(count, ev.Pure(epsilon))).mu
    truth = mu_of_responses(epsilon, count)
    assert mu.lower <= truth * (1 + 1e-12)
    assert truth <= mu.upper <= truth * (1 + 1e-3)
    # Both sums by the largest loss alone are larger.
    assert mu.upper <= min(math.sqrt(count) * mu_of_pure(epsilon), mu_of_pure(count * epsilon))


def test_nothing_has_mu_zero() -> None:
    assert pp.gdp(ev.Compose([])).mu.upper == 0.0


@for_each("neighbours", [ADD, REPLACE])
@for_each("noise", [0.3, 1.0, 5.0])
def test_laplace_noise_has_the_mu_of_its_trade_off_curve(noise: float, neighbours: str) -> None:
    """TPR e^t FPR up to FPR e^-t / 2, from there on 1 - e^-t / (4 FPR) as far as FPR 1/2."""
    t = (2.0 if neighbours == REPLACE else 1.0) / noise
    fprs = 0.5 * np.exp(-t + np.append(-np.arange(1, 200) / 8, t * np.arange(201) / 200))
    powers = np.where(
        fprs <= 0.5 * math.exp(-t), math.exp(t) * fprs, 1 - 0.25 * math.exp(-t) / fprs
    )
    truth = float((norm.ppf(powers) - norm.ppf(fprs)).max()) * (1 - 1e-13)
    mu = pp.gdp(ev.Laplace(noise), neighbours=neighbours).mu
    assert mu.lower <= truth * (1 + 1e-4)  # a grid of false positive rates
    assert truth <= mu.upper <= truth * (1 + 1e-3)


def test_each_release_counts_with_the_mu_of_its_trade_off_curve() -> None:
    both = pp.gdp(ev.Compose([ev.Gaussian(1.0), ev.Laplace(1.0)])).mu
    laplace = pp.gdp(ev.Laplace(1.0)).mu
    assert both.lower > 1.0
    assert both.upper == pytest.approx(math.hypot(1.0, laplace.upper), rel=1e-9)


def test_a_delta_leaves_no_mu() -> None:
    for event in (ev.Approximate(1.0, 1e-9), ev.NoGuarantee("clear text")):
        answer = pp.gdp(ev.Compose([event, ev.Gaussian(1.0)]))
        assert answer.mu.upper == math.inf
        assert answer.warnings
    assert pp.gdp(ev.Approximate(1.0, 0.0)).mu.upper < 1.3


@for_each("event", [ev.ZCDP(0.1), ev.DiscreteGaussian(1.0, 1), ev.Renyi([2.0], [1.0])])
def test_what_is_not_known_is_refused(event: ev.Event) -> None:
    with pytest.raises(Unsupported, match="No mu is known"):
        pp.gdp(event)


def test_the_event_is_checked() -> None:
    with pytest.raises(InvalidInput, match="`event`"):
        pp.gdp(1.0)  # type: ignore[arg-type]
