"""What accountants of the privacy loss's distribution print: dp_accounting's PLD, and PRV.

Both come close to the exact value, so they are modelled around what the pld engine certifies:
dp_accounting's grid of 1e-4 lies a little above it, Opacus's prv accountant prints the upper end
of an interval whose error in epsilon is 0.01.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ...accountant.account import bounds_on_epsilon
from ...accountant.composition import leaves
from ...accountant.engines.pld.directions import composition_directions
from ...accountant.engines.pld.engine import PldEngine
from ...accountant.errors import PrivplanError
from ...accountant.guarantee import Bounds
from ...accountant.neighbours import as_neighbours
from ..description.run_description import Phase
from .accounted_phases import event_of
from .reproduction import AccountantValue, Method

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
            return engine.epsilon(leaves(event), delta, as_neighbours(relation)).bounds
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
        parts = leaves(event_of(phases, family))
        directions = composition_directions(parts, as_neighbours(relation), delta)
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
