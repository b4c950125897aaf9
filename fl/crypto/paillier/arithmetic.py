"""Big integers: GMP's, by gmpy2.

Ciphertexts, keys and what is computed from them are `gmpy2.mpz` while a program runs; for the type
checker they are integers, and everything here takes either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:

    def mpz(value: int) -> int: ...
    def f_divmod(value: int, divisor: int) -> tuple[int, int]: ...
    def fma(factor: int, other: int, term: int) -> int: ...
    def gcd(one: int, other: int) -> int: ...
    def invert(value: int, modulus: int) -> int: ...
    def is_power(value: int) -> bool: ...
    def is_prime(value: int) -> bool: ...
    def powmod(base: int, exponent: int, modulus: int) -> int: ...
    def primorial(limit: int) -> int: ...
    def square(value: int) -> int: ...
else:
    try:
        from gmpy2 import (
            f_divmod,
            fma,
            gcd,
            invert,
            is_power,
            is_prime,
            mpz,
            powmod,
            primorial,
            square,
        )
    except ImportError:
        from ....accountant.errors import MissingExtra

        raise MissingExtra(
            "Paillier encryption needs the package gmpy2, which is not installed.",
            "Its integers have thousands of bits.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None

__all__ = [
    "f_divmod",
    "fma",
    "gcd",
    "invert",
    "is_power",
    "is_prime",
    "mpz",
    "powmod",
    "primorial",
    "square",
]
