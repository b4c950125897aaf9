r"""Many powers of one base modulo n^2, from one table: combs with signed teeth.

An odd exponent between -2^L and 2^L is a sum of L signed bits, none of them 0:

    e = sum_{i < L} s_i 2^i,    s_i = 2 b_i - 1,    b the bits of (e + 2^L - 1) / 2.

With L = h v c the bits are read as h teeth, each of v groups of c columns.  Table j < v holds the
base to the power sum_i s_i 2^(c (i v + j)) for each of the 2^h choices of h signs, and

    base^e = prod over columns, from the last, of (square; times one entry of each of v tables).

That is h times fewer entries than e has bits, and v times fewer squarings than columns (Lim and Lee
1994).  Half of a table are the inverses of the other half, and `straus` needs inverses in any case.
An even exponent is raised by 1, and divided by the base again; an odd one is divided by 1, written
as long as any entry.  No entry but that is a zeroth power, so neither how many operations there are
nor how long their numbers are depends on the exponents.

Source: Lim and Lee 1994, *More flexible exponentiation with precomputation*, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ....accountant.errors import InvalidInput
from .arithmetic import f_divmod, invert, mpz
from .keys import PublicKey
from .processes import SERIAL, Workers
from .straus import ENTRY_COST, SQUARING_COST, TABLE_PAIR_COST, PowerTable, product, squared

_MAX_TEETH: Final = 12
_MAX_GROUPS: Final = 16
_MAX_COMB_ENTRIES: Final = 1 << 13
"""Entries of all tables of a comb, about 900 bytes each at 3072 bits."""


class Shape(NamedTuple):
    """h teeth of v groups of c columns; h v c bits or fewer make an exponent."""

    teeth: int
    groups: int
    columns: int

    @property
    def bits(self) -> int:
        """L: odd exponents between -2^L and 2^L have a sum of signed bits."""
        return self.teeth * self.groups * self.columns


def shape(bits: int, count: int) -> Shape:
    """Return the cheapest comb for `count` exponents of `bits` bits, by the costs of `straus`.

    >>> shape(3072, 56)
    Shape(teeth=9, groups=6, columns=57)
    >>> shape(3072, 1)
    Shape(teeth=6, groups=3, columns=171)
    """
    shapes = [
        Shape(teeth, groups, -(-bits // (teeth * groups)))
        for teeth in range(2, _MAX_TEETH + 1)
        for groups in range(1, _MAX_GROUPS + 1)
        if groups << teeth <= _MAX_COMB_ENTRIES
    ]

    def cost(comb: Shape) -> float:
        table = TABLE_PAIR_COST * comb.groups * 2.0 ** (comb.teeth - 1)
        entries = ENTRY_COST * comb.groups * comb.columns
        return SQUARING_COST * bits + table + count * (entries + SQUARING_COST * comb.columns)

    return min(shapes, key=cost)


def powers(
    key: PublicKey,
    base: int,
    exponents: Sequence[int],
    plaintexts: Sequence[int] | None = None,
    workers: Workers = SERIAL,
) -> list[int]:
    """Return base^e (1 + n m) modulo n^2 for each exponent e, -n < e < n, and its plaintext m.

    `base` is a unit modulo n^2, Enc(b); the results encrypt b e + m (m = 0 if left out).  They are
    **not re-randomised** and must not be sent as they are: see `blinding.blinded`.  Each process
    makes a table of its own.  Raises `InvalidInput`, which never shows an exponent.
    """
    added = [0] * len(exponents) if plaintexts is None else [int(value) for value in plaintexts]
    if len(added) != len(exponents):
        raise InvalidInput("There must be one plaintext for each exponent.")
    signed = [int(exponent) for exponent in exponents]
    if any(abs(exponent) >= key.n for exponent in signed):
        raise InvalidInput("An exponent lies outside -n .. n.")
    pairs = list(zip(signed, added, strict=True))
    return workers.spread(_powers, pairs, int(base), int(key.n))


def _powers(pairs: Sequence[tuple[int, int]], base: int, n: int) -> list[int]:
    comb = Comb(base, n, shape(n.bit_length(), len(pairs)))
    return [comb.power(exponent, plaintext) for exponent, plaintext in pairs]


class Comb:
    """The tables of one base, a unit modulo n^2, for odd exponents between -2^L and 2^L."""

    def __init__(self, base: int, n: int, comb: Shape) -> None:
        self._n, self._shape = mpz(n), comb
        # c = a (1 + k n): the carry goes straight to the power, and the tables are of a alone.
        high, low = f_divmod(mpz(base), self._n)
        inverse = invert(low, self._n)
        self._carry = high * inverse % self._n
        self._tables = _tables(low, comb, self._n)
        # Index 0 divides by a, index 1 by 1.
        self._parity = PowerTable([inverse, self._n + 1], [-(low * inverse // self._n), mpz(-1)])

    def power(self, exponent: int, plaintext: int = 0) -> int:
        """Return base^exponent (1 + n plaintext) modulo n^2."""
        rows, odd = self._rows(exponent | 1), exponent & 1
        carry = self._carry * exponent + self._parity.carries[odd] + plaintext
        raised = product(self._tables, rows, [0, *[1] * (len(rows) - 1)], self._n, carry)
        return raised * self._parity.remainders[odd] % (self._n * self._n)

    def _rows(self, odd: int) -> list[list[int]]:
        """Return the index of an entry of each table, for each column from the last."""
        teeth, groups, columns = self._shape
        whole = (odd + (1 << self._shape.bits) - 1) >> 1
        octets = np.frombuffer(whole.to_bytes(self._shape.bits // 8 + 1, "little"), np.uint8)
        bits = np.unpackbits(octets, bitorder="little")[: self._shape.bits].astype(np.int64)
        # Tooth i of table j and column c is bit c + columns (j + groups i).
        indices = (1 << np.arange(teeth)) @ bits.reshape(teeth, groups * columns)
        rows: list[list[int]] = indices.reshape(groups, columns).T[::-1].tolist()
        return rows


class _Element(NamedTuple):
    """remainder (1 + carry n) modulo n^2, and the inverse of the remainder modulo n."""

    remainder: int
    inverse: int
    carry: int


def _times(element: _Element, other: _Element, n: int) -> _Element:
    # r s = q n + r' = r' (1 + q / r' n): the quotient goes to the carry.
    quotient, remainder = f_divmod(element.remainder * other.remainder, n)
    inverse = element.inverse * other.inverse % n
    return _Element(remainder, inverse, (element.carry + other.carry + quotient * inverse) % n)


def _inverted(element: _Element, n: int) -> _Element:
    # With r r' = 1 + m n, the inverse of r (1 + k n) is r' (1 - (k + m) n).
    return _Element(
        element.inverse,
        element.remainder,
        -element.carry - element.remainder * element.inverse // n,
    )


def _tables(base: int, comb: Shape, n: int) -> list[PowerTable]:
    """Return the tables of a unit in [1, n)."""
    whole, powers_of_two = base, []
    for _ in range(comb.teeth * comb.groups):
        high, low = f_divmod(mpz(whole), n)
        inverse = invert(low, n)
        powers_of_two.append(_Element(low, inverse, high * inverse % n))
        whole = squared(whole, comb.columns, n)
    return [_table(powers_of_two[group :: comb.groups], n) for group in range(comb.groups)]


def _table(teeth: Sequence[_Element], n: int) -> PowerTable:
    """Return products of the teeth or their inverses; bit i of an index says which of tooth i."""
    *lower, last = teeth
    for tooth in lower:
        last = _times(last, _inverted(tooth, n), n)
    positive = [last]  # the last tooth itself: indices from 2^(h-1) on
    for tooth in lower:
        twice = _times(tooth, tooth, n)  # from the inverse to the tooth
        positive += [_times(entry, twice, n) for entry in positive]
    # An index with all bits turned over is the inverse.
    entries = [*(_inverted(entry, n) for entry in reversed(positive)), *positive]
    return PowerTable(
        [entry.remainder for entry in entries], [entry.carry % n for entry in entries]
    )
