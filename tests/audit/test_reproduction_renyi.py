"""Renyi values are those of the libraries that they stand for, to the last digits."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.audit.reproduction import order_grids as grids
from privplan.audit.reproduction.closed_forms import classical_value, improved_value
from privplan.audit.reproduction.renyi_values import (
    dp_accounting_curve,
    exact_curve,
    opacus_curve,
    without_replacement_curve,
)

from ..cases import for_each

oracle = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")

SETTINGS = [(1.0, 0.01), (0.6, 0.001), (5.0, 0.1), (2.0, 0.001), (30.0, 0.01)]


def test_the_grid_of_dp_accounting_is_its_default() -> None:
    assert grids.DP_ACCOUNTING.orders.tolist() == sorted(set(oracle.DEFAULT_RDP_ORDERS))


@for_each("grid", grids.GRIDS, ids=lambda grid: grid.source[:20])
def test_every_order_of_a_grid_is_above_1_and_has_its_position(grid: grids.OrderGrid) -> None:
    assert grid.orders.min() > 1.0
    assert (grids.ALL_ORDERS[grids.positions(grid)] == grid.orders).all()


@for_each(("noise", "rate"), SETTINGS)
def test_sampled_gaussian_series_are_those_of_dp_accounting(noise: float, rate: float) -> None:
    grid = grids.DP_ACCOUNTING
    theirs = oracle._compute_rdp_poisson_subsampled_gaussian(rate, noise, grid.orders)
    ours = dp_accounting_curve(noise, rate)[grids.positions(grid)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_orders_that_dp_accounting_gives_up_are_given_up() -> None:
    # With hardly any noise the series of small orders falls too slowly.
    orders = np.array([1.1, 1.5, 2.5])
    theirs = oracle._compute_rdp_poisson_subsampled_gaussian(1e-5, 0.2, orders)
    ours = dp_accounting_curve(0.2, 1e-5)[np.searchsorted(grids.ALL_ORDERS, orders)]
    np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@for_each(("noise", "rate"), SETTINGS)
def test_samples_without_replacement_are_those_of_dp_accounting(noise: float, rate: float) -> None:
    grid = grids.DP_ACCOUNTING
    theirs = oracle._compute_rdp_sample_wor_gaussian(rate, noise, grid.orders)
    ours = without_replacement_curve(noise, rate)[grids.positions(grid)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_laplace_noise_is_that_of_dp_accounting() -> None:
    orders = grids.OPACUS.orders
    theirs = [oracle._laplace_rdp(1.0 / 2.5, order) for order in orders]
    np.testing.assert_allclose(opacus_curve("laplace", 2.5, 1.0), theirs, rtol=1e-9)


def test_the_improved_conversion_is_that_of_dp_accounting() -> None:
    orders = grids.ALL_ORDERS
    divergences = 500 * exact_curve("gaussian", 1.2, 0.02)
    theirs, _ = oracle.compute_epsilon(orders, divergences, 1e-6)
    assert improved_value(orders, divergences, 1e-6) == pytest.approx(theirs, rel=1e-12)
    assert improved_value(orders, divergences, 1e-6) < classical_value(orders, divergences, 1e-6)


def test_conversions_take_many_curves_at_once() -> None:
    orders = grids.OPACUS.orders
    curve = opacus_curve("gaussian", 1.0, 0.01)
    steps = np.array([10.0, 100.0, 1000.0])
    together = improved_value(orders, steps[:, None] * curve, 1e-5)
    alone = [float(improved_value(orders, count * curve, 1e-5)) for count in steps]
    assert together.tolist() == alone
