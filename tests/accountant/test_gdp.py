"""The closed form for Gaussian noise, against 60 digits of mpmath and a second library."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.engines.base import Engine
from privplan.accountant.engines.gdp import GdpEngine
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.guarantee import NEIGHBOURS

from ..cases import for_each

ENGINE: Engine = GdpEngine()
DELTAS = (1e-300, 1e-100, 1e-15, 1e-5, 1e-3, 0.3, 0.9)


def exact_delta(mu: float, epsilon: float) -> mp.mpf:
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def of_mu(mu: float) -> Composition:
    return Composition([Leaf(ev.Gaussian(1.0 / mu), 1)])


def test_published_epsilons() -> None:
    many = ENGINE.epsilon(
        Composition.of(ev.Repeat(100, ev.Gaussian(10.0))), 1e-5, "add-remove"
    ).bounds
    once = ENGINE.epsilon(Composition.of(ev.Gaussian(1.0)), 1e-5, "add-remove").bounds
    twice = ENGINE.epsilon(Composition.of(ev.Gaussian(1.0)), 1e-5, "replace-one").bounds
    assert many.upper == pytest.approx(4.377178, abs=1e-6)
    assert once.upper == pytest.approx(4.377178, abs=1e-6)
    assert twice.upper == pytest.approx(9.997256, abs=1e-6)


# Powers of two, so that the noise multiplier 1/mu is exact.
@for_each("mu", [2.0**-13, 2.0**-7, 0.125, 1.0, 4.0, 16.0, 64.0, 256.0])
def test_epsilon_and_delta_bracket_the_truth(mu: float) -> None:
    for delta in DELTAS:
        bounds = ENGINE.epsilon(of_mu(mu), delta, "add-remove").bounds
        assert exact_delta(mu, bounds.upper) <= delta
        assert bounds.lower == 0.0 or exact_delta(mu, bounds.lower) >= delta
        assert bounds.gap <= max(1e-11, 1e-13 / mu) * bounds.upper
    for epsilon in (0.0, 1e-9, 1e-3, 0.5, mu * mu / 2, mu * mu / 1.9, 1.0, 30.0, 1000.0, 5000.0):
        bounds = ENGINE.delta(of_mu(mu), epsilon, "add-remove").bounds
        truth = exact_delta(mu, epsilon)
        assert bounds.lower <= truth <= bounds.upper
        if truth > 1e-300:
            assert bounds.gap <= max(1e-11, 2e-13 / mu) * bounds.upper


@settings(max_examples=60, deadline=None)
@given(
    mu=st.floats(1e-6, 1e3).map(lambda v: math.ldexp(1.0, round(math.log2(v)))),
    epsilon=st.floats(0.0, 1e4),
)
def test_delta_brackets_the_truth_anywhere(mu: float, epsilon: float) -> None:
    bounds = ENGINE.delta(of_mu(mu), epsilon, "add-remove").bounds
    assert bounds.lower <= exact_delta(mu, epsilon) <= bounds.upper


def test_composition_adds_squares_and_forgets_order() -> None:
    mixed = ev.Compose([ev.Repeat(3, ev.Gaussian(2.0)), ev.Gaussian(0.5), ev.Gaussian(4.0)])
    mu = math.sqrt(3 / 4 + 4 + 1 / 16)
    result = ENGINE.epsilon(Composition.of(mixed), 1e-6, "zero-out").bounds
    turned = ENGINE.epsilon(Composition(reversed(Composition.of(mixed))), 1e-6, "zero-out").bounds
    assert float(exact_delta(mu, result.upper)) == pytest.approx(1e-6, rel=1e-9)
    assert turned.upper == pytest.approx(result.upper, rel=1e-12)


def test_epsilon_is_monotone() -> None:
    uppers = [
        ENGINE.epsilon(
            Composition.of(ev.Repeat(n, ev.Gaussian(s))), 1e-5, "add-remove"
        ).bounds.upper
        for n, s in ((1, 8.0), (2, 8.0), (2, 4.0), (9, 4.0), (9, 1.0))
    ]
    assert uppers == sorted(uppers)
    assert len(set(uppers)) == len(uppers)


@for_each("neighbours", NEIGHBOURS)
def test_replacing_counts_twice(neighbours: str) -> None:
    event = Composition.of(ev.Gaussian(2.0))
    result = ENGINE.delta(event, 1.0, neighbours).bounds  # type: ignore[arg-type]
    mu = 1.0 if neighbours == "replace-one" else 0.5
    assert result.lower <= exact_delta(mu, 1.0) <= result.upper


def test_the_ends_of_the_range() -> None:
    leaf = Composition.of(ev.Gaussian(1.0))
    assert ENGINE.epsilon(leaf, 0.0, "add-remove").bounds.lower == math.inf
    assert ENGINE.epsilon(leaf, 1.0, "add-remove").bounds == 0.0
    assert ENGINE.epsilon(leaf, 0.5, "add-remove").bounds == 0.0
    assert ENGINE.epsilon(Composition(), 0.0, "add-remove").bounds == 0.0
    assert ENGINE.delta(Composition(), 0.0, "add-remove").bounds == 0.0
    tiny = ENGINE.delta(leaf, 1e9, "add-remove").bounds
    assert tiny.lower == 0.0
    assert 0.0 < tiny.upper < 1e-300


def test_what_is_not_a_plain_gaussian_is_refused() -> None:
    for event in (ev.Laplace(1.0), ev.Poisson(0.5, ev.Gaussian(1.0)), ev.DiscreteGaussian(1.0, 1)):
        with pytest.raises(Unsupported, match=f"gdp engine has no mathematics for `{event.type}`"):
            ENGINE.epsilon(Composition.of(event), 1e-5, "add-remove")
    with pytest.raises(Unsupported, match="outside of the range"):
        ENGINE.epsilon(Composition([Leaf(ev.Gaussian(1e-320), 1)]), 1e-5, "add-remove")
    with pytest.raises(InvalidInput, match="`delta`"):
        ENGINE.epsilon(Composition.of(ev.Gaussian(1.0)), 1.5, "add-remove")
    with pytest.raises(InvalidInput, match="`epsilon`"):
        ENGINE.delta(Composition.of(ev.Gaussian(1.0)), -1.0, "add-remove")


def test_the_derivation_names_mu_and_its_source() -> None:
    steps = ENGINE.epsilon(
        Composition.of(ev.Repeat(4, ev.Gaussian(1.0))), 1e-5, "replace-one"
    ).steps
    assert [step.stage for step in steps] == ["mechanism", "conversion"]
    assert "mu = 4" in steps[0].statement
    assert all("arXiv" in step.source for step in steps)
