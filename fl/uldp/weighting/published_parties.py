"""The server and a silo of the private weighting protocol as it was published: no guarantee.

What they do, and what is wrong with it, stands in `published.py`.
"""

from __future__ import annotations

import hashlib
import math
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

from ....accountant.arrays import FloatArray
from ....accountant.errors import MissingExtra, ProtocolFault
from ...parties.network import SERVER, Post
from .published_messages import (
    KEY_BYTES,
    HiddenSeed,
    Histogram,
    Inverses,
    PublicModulus,
    PublicPoints,
    Updates,
    wide,
)

SEED_BITS: Final = 32
"""Bits of every seed, as published."""

SETUP_ROUND: Final = 0


@dataclass(frozen=True)
class Public:
    """What everybody knows: C, P, how many silos there are, and how short the seeds are."""

    multiple: int
    step: float
    silos: int
    seed_bits: int


@dataclass
class Server:
    """The server: it holds the Paillier key, and what arrives."""

    post: Post
    silos: Sequence[str]
    key_bits: int
    users: int
    inverses: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._public, self._private = _phe().generate_paillier_keypair(n_length=self.key_bits)
        self.modulus = int(self._public.n)
        self.primes = int(self._private.p), int(self._private.q)

    def announce(self) -> None:
        """Setup (a): send the Paillier modulus."""
        for name in self.silos:
            self.post.send(name, PublicModulus(wide(self.modulus, self.modulus)))

    def relay_points(self) -> None:
        """Setup (b): pass every silo's public key on to all silos."""
        points = self.post.gather(PublicPoints, self.silos)
        for name in self.silos:
            every = tuple(_checked(points[silo].points, 1, KEY_BYTES)[0] for silo in self.silos)
            self.post.send(name, PublicPoints(every))

    def relay_seeds(self) -> None:
        """Setup (c): pass R xor SK_0s on to silo s; the server sees all of them."""
        hidden = self.post.receive(HiddenSeed, self.silos[0]).hidden
        _checked(hidden, len(self.silos) - 1, KEY_BYTES)
        for name, seed in zip(self.silos[1:], hidden, strict=True):
            self.post.send(name, HiddenSeed((seed,)))

    def invert(self) -> None:
        """Setup (f): add up B_u = r_u N_u, of which it sees nothing but the sum, and invert."""
        sent = [self.post.receive(Histogram, name).blinded for name in self.silos]
        rows = [_numbers(_checked(column, self.users)) for column in sent]
        self.inverses = [pow(sum(column), -1, self.modulus) for column in zip(*rows, strict=True)]

    def invite(self, joining: Sequence[bool]) -> None:
        """Round (a): send Enc(1 / B_u) to all silos, or Enc(0) for users who do not join."""
        square = self.modulus**2
        sent = tuple(
            wide(int(self._public.raw_encrypt(inverse if joins else 0)), square)
            for inverse, joins in zip(self.inverses, joining, strict=True)
        )
        for name in self.silos:
            self.post.send(name, Inverses(sent))

    def total(self) -> list[int]:
        """Round (c): multiply the silos' ciphertexts, decrypt, and return signed integers V."""
        sent = [self.post.receive(Updates, name).ciphertexts for name in self.silos]
        rows = [_numbers(_checked(update, len(sent[0]))) for update in sent]
        # A product of ciphertexts encrypts the sum; the pairwise masks cancel in it.
        products = [math.prod(column) % self.modulus**2 for column in zip(*rows, strict=True)]
        values = [int(self._private.raw_decrypt(product)) for product in products]
        return [v - self.modulus if v > self.modulus // 2 else v for v in values]


class Silo:
    """One silo: it holds its own counts, its keys, and what is public."""

    def __init__(self, number: int, post: Post, counts: Sequence[int], public: Public) -> None:
        self.number, self.post, self.counts, self.public = number, post, counts, public
        self.modulus = 0
        self.shared: dict[int, bytes] = {}
        self.seed = 0

    def introduce(self) -> None:
        """Setup (a): receive the modulus, send a public key."""
        self.modulus = int.from_bytes(self.post.receive(PublicModulus, SERVER).modulus, "big")
        self._private, public = _new_pair()
        self.post.send(SERVER, PublicPoints((public,)))

    def agree(self) -> None:
        """Setup (b): agree on SK_ij with every other silo."""
        points = self.post.receive(PublicPoints, SERVER).points
        _checked(points, self.public.silos, KEY_BYTES)
        for other, point in enumerate(points):
            if other != self.number:
                self.shared[other] = _exchange(self._private, point)

    def share_seed(self) -> None:
        """Setup (c), silo 0 alone: draw R and send it to every silo, hidden by SK_0s."""
        self.seed = secrets.randbits(self.public.seed_bits)
        self.post.send(
            SERVER,
            HiddenSeed(tuple(hide_seed(self.seed, key) for _, key in sorted(self.shared.items()))),
        )

    def send_histogram(self) -> None:
        """Setup (d), (e): send r_u n_su plus the pairwise masks, modulo n."""
        if self.number:
            (hidden,) = _checked(self.post.receive(HiddenSeed, SERVER).hidden, 1, KEY_BYTES)
            self.seed = int.from_bytes(
                hide_seed(int.from_bytes(hidden, "big"), self.shared[0]), "big"
            )
        self.factors = blinding_factors(self.seed, len(self.counts), self.modulus)
        masks = self._masks(SETUP_ROUND, len(self.counts))
        self.post.send(
            SERVER,
            Histogram(
                tuple(
                    wide((factor * count + mask) % self.modulus, self.modulus)
                    for factor, count, mask in zip(self.factors, self.counts, masks, strict=True)
                )
            ),
        )

    def answer(self, number: int, deltas: FloatArray, noise: FloatArray) -> None:
        """Round (b), (c): send D ciphertexts, of updates (users, D) and noise (D,)."""
        from ...crypto.paillier.arithmetic import powmod  # gmpy2: ten times as fast as Python

        n, square, multiple = self.modulus, self.modulus**2, self.public.multiple
        offered = self.post.receive(Inverses, SERVER).ciphertexts
        invited = _numbers(_checked(offered, len(self.counts)))
        sent: list[bytes] = []
        for parameter, mask in enumerate(self._masks(number, len(noise))):
            product = 1
            for user, ciphertext in enumerate(invited):
                weight = self.counts[user] * self.factors[user] * multiple
                exponent = self._encode(deltas[user, parameter]) * weight % n
                product = product * int(powmod(ciphertext, exponent, square)) % square
            # As published: the noise is a multiple of C, and the ciphertext has no randomness
            # of the silo's; both leak (see `published`).
            plain = self._encode(noise[parameter]) * multiple + mask
            sent.append(wide(product * (1 + n * (plain % n)) % square, square))
        self.post.send(SERVER, Updates(tuple(sent)))

    def _encode(self, value: float) -> int:
        return round(float(value) / self.public.step) % self.modulus

    def _masks(self, number: int, count: int) -> list[int]:
        total = [0] * count
        for other, key in self.shared.items():
            masks = pair_masks(key, number, count, self.modulus, self.public.seed_bits)
            sign = 1 if self.number < other else -1
            total = [value + sign * mask for value, mask in zip(total, masks, strict=True)]
        return total


# --- what seeds become, for parties and for who guesses them --------------------------------------


def hide_seed(seed: int, key: bytes) -> bytes:
    """Return a seed under a key of 32 bytes, as published: R xor SK.  Its own inverse."""
    return (seed ^ int.from_bytes(key, "big")).to_bytes(32, "big")


def blinding_factors(seed: int, users: int, modulus: int) -> list[int]:
    """Return r_u for each user, from the Mersenne Twister under the seed R."""
    # As published: 32 bits of seed, and a generator that is not cryptographic.
    generator = random.Random(seed)
    return [generator.randrange(1, modulus) for _ in range(users)]


def pair_masks(
    key: bytes, number: int, count: int, modulus: int, seed_bits: int = SEED_BITS
) -> list[int]:
    """Return a pair's additive masks of a round: `seed_bits` of a hash of their key, expanded."""
    digest = hashlib.sha256(key + number.to_bytes(8, "big")).digest()
    generator = random.Random(int.from_bytes(digest, "big") % 2**seed_bits)
    return [generator.randrange(modulus) for _ in range(count)]


# --- bytes, numbers and libraries -----------------------------------------------------------------


def _checked(parts: Sequence[bytes], count: int, size: int | None = None) -> Sequence[bytes]:
    """Return the parts of a message; `ProtocolFault` for other numbers of them, or lengths."""
    if len(parts) != count or any(len(part) != size for part in parts if size is not None):
        raise ProtocolFault(
            f"A message does not hold {count:,} parts, or not of the right length.",
            "What has another length was made for other terms.",
            "See that all parties agree on the terms, and begin a new session.",
        )
    return parts


def _numbers(parts: Sequence[bytes]) -> list[int]:
    return [int.from_bytes(part, "big") for part in parts]


def _new_pair() -> tuple[Any, bytes]:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate()
    return private, private.public_key().public_bytes_raw()


def _exchange(private: Any, point: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    shared: bytes = private.exchange(X25519PublicKey.from_public_bytes(point))
    return hashlib.sha256(shared).digest()


def _phe() -> ModuleType:
    try:
        from phe import paillier
    except ImportError:
        raise MissingExtra(
            "The published protocol needs the package phe, which is not installed.",
            "It encrypts with Paillier's system.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None
    module: ModuleType = paillier
    return module
