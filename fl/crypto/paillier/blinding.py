"""What hides a silo's ciphertexts from the server, which owns the key.

Each silo multiplies its ciphertexts by residues of its own (`residues`), which hides what the
server's randomness was raised to, and by masks that it shares with every other silo: of each pair
one multiplies by a uniform element of Z*_{n^2} and the other divides by it.  The masks hide the
plaintext and the residue of every ciphertext; in the product over all silos they cancel.

A mask comes from a keystream that both silos make from their common key.  Its bytes must be of that
pair, session, round and use alone: **never give the same keystream twice**.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....accountant import validate
from ....accountant.errors import InvalidInput, ProtocolFault
from .arithmetic import gcd, invert, mpz
from .keys import PublicKey
from .residues import Residues

__all__ = ["Residues", "aggregate", "blinded", "keystream_length", "units"]

_OVERSAMPLED_BYTES: Final = 16
"""Bytes of a mask beyond those of n^2, so that the remainder is uniform up to 2^-128."""


def keystream_length(key: PublicKey, count: int) -> int:
    """Return how many bytes `units` takes for `count` masks."""
    return (key.length + _OVERSAMPLED_BYTES) * validate.count_from(0, count=count)


def units(key: PublicKey, keystream: bytes, count: int) -> list[int]:
    """Return `count` elements of Z*_{n^2}, uniform up to 2^-128 each for uniform bytes.

    Both of a pair get the same from the same `keystream`, which has `keystream_length` bytes.  An
    element that is no unit (one in 2^1000, it gives away a factor) raises `ProtocolFault`.
    """
    if len(keystream) != keystream_length(key, count):
        raise InvalidInput("`keystream` must have `keystream_length(key, count)` bytes.")
    size, elements, product = key.length + _OVERSAMPLED_BYTES, [], mpz(1)
    for first in range(0, len(keystream), size):
        element = mpz(int.from_bytes(keystream[first : first + size], "big")) % key.square
        elements.append(element)
        product = product * element % key.n
    # One test of the product: it is a unit exactly if every factor is.
    if gcd(product, key.n) != 1:
        raise ProtocolFault("A mask is not a unit.", "The modulus is no product of two primes.")
    return elements


def blinded(
    key: PublicKey,
    ciphertexts: Sequence[int],
    residues: Sequence[int],
    multiply: Sequence[Sequence[int]] = (),
    divide: Sequence[Sequence[int]] = (),
) -> list[int]:
    """Return every ciphertext times its residue and masks, over the masks to divide by.

    `residues` are fresh, one for each ciphertext (`Residues.draw`); `multiply` and `divide` hold
    one list of masks for each other silo.  Only what comes out of here may be sent.  Raises
    `InvalidInput` where lengths differ.
    """
    if any(len(column) != len(ciphertexts) for column in (residues, *multiply, *divide)):
        raise InvalidInput("There must be one residue and one mask for each ciphertext.")
    products = []
    for index, (ciphertext, residue) in enumerate(zip(ciphertexts, residues, strict=True)):
        total = ciphertext * residue % key.square
        for masks in multiply:
            total = total * masks[index] % key.square
        divisor = mpz(1)
        for masks in divide:
            divisor = divisor * masks[index] % key.square
        products.append(total * invert(divisor, key.square) % key.square)
    return products


def aggregate(key: PublicKey, parts: Sequence[Sequence[int]]) -> list[int]:
    """Return the product over silos of each ciphertext: an encryption of the sum.

    Raises `ProtocolFault` unless all silos sent equally many.
    """
    if not parts or len({len(total) for total in parts}) != 1:
        raise ProtocolFault("The silos did not send equally many ciphertexts.")
    totals = [mpz(1)] * len(parts[0])
    for part in parts:
        totals = [total * other % key.square for total, other in zip(totals, part, strict=True)]
    return totals
