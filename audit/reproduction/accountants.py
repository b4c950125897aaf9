"""What common accountants print for the settings of a run; none of it is a guarantee.

They are published Renyi accountants, and two of the privacy loss's distribution: dp_accounting's
PLD, and PRV.  Both of these come close to the exact value, so they are modelled around what the pld
engine certifies: dp_accounting's grid of 1e-4 lies a little above it, Opacus's prv accountant
prints the upper end of an interval whose error in epsilon is 0.01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from ...accountant.account import bounds_on_epsilon
from ...accountant.arrays import FloatArray
from ...accountant.composition import Composition
from ...accountant.engines.pld.ask.engine import PldEngine
from ...accountant.engines.pld.compose.directions import directions_of
from ...accountant.errors import PrivplanError
from ...accountant.guarantee import Bounds
from ...accountant.neighbours import as_neighbours
from ..description.run_description import Phase
from ..description.run_settings import RunSettings
from . import order_grids as grids
from .closed_forms import classical_value, gaussian_forms, improved_value, limit_values, pure_forms
from .renyi_values import dp_accounting_curve, exact_curve, opacus_curve, without_replacement_curve
from .reproduction import (
    FAMILIES,
    AccountantValue,
    Method,
    event_of,
    once_an_epoch,
    phases_of,
    scaled_noise,
)

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


PLD_NAME: Final = "a PLD accountant (such as dp_accounting's)"
PRV_NAME: Final = "Opacus's prv accountant (its upper estimate)"

_PLD_EXCESS: Final = 5e-4
"""How far dp_accounting's pessimistic grid lies above the exact value, relative."""

PRV_EXCESS: Final = 0.0103
_PRV_SPREAD: Final = 0.0004
"""Opacus asks for an error of 0.01 and prints the upper end: .0102 to .0104 above the exact value
on the settings of the tests; the grid's rounding moves it a little."""

_SLOW_ACCURACY: Final = 5e-4
_SLOW_TOLERANCE: Final = 2e-3
_MANY_STEPS: Final = 20_000
_RARE: Final = 2e-3
_VERY_RARE: Final = 3e-4
"""Where a unit is sampled more rarely, and for more steps, the engine's grids grow large."""

_MOST_PHASES: Final = 24
"""Beyond this many different phases the certified value takes longer than a search may."""

_MOST_PRINTED_STEPS: Final = 10**9
"""Nobody prints the epsilon of more steps, and it takes many seconds."""


@lru_cache(maxsize=256)
def exact_bounds(
    phases: tuple[Phase, ...], family: str, delta: float, relation: str, *, quick: bool = False
) -> Bounds | None:
    """Return certified bounds on the exact epsilon, or None where no engine gives them.

    They are wider for phases that are `slow`, where a `quick` answer is asked for, or where a
    narrow one would take many seconds.
    """
    if len(phases) > _MOST_PHASES or sum(phase.steps for phase in phases) > _MOST_PRINTED_STEPS:
        return None
    event = event_of(phases, family)
    try:
        if (quick and slow(phases)) or _very_slow(phases):
            engine = PldEngine(_SLOW_ACCURACY, _SLOW_TOLERANCE)
            return engine.epsilon(Composition.of(event), delta, as_neighbours(relation)).bounds
        return bounds_on_epsilon(event, delta=delta, neighbours=relation)
    except PrivplanError:
        return None


def slow(phases: tuple[Phase, ...]) -> bool:
    """Return whether the pld engine takes about a second: rarely sampled, and for very long."""
    return any(phase.steps > _MANY_STEPS and phase.rate < _RARE for phase in phases)


def _very_slow(phases: tuple[Phase, ...]) -> bool:
    return any(phase.steps > _MANY_STEPS and phase.rate < _VERY_RARE for phase in phases)


@lru_cache(maxsize=1024)
def estimated_value(
    phases: tuple[Phase, ...], family: str, delta: float, relation: str
) -> float | None:
    """Return about the exact epsilon, mostly to 5 %, by the saddle point; or None."""
    if len(phases) > _MOST_PHASES:
        return None
    try:
        parts = Composition.of(event_of(phases, family))
        directions = directions_of(parts, as_neighbours(relation), delta)
        return max(each.estimate.epsilon(delta).epsilon for each in directions)
    except (PrivplanError, ArithmeticError, ValueError):
        return None


def loss_values(
    phases: tuple[Phase, ...], family: str, delta: float, relation: str, *, quick: bool = False
) -> tuple[AccountantValue, ...]:
    """Return what PLD and PRV accountants print; `relation` is add-remove or replace-one."""
    bounds = exact_bounds(phases, family, delta, relation, quick=quick)
    if bounds is None:
        return ()
    pld = printed_range(bounds.lower, bounds.upper, "pld")
    values = [AccountantValue(PLD_NAME, "pld", *pld)]
    if family == "gaussian" and relation == "add-remove":
        prv = printed_range(bounds.lower, bounds.upper, "prv")
        values.append(AccountantValue(PRV_NAME, "prv", *prv))
    return tuple(values)


def printed_range(lower: float, upper: float, method: Method) -> tuple[float, float]:
    """Return what a pld or prv accountant may print where the exact value is in [lower, upper]."""
    if method == "prv":
        return lower + PRV_EXCESS - _PRV_SPREAD, upper + PRV_EXCESS + _PRV_SPREAD
    return lower, upper * (1.0 + _PLD_EXCESS)


_ONE_PASS_METHODS: Final = ("shuffled",)


def quick_values(settings: RunSettings) -> tuple[AccountantValue, ...]:
    """Return what Renyi accountants and closed forms print for `settings`, the commonest first.

    Empty where noise, steps or (except for Laplace noise) delta are missing.  Under replace-one
    the noise is halved, as a careful person does; unsampled releases, and samples without
    replacement, are also accounted for as dp_accounting does it, with the whole noise.
    """
    phases, delta = phases_of(settings), settings.delta
    if not phases or settings.family not in FAMILIES:
        return ()
    values: list[AccountantValue] = []
    for variant, suffix in _variants(settings):
        values.extend(_named(_quick(phases_of(variant), settings.family, delta), suffix))
    sampled = all(phase.rate < 1.0 for phase in phases) and settings.family != "laplace"
    proper = delta is not None and 0.0 < delta < 1.0
    if settings.neighbours == "replace-one" and sampled and delta is not None and proper:
        values[0:0] = without_replacement_values(phases, delta)
    return tuple(values)


def exact_values(settings: RunSettings) -> tuple[AccountantValue, ...]:
    """Return what PLD and PRV accountants print for `settings`; slower than `quick_values`."""
    delta = settings.delta
    if settings.family not in FAMILIES or delta is None or not 0.0 < delta < 1.0:
        return ()
    relation = "replace-one" if settings.neighbours == "replace-one" else "add-remove"
    values: list[AccountantValue] = []
    for variant, suffix in _passes(settings):
        phases = phases_of(variant)
        if phases:
            values.extend(_named(loss_values(phases, settings.family, delta, relation), suffix))
    return tuple(values)


@lru_cache(maxsize=64)  # runs of one description often differ in what no accountant is told
def _quick(
    phases: tuple[Phase, ...], family: str, delta: float | None
) -> tuple[AccountantValue, ...]:
    proper = delta is not None and 0.0 < delta < 1.0
    values: list[AccountantValue] = []
    try:
        if delta is not None and proper:
            values.extend(renyi_values(phases, family, delta))
            if family != "laplace":
                values.extend(limit_values(phases, delta))
                values.extend(gaussian_forms(phases, delta))
        if family == "laplace":
            values.extend(pure_forms(phases, delta if proper else None))
    except (PrivplanError, OverflowError):
        pass  # what cannot be computed is not printed by anybody either
    return tuple(values)


def _variants(settings: RunSettings) -> Iterator[tuple[RunSettings, str]]:
    """Yield the settings as accountants are told them under their relation, with a suffix."""
    for variant, suffix in _passes(settings):
        if settings.neighbours != "replace-one":
            yield variant, suffix
            continue
        yield scaled_noise(variant, 0.5), f"{suffix}, with the noise halved for replace-one"
        if all(phase.rate >= 1.0 for phase in phases_of(variant)):
            yield variant, f"{suffix}, which does not halve the noise for replace-one"


def _passes(settings: RunSettings) -> Iterator[tuple[RunSettings, str]]:
    yield settings, ""
    if settings.method in _ONE_PASS_METHODS:
        unsampled = once_an_epoch(settings)
        if unsampled is not None:
            yield unsampled, ", with every record once an epoch"


def _named(values: tuple[AccountantValue, ...], suffix: str) -> Iterator[AccountantValue]:
    return (replace(value, accountant=value.accountant + suffix) for value in values)
