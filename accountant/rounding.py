"""Numbers as a person reads them, rounded so that what is printed is still true.

What a guarantee states is rounded up (epsilon, delta, and the noise that it needs); what bounds
the truth from below is rounded down.
"""

from __future__ import annotations

import math
from typing import Final

DIGITS: Final = 4
"""Significant digits in text for a person."""

EXACT_DIGITS: Final = 6
"""Significant digits of the single number that `--quiet` prints."""


def up(number: float, digits: int = DIGITS) -> str:
    """Return `number` rounded up to `digits` significant digits.

    >>> up(0.786012), up(1.99999), up(1011.03), up(3.2e-5), up(math.inf)
    ('0.7861', '2.000', '1,012', '3.200e-05', 'infinite')
    """
    return _shown(number, digits, "ROUND_CEILING")


def down(number: float, digits: int = DIGITS) -> str:
    """Return `number` rounded down to `digits` significant digits.

    >>> down(1.99999), down(1011.93), down(0.0)
    ('1.999', '1,011', '0')
    """
    return _shown(number, digits, "ROUND_FLOOR")


def plain(number: float) -> str:
    """Return `number` rounded up, in a form that programs read back: no separators, `inf`.

    >>> plain(20107.12), plain(math.inf)
    ('20107.2', 'inf')
    """
    if math.isinf(number):
        return "inf"
    return up(number, EXACT_DIGITS).replace(",", "")


def as_given(number: float) -> str:
    """Return exactly the number that a person gave, in its shortest form.

    >>> as_given(1e-05), as_given(2.0)
    ('1e-05', '2')
    """
    text = repr(number)
    return text.removesuffix(".0")


def rate_shown(rate: float) -> str:
    """Return a rate in so many digits that what is proven of it is proven of what is printed.

    Seven digits move epsilon by less than its own four leave open; one alone was chosen so.

    >>> rate_shown(256 / 60000), rate_shown(0.17), rate_shown(0.01)
    ('0.004266667', '0.1700000', '0.01')
    """
    short = f"{rate:.7g}"
    return short if float(f"{rate:.1g}") == rate else f"{rate:#.7g}"


def _shown(number: float, digits: int, rounding: str) -> str:
    from decimal import Context, Decimal

    if math.isinf(number):
        return "infinite"
    # The shortest decimal that reads back as `number`: rounding starts from what a person gave.
    exact = Decimal(repr(number))
    if exact == 0:
        return "0"
    places = exact.adjusted() - digits + 1
    plain = -4 <= exact.adjusted() < 9
    if plain:
        places = min(places, 0)
    # Towards the side that stays true: up for what is guaranteed, down for lower bounds.
    rounded = exact.quantize(Decimal((0, (1,), places)), context=Context(50, rounding))
    if plain:
        return f"{rounded:,f}"
    mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent):+03d}"
