r"""Products of powers modulo n^2, with every operation as small as it can be.

Three facts make them fast.  Write an element of Z*_{n^2} as r (1 + k n), r its remainder modulo n.

1. (1 + k n)(1 + l n) = 1 + (k + l) n: in a product of such elements the carries k only add up, and
   are put back once, at the end.  What remains is a product of remainders, half as long as the
   modulus n^2.
2. A square in the form a + b n is two products and two divisions of half the length:

       a^2 = q n + a',    b' = q + 2 a b  mod n.

3. Several powers share their squarings (Straus 1964): the exponents are cut into windows of w bits,
   a product is squared w times from one row of windows to the next, and takes in one table entry
   for each base and row.

A table holds base^v for v = -2^(w-1) .. 2^(w-1).  Powers modulo n come one from the other by one
product each, r_v = r_1 r_{v-1} - q n, and so do their inverses; then

    k_v = k_{v-1} + k_1 + q / r_v,      k_{-v} = -k_v - (r_v r_{-v} - 1) / n      modulo n.

The zeroth power is kept as n + 1 with carry -1, an entry as long as all others: how many
operations there are does not depend on the exponents.  Nor does on how many limbs, if a product
does not start from 1, which stays 1, and is quickly squared, for as long as it takes in zeroth
powers alone: `long_start`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import getitem
from typing import Final, NamedTuple

from .arithmetic import f_divmod, fma, invert, mpz, square

SQUARING_COST: Final = 5.7
ENTRY_COST: Final = 6.1
TABLE_PAIR_COST: Final = 14.0
"""Microseconds at 3072 bits, to choose windows by: one squaring, one entry taken in, and two
entries of a table made.  Only their ratios matter, and these are much alike for all sizes."""

_MAX_SPLIT_ENTRIES: Final = 5
"""Rows with fewer entries are multiplied in the form a + b n."""


def long_start(n: int) -> int:
    """Return a unit to start a product from: (n - 1) / 2.

    It and its squares, powers of 1/2, are as long as n.
    """
    return n >> 1


class PowerTable(NamedTuple):
    """Powers of one base: entry i is base^(i - 2^(w-1)) = remainders[i] (1 + carries[i] n)."""

    remainders: list[int]
    carries: list[int]


def table(base: int, window: int, n: int) -> PowerTable:
    """Return the powers of a unit modulo n^2 for signed windows of `window` bits."""
    carry_part, first = f_divmod(mpz(base), n)
    inverse = inverse_first = invert(first, n)
    step = carry_part * inverse_first % n
    remainder, carry = first, step
    upper, upper_carries = [n + 1, first], [n - 1, step]
    lower, lower_carries = [inverse], [-step - first * inverse // n]
    for _ in repeat(None, (1 << (window - 1)) - 1):
        quotient, remainder = f_divmod(remainder * first, n)
        inverse = inverse * inverse_first % n
        carry = (carry + step + quotient * inverse) % n
        upper.append(remainder)
        upper_carries.append(carry)
        lower.append(inverse)
        lower_carries.append(-carry - remainder * inverse // n)
    carries = [carried % n for carried in reversed(lower_carries)] + upper_carries
    return PowerTable([*reversed(lower), *upper], carries)


def product(
    tables: Sequence[PowerTable],
    rows: Sequence[Sequence[int]],
    gaps: Sequence[int],
    n: int,
    plaintext: int = 0,
    start: int = 1,
) -> int:
    """Return the product over rows and bases of entries, times 1 + n `plaintext`, modulo n^2.

    `rows` go from the most significant to the least; each holds one index for each table, and
    `gaps[i]` says how often all that came before row i is squared first.  `start`, a unit in
    [1, n), comes before all of them, so the product has it as a factor, squared so often as well.
    """
    modulus = n * n
    remainders = [powers.remainders for powers in tables]
    carries = [powers.carries for powers in tables]
    low, high, carry = mpz(start), mpz(0), mpz(0)
    for gap, row in zip(gaps, rows, strict=True):
        low, high = _squared(low, high, gap, n)
        carry = (carry << gap) + sum(map(getitem, carries, row))
        if len(row) < _MAX_SPLIT_ENTRIES:
            for entry in map(getitem, remainders, row):
                quotient, rest = f_divmod(low * entry, n)
                high = fma(high, entry, quotient) % n
                low = rest
        else:
            whole = low + high * n
            for entry in map(getitem, remainders, row):
                whole = whole * entry % modulus
            high, low = f_divmod(whole, n)
    return (low + high * n) * (1 + (carry + plaintext) % n * n) % modulus


def squared(base: int, times: int, n: int) -> int:
    """Return base^(2^times) modulo n^2."""
    high, low = f_divmod(mpz(base), n)
    low, high = _squared(low, high, times, n)
    return low + high * n


def _squared(low: int, high: int, times: int, n: int) -> tuple[int, int]:
    for _ in repeat(None, times):
        quotient, rest = f_divmod(square(low), n)
        high = fma(low + low, high, quotient) % n
        low = rest
    return low, high


def offset(window: int, count: int) -> int:
    """Return what is added to an exponent so that its plain windows are indices of a table.

    A window of the sum is the signed window plus 2^(w-1), the place of the zeroth power.
    """
    return int(sum(1 << (window * index + window - 1) for index in range(count)))


def indices(exponent: int, window: int, count: int) -> list[int]:
    """Return the index of each signed window of an exponent, from the most significant.

    The exponent must have a value in -2^(w count - 1) .. 2^(w count - 1).
    """
    shifted = exponent + offset(window, count)
    mask = (1 << window) - 1
    top = shifted >> (window * (count - 1))
    return [
        int(top),
        *(int(shifted >> (window * index)) & mask for index in range(count - 2, -1, -1)),
    ]
