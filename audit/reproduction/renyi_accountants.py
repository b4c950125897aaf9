"""What published Renyi accountants print for a run's phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from ..description.run_description import Phase
from . import order_grids as grids
from .closed_forms import classical_value, improved_value
from .renyi_values import dp_accounting_curve, exact_curve, opacus_curve, without_replacement_curve
from .reproduction import AccountantValue, Method

Conversion = Callable[[FloatArray, FloatArray, float], FloatArray]

OPACUS_NAME: Final = "Opacus's RDP accountant"
EARLIER_NAME: Final = "the RDP accountant of earlier versions of Opacus and TF-Privacy"
DP_ACCOUNTING_NAME: Final = "dp_accounting's RDP accountant"
WITHOUT_REPLACEMENT_NAME: Final = (
    "dp_accounting's (and Flower's) RDP accountant for samples without replacement"
)
_TF_NAME: Final = "TF-Privacy's compute_dp_sgd_privacy"

_ACCOUNTANTS: Final[tuple[tuple[str, grids.OrderGrid, bool], ...]] = (
    (OPACUS_NAME, grids.OPACUS, True),
    (DP_ACCOUNTING_NAME, grids.DP_ACCOUNTING, True),
    (EARLIER_NAME, grids.OPACUS, False),
    (f"{_TF_NAME}, classical conversion", grids.TF_PRIVACY, False),
    (f"{_TF_NAME}, improved conversion", grids.TF_PRIVACY, True),
    ("an RDP accountant with orders up to 512", grids.TENTHS_AND_POWERS, True),
    (
        "an RDP accountant with orders up to 512, classical conversion",
        grids.TENTHS_AND_POWERS,
        False,
    ),
    ("an RDP accountant with orders 2 to 64", grids.INTEGERS_TO_64, True),
    ("an RDP accountant with orders 2 to 64, classical conversion", grids.INTEGERS_TO_64, False),
    ("an RDP accountant with orders 2 to 256", grids.INTEGERS_TO_256, True),
    ("an RDP accountant with orders 2 to 256, classical conversion", grids.INTEGERS_TO_256, False),
    ("the moments accountant of Abadi et al.", grids.MOMENTS, False),
)
"""Name, grid, and whether the conversion is the improved one; the most common first."""


def renyi_values(phases: tuple[Phase, ...], family: str, delta: float) -> Iterator[AccountantValue]:
    """Yield what each published accountant prints, as under add-remove, at `delta` in (0, 1)."""
    exact = _total(phases, lambda noise, rate: exact_curve(family, noise, rate))
    series = exact
    if family != "laplace":
        series = _total(phases, dp_accounting_curve)
    for name, grid, improved in _ACCOUNTANTS:
        curve = series if name == DP_ACCOUNTING_NAME else exact
        yield _value(name, grid, curve, delta, improved)


def without_replacement_values(
    phases: tuple[Phase, ...], delta: float
) -> Iterator[AccountantValue]:
    """Yield what accountants print for samples without replacement, all of whose rates are < 1.

    They say replace-one and do not halve the noise: these are no bounds under replace-one.
    """
    curve = _total(phases, without_replacement_curve)
    yield _value(WITHOUT_REPLACEMENT_NAME, grids.DP_ACCOUNTING, curve, delta, True)
    name = f"{WITHOUT_REPLACEMENT_NAME}, classical conversion"
    yield _value(name, grids.TF_PRIVACY, curve, delta, False)


def opacus_divergences(phases: tuple[Phase, ...], family: str) -> FloatArray:
    """Return the divergences of all phases together at Opacus's orders."""
    return _total(phases, lambda noise, rate: opacus_curve(family, noise, rate))


def opacus_value(divergences: FloatArray, delta: float, *, improved: bool = True) -> FloatArray:
    """Return what Opacus prints for divergences of shape (..., its orders)."""
    conversion: Conversion = improved_value if improved else classical_value
    return conversion(grids.OPACUS.orders, divergences, delta)


def _total(phases: tuple[Phase, ...], curve: Callable[[float, float], FloatArray]) -> FloatArray:
    return np.asarray(
        sum(phase.steps * curve(phase.noise_multiplier, phase.rate) for phase in phases)
    )


def _value(
    name: str, grid: grids.OrderGrid, curve: FloatArray, delta: float, improved: bool
) -> AccountantValue:
    conversion: Conversion = improved_value if improved else classical_value
    value = float(conversion(grid.orders, curve[grids.positions(grid)], delta))
    method: Method = "rdp" if improved else "rdp-classical"
    return AccountantValue(name, method, value, value)
