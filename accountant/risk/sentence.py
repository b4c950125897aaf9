"""One sentence about the best attack, for people who know no epsilon; each number stays true."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

from .. import events as ev
from .. import validate
from ..composition import leaves
from ..engines.pld.registry import pairs
from ..errors import Unsupported
from ..guarantee import Neighbours
from .trade_off import TradeOff, gaussian_mu, trade_off

USUAL_FPR: Final = 0.01
"""The false positive rate that is spoken of where nobody names one."""

TPR_DIGITS: Final = 2
"""Significant digits of a TPR in a sentence, rounded up."""

MAX_LEAVES: Final = 4
"""Most different releases whose curve takes a moment only."""

SLOW_RELEASES: Final = (ev.BestOf, ev.Shuffle, ev.SampledShuffle)
"""Releases whose curve takes longer."""


def attack_sentence(fpr: float, tpr: float, neighbours: Neighbours) -> str:
    """Return what an attacker at `fpr` reaches, whose TPR is at most `tpr`: both in (0, 1].

    >>> attack_sentence(0.01, 0.0699, "add-remove")
    'An attacker who accuses 1 in 100 innocents finds at most 7 in 100 members.'
    >>> attack_sentence(0.001, 0.0213, "add-remove")
    'An attacker who accuses 1 in 1,000 innocents finds at most 22 in 1,000 members.'
    """
    validate.open_probability(fpr=fpr)
    most = Decimal(repr(min(tpr, 1.0)))
    most = Context(TPR_DIGITS, ROUND_CEILING).create_decimal(most)
    if neighbours == "replace-one":
        success = "always" if most >= 1 else f"in at most {_share(most)} cases"
        return (
            f"An attacker who takes one value of a unit for the other in {_share(_exact(fpr))} "
            f"cases recognises the other {success}."
        )
    success = "may find all members" if most >= 1 else f"finds at most {_share(most)} members"
    return f"An attacker who accuses {_share(_exact(fpr))} innocents {success}."


def quick_tpr(event: ev.Event, neighbours: Neighbours, fpr: float = USUAL_FPR) -> float | None:
    """Return an upper end of the TPR at `fpr`; None where it would take more than a moment.

    That is where the pld engine has no curve, so that epsilons would be asked for one by one, in
    shuffled crowds, and in schedules of many different releases.
    """
    parts = leaves(event)
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


def _exact(rate: float) -> Decimal:
    return Decimal(repr(rate))


def _share(rate: Decimal) -> str:
    """Return a share of the smallest power of ten, 100 or more, that makes it whole."""
    places = max(2, -int(rate.normalize().as_tuple().exponent))
    return f"{int(rate.scaleb(places)):,} in {10**places:,}"
