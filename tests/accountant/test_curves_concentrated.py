"""`zcdp` and `noise_for_rho`: the least rho against searches, the noise by exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported

from ..cases import for_each
from .rdp_answers import ADD, REPLACE


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(1, 10**6), st.sampled_from([ADD, REPLACE]))
def test_gaussian_noise_is_exact(noise: float, rounds: int, neighbours) -> None:
    rho = pp.zcdp(ev.Repeat(rounds, ev.Gaussian(noise)), neighbours=neighbours).rho
    c = 2 if neighbours == REPLACE else 1
    truth = rounds * c * c / (2 * Fraction(noise) ** 2)
    assert Fraction(rho.lower) <= truth <= Fraction(rho.upper)
    assert rho.upper <= math.nextafter(rho.lower, math.inf)


@for_each(
    "event",
    [
        ev.Laplace(0.5),
        ev.Repeat(10, ev.Laplace(3.0)),
        ev.Pure(2.0),
        ev.Poisson(0.2, ev.Pure(1.0)),
        ev.DiscreteLaplace(1.0, 4),
        ev.Compose([ev.Laplace(1.0), ev.Gaussian(2.0), ev.Pure(0.5)]),
    ],
)
def test_bounded_losses_equal_a_dense_search(event: ev.Event) -> None:
    orders = 1.0 + np.geomspace(1e-6, 1e5, 3000)
    curve = pp.rdp(event, orders)
    rho = pp.zcdp(event).rho
    assert (curve.lower <= rho.upper * orders).all()
    assert rho.upper <= 1.0001 * (curve.upper / orders).max()
    assert 0.9999 * rho.upper <= rho.lower <= rho.upper


def test_sampling_gains_nothing_at_infinity() -> None:
    """R(a)/a of a sampled Gaussian climbs to the rho of the noise alone, and stays below it."""
    event = ev.Poisson(0.01, ev.Gaussian(1.0))
    orders = np.array([2.0, 16.0, 256.0, 4096.0])
    ratios = pp.rdp(event, orders).upper / orders
    rho = pp.zcdp(event).rho
    assert (np.diff(ratios) > 0.0).all()
    assert ratios[-1] < rho.upper == 0.5
    assert ratios[-1] > 0.99 * rho.lower
    assert any("limit" in step.statement for step in pp.zcdp(event).derivation)
    assert pp.zcdp(ev.Poisson(0.0, ev.Gaussian(1.0))).rho.upper == 0.0


def test_replaced_units_in_a_sample() -> None:
    rho = pp.zcdp(ev.Poisson(0.3, ev.Gaussian(1.0)), neighbours=REPLACE).rho
    orders = np.array([1.5, 4.0, 64.0, 1024.0])
    curve = pp.rdp(ev.Poisson(0.3, ev.Gaussian(1.0)), orders, neighbours=REPLACE)
    assert (curve.lower / orders <= rho.upper).all()
    assert 0.5 <= rho.lower <= rho.upper == 2.0


def test_groups_and_batches() -> None:
    sampled = ev.Poisson(0.1, ev.Gaussian(5.0))
    record = pp.zcdp(sampled).rho.upper
    assert pp.zcdp(ev.Group(3, sampled)).rho.upper == pytest.approx(9 * record)
    orders = np.array([1.5, 4.0, 20.0])
    for neighbours in (ADD, REPLACE, "zero-out"):
        batch = ev.FixedSize(10, 100, ev.Gaussian(2.0))
        rho = pp.zcdp(batch, neighbours=neighbours).rho.upper
        assert rho == (0.125 if neighbours == "zero-out" else 0.5)
        assert (pp.rdp(batch, orders, neighbours=neighbours).lower <= rho * orders).all()


@for_each(
    "event",
    [
        ev.Approximate(1.0, 1e-6),
        ev.Renyi([2.0], [1.0]),
        ev.NoGuarantee("clear text"),
        ev.Compose([ev.Gaussian(1.0), ev.Renyi([2.0], [1.0])]),
    ],
)
def test_what_has_no_rho_says_so(event: ev.Event) -> None:
    answer = pp.zcdp(event)
    assert answer.rho.upper == math.inf
    assert "No finite rho" in answer.warnings[0]


def test_sums() -> None:
    assert pp.zcdp(ev.Compose([])).rho.upper == 0.0
    parts = [ev.Laplace(1.0), ev.Pure(2.0), ev.ZCDP(0.1)]
    whole = pp.zcdp(ev.Compose(parts)).rho
    assert whole.upper <= sum(pp.zcdp(part).rho.upper for part in parts) * (1 + 1e-9)
    assert whole.lower >= max(pp.zcdp(part).rho.lower for part in parts)


@settings(max_examples=80, deadline=None)
@given(st.floats(1e-30, 1e12), st.integers(1, 10**15), st.sampled_from([ADD, REPLACE, "zero-out"]))
def test_noise_for_rho_is_the_least_float(rho: float, rounds: int, neighbours) -> None:
    noise = pp.noise_for_rho(rho, rounds=rounds, neighbours=neighbours)
    c = 2 if neighbours == REPLACE else 1

    def spent(at: float) -> Fraction:
        return rounds * c * c / (2 * Fraction(at) ** 2)

    assert spent(noise) <= Fraction(rho) < spent(math.nextafter(noise, 0.0))
    assert pp.zcdp(ev.Repeat(rounds, ev.Gaussian(noise)), neighbours=neighbours).rho.upper <= rho


@for_each(
    ("given", "field"),
    [
        ({"rho": 0.0}, "rho"),
        ({"rho": math.inf}, "rho"),
        ({"rho": 1.0, "rounds": 0}, "rounds"),
        ({"rho": 1.0, "neighbours": "none"}, "neighbours"),
    ],
)
def test_values_are_checked(given, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        pp.noise_for_rho(**given)


def test_refusals() -> None:
    with pytest.raises(Unsupported):
        pp.zcdp(ev.Poisson(0.1, ev.ZCDP(1.0)))
    with pytest.raises(InvalidInput, match="`event`"):
        pp.zcdp("gaussian")  # type: ignore[arg-type]
