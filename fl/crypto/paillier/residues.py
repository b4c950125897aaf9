r"""A silo's own randomness: n-th residues modulo n^2, as if drawn uniformly.

The server owns p and q, so of any ciphertext it sees m and, with it, the n-th residue.  A product
of powers of the server's ciphertexts has a residue that is a function of raw digits; multiplied by
a fresh uniform residue it is uniform, and says nothing.

**Few**: rho^n with rho exactly uniform in Z*_n.  As gcd(n, phi(n)) = 1, the result is exactly
uniform in the group G of n-th residues, of order phi(n).

**Many**: bases g_1 .. g_m, each made so once; then h = prod_i g_i^(e_i) with e_i uniform below
N = 2^t, fresh each time.  For every n = pq (p, q distinct odd primes) and in the mean over the
bases, *who knows the bases* sees h at a statistical distance from uniform of at most

    1/2 (3 2^-m + 8 (1/3 + 1/N)^m + sqrt(sum_{4 <= d < N} d^2 f_d^m + phi(n) N^-m)),
    f_d = 1/d + d / (4 N^2).

Proof.  For a character chi of G let phi_chi = E_e chi(h) = prod_i F(chi(g_i)), F(w) = (1/N)
sum_{e < N} w^e.  P(h = x) - 1/|G| is 1/|G| times the sum over chi != 1 of phi_chi conj chi(x), so
the distance is at most half of the sum of |phi_chi| over some characters, plus half of the root of
the sum of |phi_chi|^2 over the others (Cauchy-Schwarz); the mean over bases goes inside the root
(Jensen).  If chi has order d, chi(g_i) is a uniform d-th root of unity, independent over i, so the
mean of |phi_chi|^2 is P(e = e' mod d)^m: at most f_d^m, and N^-m for d >= N, where only e = e' is
left.  G is a product of two cyclic groups, so at most d^2 characters have order d (3 have order 2,
8 order 3), and there are phi(n) in all.  Those of order 2 and 3 are taken by the first way: F is 1
at w = 1; F(-1) = 0 as N is even, and |F| <= 1 / (N sin(pi/3)) < 1.16 / N at third roots of unity.

So few bases with long exponents will not do: with m = 44 the bases are all squares modulo p, or
modulo q, with a probability of 2^-43, and then h is as well.  It takes m >= 131 for the first term
and m t >= bits(n) + 256 for the last; each draw is then within 2^-128 of uniform, and k draws
within k 2^-128 together, given the bases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ....accountant import validate
from ....accountant.randomness import SecretHolder
from .arithmetic import mpz
from .keys import PublicKey, uniform_unit
from .packing import Packing
from .powers import power
from .processes import SERIAL, Workers
from .products import products

_MIN_BASES: Final = 131
_EXPONENT_SURPLUS_BITS: Final = 256
"""Bits of exponents beyond those of n."""

_MIN_DRAWS_PER_BASE: Final = 1.25
"""A table is made from this many draws for each of its bases on."""


class Shape(NamedTuple):
    """`bases` bases m, and exponents of `bits` bits t, a multiple of 8."""

    bases: int
    bits: int


def shape(key_bits: int) -> Shape:
    """Return how many bases and how long exponents a key takes for 2^-128.

    >>> shape(3072)
    Shape(bases=139, bits=24)
    """
    wanted = key_bits + _EXPONENT_SURPLUS_BITS
    bits = max(1, wanted // (8 * _MIN_BASES)) * 8
    return Shape(max(_MIN_BASES, -(-wanted // bits)), bits)


class Residues(SecretHolder):
    """One silo's source of fresh n-th residues; `expected` says how many a whole run will take.

    With many, the bases of the table are made at the first draw (`prepare` makes them earlier) and
    kept.  No base and no exponent is shown or pickled.
    """

    __slots__ = ("_bases", "_key", "_random", "shape")

    def __init__(
        self, key: PublicKey, *, expected: int, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        """Take the key; `random` gives the bytes of exponents, and another one is for tests."""
        table_shape = shape(key.bits)
        many = validate.count_from(0, expected=expected) >= _MIN_DRAWS_PER_BASE * table_shape.bases
        self.shape = table_shape if many else None
        """The table's shape, or None where every residue is made by itself."""
        self._key, self._random = key, random
        self._bases: list[int] = []

    def prepare(self, workers: Workers = SERIAL) -> None:
        """Make the bases, unless they are there or there is no table."""
        if self.shape is not None and not self._bases:
            self._bases = _fresh(self._key, self.shape.bases, workers)

    def draw(self, count: int, workers: Workers = SERIAL) -> list[int]:
        """Return `count` fresh residues."""
        if self.shape is None or not validate.count_from(0, count=count):
            return _fresh(self._key, count, workers)
        self.prepare(workers)
        bits = self.shape.bits
        drawn = self._random(count * self.shape.bases * bits // 8)
        octets = np.frombuffer(drawn, np.uint8).reshape(self.shape.bases, count, bits // 8)
        exponents = octets.astype(np.int64) @ (1 << np.arange(0, bits, 8))
        exponents -= 1 << (bits - 1)  # signed: h moves by a constant of G, still uniform
        packing = Packing(slots=1, width=bits, bound=(1 << (bits - 1)) - 1)
        return products(
            self._key, self._bases, exponents, packing, digit_bits=bits, workers=workers
        )

    def __repr__(self) -> str:
        return f"Residues({'table' if self.shape else 'one by one'})"


def _fresh(key: PublicKey, count: int, workers: Workers) -> list[int]:
    """Return rho^n for `count` uniform rho, drawn here."""
    roots = [int(uniform_unit(key.n)) for _ in range(count)]
    return workers.spread(_residues, roots, int(key.n))


def _residues(roots: Sequence[int], n: int) -> list[int]:
    modulus = mpz(n)
    return [power((root,), modulus, modulus) for root in roots]
