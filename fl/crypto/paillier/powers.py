"""Rescaling: each user's ciphertext to the power of an exponent as long as the key.

A ciphertext c becomes c^e modulo n^2 for 0 <= e < n.  Where whoever sent c also sent the powers

    c, c^(2^h), c^(2^2h), ...,      h = ceil(bits / pieces)

(`PrivateKey.powers`: functions of c, so they say nothing more), the exponent falls into pieces of
h bits that share their squarings, and the work falls to less than half.  Who receives them does not
check that they are these powers, as it cannot check what c encrypts: the server is trusted to
follow the protocol.

The number of operations depends on the size of the key and the number of pieces alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ....accountant.errors import InvalidInput
from .arithmetic import f_divmod, invert, mpz
from .keys import PublicKey, piece_bits
from .processes import SERIAL, Workers
from .straus import ENTRY_COST, SQUARING_COST, TABLE_PAIR_COST, indices, product, table

Pieces: TypeAlias = int | tuple[int, ...]


def rescale(
    key: PublicKey,
    ciphertexts: Sequence[Pieces],
    exponents: Sequence[int],
    workers: Workers = SERIAL,
) -> list[int]:
    """Return c_u^(e_u) modulo n^2 for every user: encryptions of e_u m_u mod n.

    `ciphertexts` are units modulo n^2, or tuples of the same length with their powers; `exponents`
    lie in [0, n).  An exponent of 0 gives 1, which hides nothing and is quickly multiplied: leave
    out users without records.  Raises `InvalidInput` for other exponents and for lists that do not
    fit.
    """
    if len(ciphertexts) != len(exponents):
        raise InvalidInput("There must be one exponent for each ciphertext.")
    if any(not 0 <= value < key.n for value in exponents):
        raise InvalidInput("An exponent lies outside [0, n).")
    each = [value if isinstance(value, tuple) else (value,) for value in ciphertexts]
    if len({len(value) for value in each}) > 1 or any(not value for value in each):
        raise InvalidInput("All ciphertexts must come with the same number of powers.")
    return workers.spread(_powers, list(zip(each, exponents, strict=True)), int(key.n))


def _powers(pairs: Sequence[tuple[tuple[int, ...], int]], n: int) -> list[int]:
    modulus = mpz(n)
    return [power(pieces, exponent, modulus) for pieces, exponent in pairs]


def power(pieces: tuple[int, ...], exponent: int, n: int) -> int:
    """Return the product of the pieces to the powers of the exponent's digits to the base 2^h."""
    length = piece_bits(int(n).bit_length(), len(pieces))
    window = _window(length, len(pieces))
    count = -(-(length + 1) // window)  # one bit more, for the sign
    exponent, tables, columns, carry = mpz(exponent), [], [], mpz(0)
    mask = (1 << length) - 1
    for index, piece in enumerate(pieces):
        digits = (exponent >> (length * index)) & mask
        # c = a (1 + k n): the carry goes straight to the power, and the table is one of a alone.
        high, low = f_divmod(mpz(piece), n)
        carry += high * invert(low, n) % n * digits
        tables.append(table(low, window, n))
        columns.append(indices(digits, window, count))
    gaps = [0, *[window] * (count - 1)]
    return product(tables, list(zip(*columns, strict=True)), gaps, n, carry)


def _window(length: int, pieces: int) -> int:
    def cost(window: int) -> float:
        rows = -(-(length + 1) // window)
        return (
            pieces * (TABLE_PAIR_COST * 2.0 ** (window - 1) + ENTRY_COST * rows)
            + SQUARING_COST * window * rows
        )

    return min(range(2, 9), key=cost)
