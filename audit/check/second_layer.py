"""Is the claim the number of these settings?  What reproduces it, here or next to here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import PrivplanError
from ..description.printed_number import PrintedNumber
from ..reproduction.accounted_phases import with_few_phases
from ..reproduction.reproduction import Reproduction
from ..reproduction.search import common_accountants, neighbourhood, same_settings
from .checked_run import CheckedRun
from .standing import Standing

BUDGETS_BELOW: Final = 1000.0
ROUND_STEPS: Final = (1.0, 2.0)
"""A round target is a multiple of 1, or of 1/2."""

ROUND_DIGITS: Final = 1
"""Below 1 a round target has that many digits that are not 0."""


@dataclass(frozen=True)
class Recomputation:
    """What reproduces a claim: with the `same` settings, or else with settings `near` them.

    `comparable` says whether any common accountant has an answer for these settings at all.
    """

    same: tuple[Reproduction, ...] = ()
    near: tuple[Reproduction, ...] = ()
    comparable: bool = False


def recompute(run: CheckedRun, stands: Standing) -> Recomputation:
    """Return what reproduces the claim of a run; nothing for claims of rho or mu.

    A round number that holds was chosen beforehand: what else gives it would be chance.
    """
    claim, settings = run.claim, with_few_phases(run.settings)
    if claim is None or run.currency != "epsilon" or run.event is not None or claim.value == 0.0:
        return Recomputation()
    same = _matches(lambda: same_settings(settings, claim))
    if same:
        return Recomputation(same, (), True)
    comparable = bool(_matches(lambda: common_accountants(settings)))
    if stands == "holds" and is_budget(claim):
        return Recomputation((), (), comparable)
    near = _matches(lambda: neighbourhood(settings, claim, accountant=run.accountant))
    return Recomputation((), near, comparable)


def _matches(search: Callable[[], tuple[Reproduction, ...]]) -> tuple[Reproduction, ...]:
    """Return what a search gives; nothing where it breaks down at numbers beyond all use."""
    # No verdict rests on a recomputation, and what cannot be computed was printed by nobody.
    try:
        return search()
    except (PrivplanError, ArithmeticError, ValueError, IndexError):
        return ()


def is_budget(claim: PrintedNumber) -> bool:
    """Return whether a claim is a round target, chosen beforehand, and no computed number.

    >>> [is_budget(PrintedNumber(value)) for value in (8.0, 2.5, 0.3, 1.19)]
    [True, True, True, False]
    """
    value = claim.value
    if not 0.0 < value < BUDGETS_BELOW:
        return False
    if value < 1.0:
        digits = -math.floor(math.log10(value))
        return math.isclose(round(value, digits), value, rel_tol=1e-9)
    return any((value * step).is_integer() for step in ROUND_STEPS)
