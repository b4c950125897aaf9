"""Paillier keys: what the server owns, and what everybody else is given.

    Enc(m) = (1 + n)^m rho^n = (1 + m n) rho^n  modulo n^2,     rho uniform in Z*_n

Who has p and q works modulo p^2 and q^2.  There the n-th residues are the elements of order
dividing p - 1, each the p-th power of one residue modulo p, so a uniform n-th residue is x^p modulo
p^2 and y^q modulo q^2 for uniform x and y (gcd(n, phi(n)) = 1).

Source: Paillier 1999, *Public-key cryptosystems based on composite degree residuosity classes*,
sections 4 and 7.  Keys come from the package phe.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from ....accountant import validate
from ....accountant.errors import InvalidInput, MissingExtra, ProtocolFault
from ....accountant.randomness import SecretHolder
from .arithmetic import gcd, invert, is_power, is_prime, mpz, powmod, primorial
from .processes import SERIAL, Workers

SIZES: Final = (2048, 3072, 4096)
"""Bits of n."""

DEFAULT_BITS: Final = 3072

_SMALL_FACTORS: Final = 1 << 16
"""No prime below this may divide n."""


class PublicKey:
    """The modulus n, checked: of an allowed size, odd, composite, no power, without small factors.

    `small` is for tests alone: any odd composite that is no power, of any size.  Whether n has
    exactly two prime factors cannot be seen from outside; who made it is trusted with that.
    Raises `ProtocolFault`.
    """

    __slots__ = ("bits", "length", "n", "small", "square")

    def __init__(self, n: int, *, small: bool = False) -> None:
        self.n = mpz(n)
        self.bits = int(n).bit_length()
        _check_modulus(self.n, self.bits, small)
        self.square = self.n * self.n
        self.small = small
        self.length = -(-int(self.square).bit_length() // 8)
        """Bytes of one ciphertext."""

    def encrypt(self, plaintext: int) -> int:
        """Return an encryption of `plaintext` mod n under fresh randomness."""
        root = uniform_unit(self.n)
        return (1 + plaintext % self.n * self.n) * powmod(root, self.n, self.square) % self.square

    def write(self, ciphertexts: Iterable[int]) -> list[bytes]:
        """Return each as `length` bytes, big-endian.  Raises `InvalidInput` outside [0, n^2)."""
        values = [int(value) for value in ciphertexts]
        if any(not 0 <= value < self.square for value in values):
            raise InvalidInput("A ciphertext lies outside [0, n^2).")
        return [value.to_bytes(self.length, "big") for value in values]

    def read(self, received: Iterable[bytes]) -> list[int]:
        """Return what was received, each a unit modulo n^2.

        Raises `ProtocolFault` for a wrong length, a value that is not below n^2, or one that has a
        factor in common with n.
        """
        values, product = [], mpz(1)
        for octets in received:
            if not isinstance(octets, bytes) or len(octets) != self.length:
                raise ProtocolFault(f"A ciphertext must be {self.length} bytes; one is not.")
            value = mpz(int.from_bytes(octets, "big"))
            if value >= self.square:
                raise ProtocolFault("A ciphertext is out of range.", "It is not below n^2.")
            values.append(value)
            product = product * value % self.n
        if gcd(product, self.n) != 1:
            raise ProtocolFault("A ciphertext is not a unit.", "It has a factor in common with n.")
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)

    def __repr__(self) -> str:
        return f"PublicKey({self.bits} bits)"


class PrivateKey(SecretHolder):
    """The factors of n.  It shows itself to nobody: not in a repr, not in a pickle."""

    __slots__ = ("_p", "_q", "public")

    def __init__(self, p: int, q: int, *, small: bool = False) -> None:
        self._p, self._q = mpz(p), mpz(q)
        distinct = p != q and is_prime(self._p) and is_prime(self._q)
        if not distinct or gcd(self._p * self._q, (self._p - 1) * (self._q - 1)) != 1:
            raise InvalidInput(
                "These are not the factors of a Paillier key.",
                "It needs two primes p and q with gcd(pq, (p-1)(q-1)) = 1.",
            )
        self.public = PublicKey(int(p) * int(q), small=small)

    @property
    def primes(self) -> tuple[int, int]:
        """p and q, for audits of what the owner of the key can see; never to be shown or kept."""
        return int(self._p), int(self._q)

    def encrypt_many(self, plaintexts: Sequence[int], workers: Workers = SERIAL) -> list[int]:
        """Return encryptions of plaintexts mod n, each under randomness of its own."""
        p, q = self.primes
        items = [
            (
                int(plaintext % self.public.n),
                1 + secrets.randbelow(p - 1),
                1 + secrets.randbelow(q - 1),
            )
            for plaintext in plaintexts
        ]
        return workers.spread(_encryptions, items, p, q)

    def decrypt_many(self, ciphertexts: Sequence[int], workers: Workers = SERIAL) -> list[int]:
        """Return the plaintexts, in [0, n), of units modulo n^2."""
        return workers.spread(_decryptions, list(ciphertexts), *self.primes)

    def powers(
        self, ciphertexts: Sequence[int], pieces: int, workers: Workers = SERIAL
    ) -> list[tuple[int, ...]]:
        """Return c, c^(2^h), c^(2^2h), ... for each ciphertext: `pieces` of them, 1 to 64.

        Everybody could compute them from c; they make `powers.rescale` faster.
        h = `piece_bits(bits, pieces)`.
        """
        if validate.count(pieces=pieces) > 64:
            raise InvalidInput("`pieces` must be at most 64.")
        p, q = self.primes
        return workers.spread(_repeated_squares, list(ciphertexts), pieces, p, q)

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.bits} bits)"


def generate(bits: int = DEFAULT_BITS, *, small: bool = False) -> PrivateKey:
    """Return a new key of 2048, 3072 or 4096 bits (any even number from 16 on if `small`).

    Primes from the operating system's generator, by phe.  Raises `MissingExtra` if there is none.
    """
    if validate.count(bits=bits) not in SIZES and not (small and bits >= 16 and bits % 2 == 0):
        raise InvalidInput(
            f"`bits` must be one of {', '.join(map(str, SIZES))}.", next_step="Use 3072."
        )
    try:
        from phe import paillier as phe
    except ImportError:
        raise MissingExtra(
            "Paillier keys need the package phe, which is not installed.",
            "It generates the primes.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None
    _, private = phe.generate_paillier_keypair(n_length=bits)
    return PrivateKey(private.p, private.q, small=small)


def piece_bits(bits: int, pieces: int) -> int:
    """Return h: how many bits of an exponent each of `pieces` powers takes."""
    return -(-bits // pieces)


def uniform_unit(n: int) -> int:
    """Return an element of Z*_n, exactly uniform, from the operating system's generator."""
    while True:
        candidate = mpz(secrets.randbelow(int(n)))
        if gcd(candidate, n) == 1:
            return candidate


def _check_modulus(n: int, bits: int, small: bool) -> None:
    refused = ""
    if not small and bits not in SIZES:
        refused = f"It must have one of {', '.join(map(str, SIZES))} bits."
    elif n < 15 or n % 2 == 0:
        refused = "It must be odd."
    elif not small and gcd(n, _product_of_small_primes()) != 1:
        refused = "It has a small factor."
    elif is_power(n):
        refused = "It is a power of a smaller number."
    elif is_prime(n):
        refused = "It is a prime number."
    if refused:
        raise ProtocolFault("This modulus is no Paillier key.", refused)


@lru_cache(1)
def _product_of_small_primes() -> int:
    return primorial(_SMALL_FACTORS)


def _encryptions(items: Sequence[tuple[int, int, int]], p: int, q: int) -> list[int]:
    p, q = mpz(p), mpz(q)
    n, p2, q2 = p * q, p * p, q * q
    lift = invert(q2, p2)
    ciphertexts = []
    for plaintext, x, y in items:
        shifted = 1 + n * plaintext
        at_p = shifted * powmod(x, p, p2) % p2
        at_q = shifted * powmod(y, q, q2) % q2
        ciphertexts.append(at_q + q2 * ((at_p - at_q) * lift % p2))
    return ciphertexts


def _decryptions(ciphertexts: Sequence[int], p: int, q: int) -> list[int]:
    p, q = mpz(p), mpz(q)
    p2, q2 = p * p, q * q
    # (1 + n)^(p - 1) = 1 - q p modulo p^2, so what multiplies p is divided by -q.
    scale_p, scale_q, lift = invert(-q, p), invert(-p, q), invert(q, p)
    plaintexts = []
    for ciphertext in ciphertexts:
        at_p = (powmod(ciphertext, p - 1, p2) - 1) // p * scale_p % p
        at_q = (powmod(ciphertext, q - 1, q2) - 1) // q * scale_q % q
        plaintexts.append(int(at_q + q * ((at_p - at_q) * lift % p)))
    return plaintexts


def _repeated_squares(
    ciphertexts: Sequence[int], pieces: int, p: int, q: int
) -> list[tuple[int, ...]]:
    p2, q2 = mpz(p) ** 2, mpz(q) ** 2
    exponent = mpz(1) << piece_bits((p * q).bit_length(), pieces)
    lift = invert(q2, p2)
    powers = []
    for ciphertext in ciphertexts:
        row, at_p, at_q = [mpz(ciphertext)], mpz(ciphertext) % p2, mpz(ciphertext) % q2
        for _ in range(pieces - 1):
            at_p, at_q = powmod(at_p, exponent, p2), powmod(at_q, exponent, q2)
            row.append(at_q + q2 * ((at_p - at_q) * lift % p2))
        powers.append(tuple(row))
    return powers
