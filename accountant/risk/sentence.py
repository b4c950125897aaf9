"""One sentence about the best attack, for people who know no epsilon; each number stays true."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

from .. import events as ev
from .. import validate
from ..composition import Composition
from ..engines.pld.pairs.registry import pairs
from ..errors import Unsupported
from ..guarantee import Neighbours
from .trade_off import TradeOff, gaussian_mu, trade_off

USUAL_FPR: Final = 0.01
"""The false positive rate that is spoken of where nobody names one."""

TPR_DIGITS: Final = 2
"""Significant digits of a TPR in a sentence, rounded up."""

FPR_DIGITS: Final = 4
"""Significant digits of an FPR in a sentence, rounded down: a smaller FPR finds no more."""

MAX_LEAVES: Final = 4
"""Most different releases whose curve takes a moment only."""

SLOW_RELEASES: Final = (ev.BestOf, ev.Shuffle, ev.SampledShuffle)
"""Releases whose curve takes longer."""


def attack_sentence(fpr: float, tpr: float, neighbours: Neighbours) -> str:
    """Return what an attacker at `fpr` reaches, whose TPR is at most `tpr`: both in (0, 1].

    Both shares are of one number of people, or cases: the FPR rounded down, the TPR up.

    >>> attack_sentence(0.01, 0.0699, "add-remove")
    'An attacker who accuses 1 in 100 innocents finds at most 7 in 100 members.'
    >>> attack_sentence(1.0 / 3.0, 0.51, "add-remove")
    'An attacker who accuses 3,333 in 10,000 innocents finds at most 5,100 in 10,000 members.'
    """
    validate.open_probability(fpr=fpr)
    false = Context(FPR_DIGITS, ROUND_FLOOR).create_decimal(Decimal(repr(fpr)))
    most = Context(TPR_DIGITS, ROUND_CEILING).create_decimal(Decimal(repr(min(tpr, 1.0))))
    places = max(2, _places(false), _places(most))
    accused, known, whole = (f"{int(n.scaleb(places)):,}" for n in (false, most, Decimal(1)))
    if neighbours == "replace-one":
        said = (
            f"says B in at most {known} of {whole} cases of B"
            if most < 1
            else "may say B in all cases of B"
        )
        return (
            f"Of a unit whose value is A or B: an attacker who says B in {accused} of {whole} "
            f"cases of A, {said}."
        )
    accusations = (
        f"finds at most {known} in {whole} members" if most < 1 else "may find all members"
    )
    return f"An attacker who accuses {accused} in {whole} innocents {accusations}."


def quick_tpr(event: ev.Event, neighbours: Neighbours, fpr: float = USUAL_FPR) -> float | None:
    """Return an upper end of the TPR at `fpr`; None where it would take more than a moment.

    That is where the pld engine has no curve, so that epsilons would be asked for one by one, in
    shuffled rounds, and in schedules of many different releases.
    """
    parts = Composition.of(event)
    if not parts:
        return fpr
    try:
        if gaussian_mu(parts, neighbours) is None:
            slow = any(isinstance(part.event, SLOW_RELEASES) for part in parts)
            if slow or len(parts) > MAX_LEAVES:
                return None
            for part in parts:
                pairs(part.event, neighbours)  # refuses what has no curve
        return tpr_at(trade_off(event, neighbours), fpr)
    except Unsupported:
        return None


def tpr_at(curve: TradeOff, fpr: float) -> float:
    """Return the TPR that a trade-off function allows at an FPR, rounded up."""
    return min(max(math.nextafter(1.0 - curve(fpr), 2.0), fpr), 1.0)


def _places(rate: Decimal) -> int:
    """Return the least power of ten that makes a share whole."""
    return -int(rate.normalize().as_tuple().exponent)
