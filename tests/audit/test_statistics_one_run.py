"""Bounds from one run: published numbers, exact tails of correct mechanisms, a linear programme.

Nothing here is simulated: the probability of a false violation is computed.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit, ndtr
from scipy.stats import binom

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.statistics import (
    TradeOff,
    mahloujifar,
    mahloujifar_rejects,
    scaled,
    steinke,
    steinke_p_value,
    trade_off,
)

from ..cases import for_each
from ..sweeps import sweep

DELTA = 1e-5


def gaussian_trade_off(mu: float) -> TradeOff:
    """Return the trade-off function of N(0, 1) against N(mu, 1)."""
    return trade_off(ev.Gaussian(1.0 / mu))


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    ends = ndtr([mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu])
    return float(ends[0] - np.exp(epsilon) * ends[1])


def least_rejected(rejects: NDArray[np.bool_]) -> int:
    """Return the least number of correct guesses that rejects; all above it must, too."""
    least = int(np.argmax(rejects)) if rejects.any() else rejects.size
    assert rejects[least:].all()
    return least


# --- published numbers ----------------------------------------------------------------------------


@for_each(
    ("canaries", "guesses", "correct", "delta", "epsilon"),
    [
        (1000, 100, 90, 1e-5, 1.62614),
        (1000, 100, 90, 0.0, 1.63083),
        (10_000, 1000, 903, 1e-5, 2.04641),
    ],
)
def test_published_steinke(
    canaries: int, guesses: int, correct: int, delta: float, epsilon: float
) -> None:
    assert steinke(canaries, guesses, correct, delta=delta) == pytest.approx(epsilon, abs=2e-5)


def test_published_mahloujifar() -> None:
    found = mahloujifar(10_000, 2500, 2136, ev.Gaussian(1.0), "add-remove", 1e-5)
    assert found.epsilon == pytest.approx(2.47345, rel=2e-4)  # to the precision of the factor
    assert found.epsilon <= 2.47345 + 1e-5


# --- Steinke, Nasr, Jagielski ---------------------------------------------------------------------


@for_each("epsilon", [0.0, 0.5, 2.0])
@for_each("delta", [0.0, 1e-3, 0.02])
@for_each(("canaries", "guesses"), [(20, 20), (300, 30), (300, 300)])
@for_each("alpha", [0.3, 0.05])
def test_correct_mechanisms_are_above_their_epsilon_no_more_often_than_alpha(
    epsilon: float, delta: float, canaries: int, guesses: int, alpha: float
) -> None:
    right = np.arange(guesses + 1)
    bounds = [
        steinke_p_value(canaries, guesses, int(v), epsilon=epsilon, delta=delta) for v in right
    ]
    least = least_rejected(np.array(bounds) <= alpha)
    q = float(expit(epsilon))
    # Each coin told by a randomized response; with probability delta laid open, each for itself.
    alone = binom.sf(least - 1, guesses, delta + (1.0 - delta) * q)
    # All of them laid open together, with probability delta.
    together = delta * (least <= guesses) + (1.0 - delta) * binom.sf(least - 1, guesses, q)
    assert max(alone, together) <= alpha
    if delta == 0.0 and least > 0:  # and then nothing is lost
        assert binom.sf(least - 2, guesses, q) > alpha


def test_the_p_value_is_the_formula() -> None:
    m, r, v, epsilon, delta = 50, 12, 9, 0.8, 1e-3
    q = float(expit(epsilon))
    worst = max(sum(binom.pmf(k, r, q) for k in range(v - i, v)) / i for i in range(1, v + 1))
    expected = binom.sf(v - 1, r, q) + 2 * m * delta * worst
    found = steinke_p_value(m, r, v, epsilon=epsilon, delta=delta)
    assert found >= expected
    assert found == pytest.approx(expected, rel=1e-8)


@given(
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(0, 400),
    st.floats(0.0, 0.01),
    st.floats(1e-6, 0.5),
)
def test_steinke_grows_with_what_was_right(
    m: int, r: int, v: int, delta: float, alpha: float
) -> None:
    r = min(r, m)
    v = min(v, r)
    here = steinke(m, r, v, delta=delta, alpha=alpha)
    assert here >= 0.0
    assert steinke(m, r, max(v - 1, 0), delta=delta, alpha=alpha) <= here * (1.0 + 1e-5)
    assert steinke(m, r, v, delta=2.0 * delta, alpha=alpha) <= here * (1.0 + 1e-5)
    assert steinke(2 * m, r, v, delta=delta, alpha=alpha) <= here * (1.0 + 1e-5)
    assert steinke(m, r, v, delta=delta, alpha=alpha / 3.0) <= here * (1.0 + 1e-5)
    if here > 0.0:
        assert steinke_p_value(m, r, v, epsilon=here, delta=delta) <= alpha


@for_each(("r", "v"), [(1, 1), (100, 0), (100, 50), (100, 100), (100_000, 100_000)])
def test_ends_of_the_range(r: int, v: int) -> None:
    found = steinke(100_000, r, v, delta=1e-6)
    assert 0.0 <= found < 15.0
    if v <= r / 2:
        assert found == 0.0


# --- Mahloujifar, Melis, Chaudhuri ----------------------------------------------------------------


def most_likely(m: int, r: int, v: int, shape: TradeOff) -> float:
    """Return the most that P[at least v of r correct] can be, by a linear programme over p_0..p_r.

    The constraints are those of the derivation, with f replaced by many of its tangents from below:
    H_{i-1} >= f(1 - R_i) for every i.
    """
    alphas = np.linspace(0.0, 1.0, 2001)
    values = shape(alphas)
    slopes = np.diff(values) / np.diff(alphas)
    count = np.arange(r + 1)
    rows, limits = [], []
    for i in range(1, r + 1):
        correct = np.where(count >= i, count, 0.0) / m
        wrong = np.where(count >= i - 1, r - count, 0.0) / m
        # A chord through two points of f lies below f outside of them, and next to it inside.
        for slope, value, alpha in zip(slopes, values[:-1], alphas[:-1], strict=True):
            rows.append(-wrong - slope * correct)
            limits.append(-(value + slope * (1.0 - alpha)))
    answer = linprog(
        -(count >= v).astype(float),
        A_ub=np.array(rows),
        b_ub=np.array(limits),
        A_eq=np.ones((1, r + 1)),
        b_eq=[1.0],
        bounds=(0.0, 1.0),
    )
    assert answer.status == 0
    return float(-answer.fun)


@for_each(
    ("m", "r", "v", "mu"),
    sweep([(6, 6, 5, 0.5), (10, 4, 4, 1.0), (9, 9, 7, 1.5), (30, 8, 8, 2.0)], quick=2),
)
def test_the_recursion_solves_the_linear_programme(m: int, r: int, v: int, mu: float) -> None:
    shape = gaussian_trade_off(mu)
    most = most_likely(m, r, v, shape)
    assert 0.0 < most < 1.0
    assert not mahloujifar_rejects(m, r, v, shape, most * (1.0 - 1e-3))
    assert mahloujifar_rejects(m, r, v, shape, most * (1.0 + 1e-3))


RESPONSE = ev.RandomizedResponse(2.0, 2)


def open_share(mu: float, epsilon: float) -> float:
    """Return the share s for which "a response of `epsilon` to each coin, or nothing" is mu-GDP."""
    grid = np.linspace(0.0, epsilon - 1e-9, 4001)
    q = float(expit(epsilon))
    response = q - np.exp(grid) * (1.0 - q)
    return float(min(gdp_delta(mu, x) / y for x, y in zip(grid, response, strict=True)))


@for_each(("m", "r"), [(2000, 2000), (2000, 500)])
@for_each("alpha", [0.1, 0.05])
def test_a_mechanism_whose_canaries_hang_together(m: int, r: int, alpha: float) -> None:
    # With probability .16 a response to every coin, else nothing: 1-GDP for each unit, and the
    # mechanism on which bounds that assume independent canaries are wrong too often.
    share = open_share(1.0, 2.0)
    assert share == pytest.approx(0.162, abs=2e-3)
    right = np.arange(r // 2, r + 1, max(r // 200, 1))
    shape = gaussian_trade_off(1.0)
    least = right[
        least_rejected(np.array([mahloujifar_rejects(m, r, int(v), shape, alpha) for v in right]))
    ]
    least -= max(r // 200, 1) - 1  # at the least, between the numbers that were tried
    wrong = share * binom.sf(least - 1, r, expit(2.0)) + (1.0 - share) * binom.sf(least - 1, r, 0.5)
    assert wrong <= alpha
    independent = binom.ppf(1.0 - alpha, r, 0.6915)  # what independent 1-GDP canaries would give
    naive = share * binom.sf(independent, r, expit(2.0))
    assert naive > alpha  # the control


@for_each("epsilon", [0.3, 1.0, 3.0])
@for_each("alpha", [0.3, 0.05])
def test_responses_against_their_own_trade_off_function(epsilon: float, alpha: float) -> None:
    m = 60
    shape = trade_off(ev.Pure(epsilon))
    least = least_rejected(
        np.array([mahloujifar_rejects(m, m, v, shape, alpha) for v in range(m + 1)])
    )
    assert binom.sf(least - 1, m, expit(epsilon)) <= alpha
    possible = binom.sf(m - 1, m, expit(epsilon)) < alpha / 2.0
    assert least <= m or not possible  # it does reject something, where anything may


@settings(max_examples=40)
@given(st.integers(1, 120), st.integers(1, 120), st.integers(0, 120), st.floats(1e-4, 0.4))
def test_mahloujifar_grows_with_what_was_right(m: int, r: int, v: int, alpha: float) -> None:
    r = min(r, m)
    v = min(v, r)
    shape = gaussian_trade_off(0.7)
    here = mahloujifar_rejects(m, r, v, shape, alpha)
    assert here >= mahloujifar_rejects(m, r, max(v - 1, 0), shape, alpha)
    assert here >= mahloujifar_rejects(m, r, v, shape, alpha / 2.0)
    assert here >= mahloujifar_rejects(m, r, v, gaussian_trade_off(1.0), alpha)


def test_a_claim_that_fewer_right_guesses_would_keep_is_not_rejected() -> None:
    found = mahloujifar(10_000, 2500, 2136, ev.Gaussian(1.0), "add-remove", DELTA)
    assert not found.rejected
    assert found.counts is None


def test_a_sampled_family_is_searched_conservatively() -> None:
    event = ev.Repeat(20, ev.Poisson(0.2, ev.Gaussian(1.5)))
    found = mahloujifar(2000, 200, 165, event, "add-remove", DELTA)
    assert found.factor is not None
    assert mahloujifar_rejects(2000, 200, 165, trade_off(scaled(event, found.factor)))
    assert not mahloujifar_rejects(2000, 200, 165, trade_off(scaled(event, found.factor * 0.99)))
    assert found.epsilon == account(scaled(event, found.factor), delta=DELTA).epsilon.lower
    assert mahloujifar(2000, 200, 200, event, "add-remove", DELTA).rejected
    nothing = mahloujifar(2000, 200, 100, event, "add-remove", DELTA)
    assert (nothing.factor, nothing.epsilon, nothing.rejected) == (None, 0.0, False)


@for_each(("m", "r", "v"), [(0, 0, 0), (10, 11, 1), (10, 5, 6), (10, 5, -1), (10, 0, 0)])
def test_numbers_that_do_not_add_up_are_refused(m: int, r: int, v: int) -> None:
    with pytest.raises(InvalidInput):
        steinke(m, r, v, delta=DELTA)
    with pytest.raises(InvalidInput):
        mahloujifar(m, r, v, ev.Gaussian(1.0), "add-remove", DELTA)


def test_more_is_refused() -> None:
    with pytest.raises(InvalidInput):
        steinke(10, 5, 5, delta=-0.1)
    with pytest.raises(Unsupported):
        mahloujifar(10, 5, 5, ev.NoGuarantee("shown"), "add-remove", DELTA)
