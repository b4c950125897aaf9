"""When a value prints as a claim does, and how many numbers a search may accept.

**Described settings** are given the benefit of the doubt: a value matches when it rounds to the
claim, or is truncated to it (with three digits or more also rounded up to it), with a relative
tolerance for versions of libraries.

**Changed settings** are held to more, since a search over many of them matches anything in the
end: the value must round to the claim.  Let a wrong claim be log-uniform within a factor 5 of the
settings' value v.  A candidate that accepts [a, b] is met by chance with probability
log(b/a)/log(25), and the search stops admitting candidates once these add up to 4 %
(`ChanceBudget`).  A claim of three digits so admits 13 to 130 values, one of two digits 1 to 13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from ..description.printed_number import PrintedNumber
from .reproduction import AccountantValue

CHANCE: Final = 0.04
"""What the chances of a match with a number that has nothing to do with the settings add up to;
ranges that are paid for roughly leave a little to 5 %."""

CLAIM_FACTOR: Final = 5.0
"""Claims within this factor of the settings' value are what the chance is about."""

_MACHINE_DECIMALS: Final = 6
"""A number with so many decimals was copied from a program, not rounded by a person."""

_MACHINE_SAME: Final = 2e-3
_MACHINE_CHANGED: Final = 1e-4
"""How far, relatively, versions of a library differ from what is computed here."""

_SAME_SLACK: Final = 5e-4
_FEW_DIGITS: Final = 5e-3
"""Half a unit of the last digit, relative, above which a claim has two digits or fewer."""

_TARGETS_BELOW: Final = 1000.0
_HALVES_BELOW: Final = 10.0
_TARGET_BELOW: Final = 0.02
_TARGET_ABOVE: Final = 0.005
"""A whole number is a target: the noise was searched until epsilon came at most .01 below it."""


@dataclass(frozen=True)
class AcceptedRange:
    """The values that print as a claim: from `low` to `high`."""

    low: float
    high: float

    def meets(self, value: AccountantValue) -> bool:
        """Return whether some number that the accountant may print lies within."""
        return value.low <= self.high and value.high >= self.low

    @property
    def relative_width(self) -> float:
        """Return log(high / low), the accepted share of numbers of this size."""
        return math.log(self.high / self.low) if self.low > 0.0 else math.inf


def is_target(claimed: PrintedNumber) -> bool:
    """Return whether a claim is a round number, chosen beforehand: a budget, and no result.

    Below 1 it has one digit; above it is a multiple of 1/2, and from 10 on a whole number, with
    one decimal place at most.

    >>> [is_target(PrintedNumber(value)) for value in (8.0, 2.5, 0.3, 1.19, 26.5)]
    [True, True, True, False, False]
    """
    value, decimals = claimed.value, _decimals(claimed)
    if not 0.0 < value < _TARGETS_BELOW:
        return False
    if value < 1.0:
        digits = -math.floor(math.log10(value))
        return decimals <= digits and math.isclose(round(value, digits), value, rel_tol=1e-9)
    parts = 2.0 if value < _HALVES_BELOW else 1.0
    return decimals <= 1 and (parts * value).is_integer()


def accepted_same(claimed: PrintedNumber) -> AcceptedRange:
    """Return the values of the described settings themselves that count as the claim."""
    value, decimals = claimed.value, _decimals(claimed)
    if decimals >= _MACHINE_DECIMALS:
        return AcceptedRange(value * (1.0 - _MACHINE_SAME), value * (1.0 + _MACHINE_SAME))
    slack = _SAME_SLACK * value
    if is_target(claimed) and claimed.half_unit == 0.0:
        return AcceptedRange(value * (1.0 - _TARGET_BELOW) - 0.01, value + _TARGET_ABOVE + slack)
    half = _half_unit(claimed, decimals)
    # Who rounds up is careful; with two digits that would let a tenth of all numbers pass.
    below = 2.0 * half if half < _FEW_DIGITS * value else half
    return AcceptedRange(value - below - slack, value + 2.0 * half + slack)


def accepted_changed(claimed: PrintedNumber) -> AcceptedRange:
    """Return the values of changed settings that count as the claim."""
    value, decimals = claimed.value, _decimals(claimed)
    if decimals >= _MACHINE_DECIMALS:
        return AcceptedRange(value * (1.0 - _MACHINE_CHANGED), value * (1.0 + _MACHINE_CHANGED))
    if decimals == 0:
        return AcceptedRange(value - _TARGET_BELOW, value + _TARGET_ABOVE)
    half = max(_half_unit(claimed, decimals), _MACHINE_CHANGED * value)
    return AcceptedRange(value - half, value + half)


def _decimals(claimed: PrintedNumber) -> int:
    """Return the decimals that the claim is printed with, or that a float is written with."""
    if claimed.half_unit > 0.0:
        return round(-math.log10(2.0 * claimed.half_unit))
    if claimed.value.is_integer():
        return 0
    text = repr(claimed.value)
    return len(text.partition(".")[2]) if "e" not in text else _MACHINE_DECIMALS


def _half_unit(claimed: PrintedNumber, decimals: int) -> float:
    return claimed.half_unit or 0.5 * 10.0**-decimals


@dataclass
class ChanceBudget:
    """What a search may still accept around `centre`, the described settings' value."""

    centre: float
    accepted: AcceptedRange
    left: float = CHANCE
    _ranges: list[tuple[float, float]] = field(default_factory=list)

    def admits(self, low: float, high: float) -> bool:
        """Return whether values in [low, high] may be asked, and pay for the chance they bring.

        Values outside of the window cost nothing; neither do those that were admitted before.
        """
        bottom, top = self.centre / CLAIM_FACTOR, self.centre * CLAIM_FACTOR
        half = 0.5 * self.accepted.relative_width
        if low <= 0.0 or not math.isfinite(half):
            return False
        start = max(math.log(low) - half, math.log(bottom))
        end = min(math.log(high) + half, math.log(top))
        cost = self._not_covered(start, end) / math.log(CLAIM_FACTOR**2)
        if cost > self.left:
            return False
        self.left -= cost
        self._ranges.append((start, end))
        return True

    def room(self, share: float) -> float:
        """Return the logarithmic length that `share` of all the chance, or what is left, buys."""
        return min(self.left, share * CHANCE) * math.log(CLAIM_FACTOR**2)

    def _not_covered(self, start: float, end: float) -> float:
        """Return the length of [start, end] outside of what was admitted."""
        length, at = 0.0, start
        for low, high in sorted(self._ranges):
            if high <= at or low >= end:
                continue
            length += max(0.0, low - at)
            at = max(at, high)
        return length + max(0.0, end - at)
