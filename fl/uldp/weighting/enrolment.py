"""How a silo enters a session: keys, the common seed, and its column of the blinded histogram."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from numpy.typing import ArrayLike

from ....accountant.arrays import IntArray
from ....accountant.errors import InvalidInput, ProtocolFault
from ....accountant.randomness import Secret, SecretHolder
from ...crypto.keys import Identity, KeyPair, fresh
from ...crypto.paillier.keys import PublicKey
from ...parties.network import SERVER, Post, silo_name
from .counts import checked_shares
from .histogram import blinded_column, blinding_factors, seed_check
from .introductions import (
    PairKeys,
    Roster,
    facts,
    introduce,
    lock_seed,
    pair_keys,
    unlock_seed,
)
from .messages import (
    SEED_BYTES,
    Histogram,
    LockedSeed,
    LockedSeeds,
    ServerKey,
    SiloKeys,
    limits,
    numbers,
)
from .terms import WeightingTerms

Draw: TypeAlias = Callable[[int], bytes]
"""Returns so many fresh secret bytes."""

SETUP: Final = 0
"""The round number of the setup."""


@dataclass(frozen=True)
class Membership(SecretHolder):
    """What a silo keeps from the setup; nothing of it leaves the silo.

    `exponents` are r_u c_su m modulo n: (users,); 0 where the silo has no records of a user.
    """

    number: int
    session: bytes
    terms: WeightingTerms
    public: PublicKey
    shares: IntArray
    exponents: tuple[int, ...]
    seed: Secret
    keys: Mapping[str, PairKeys]

    def __repr__(self) -> str:
        return f"Membership(number={self.number})"


def server_key(modulus: bytes, terms: WeightingTerms) -> PublicKey:
    """Return the server's public key; `ProtocolFault` unless it is one of the size agreed on.

    It is refused if it is even, a prime, a power or has a small factor.  That it is the product of
    two primes is taken from the server, whose key protects the silos' counts from each other.
    """
    n = int.from_bytes(modulus, "big")
    if len(modulus) != terms.modulus_bytes or n.bit_length() != terms.key_bits:
        raise ProtocolFault(
            f"The server did not send a key of {terms.key_bits} bits.",
            "A shorter key can be broken, and in another one the sums may not fit.",
            "See that all parties agree on the terms, and begin a new session.",
        )
    return PublicKey(n, small=terms.weak_key)


class Enrolment(SecretHolder):
    """One silo in the setup; its steps are called in their order, each once.

    `shares` are its own reduced counts (`reduced_counts`), `roster` names the identities of all
    silos, and `draw` gives so many secret bytes, for the seed.  Raises `InvalidInput` for counts
    that are negative or above the cap, before it enters a session; `ProtocolFault` in any step
    where a message is not what it must be.
    """

    def __init__(
        self,
        number: int,
        terms: WeightingTerms,
        shares: ArrayLike,
        identity: Identity,
        roster: Roster,
        post: Post,
        draw: Draw = fresh,
    ) -> None:
        self._names = tuple(silo_name(silo) for silo in range(terms.silos))
        if set(roster) != set(self._names):
            raise InvalidInput("The roster must name the identity of every silo, and nobody else.")
        if roster[post.name] != identity.public:
            raise InvalidInput(f"The roster names another identity for {post.name}.")
        self._number, self._terms, self._post = number, terms, post
        self._draw = draw
        self._shares = checked_shares(shares, terms)
        self._identity, self._roster = identity, roster
        self._key_pair = KeyPair.new()
        self._keys: dict[str, PairKeys] = {}

    def begin(self, session: bytes) -> None:
        """Enter a session."""
        self._session = session
        self._post.enter(session, SETUP, limits(self._terms))

    def answer_key(self) -> None:
        """(a) Receive the server's Paillier key; send this silo's X25519 key, signed."""
        modulus = self._post.receive(ServerKey, SERVER).modulus
        self._public = server_key(modulus, self._terms)
        self._agreed = facts(self._session, self._terms, modulus)
        signed = introduce(self._identity, self._post.name, self._key_pair.public, self._agreed)
        self._post.send(SERVER, signed)

    def meet(self) -> None:
        """(b) Agree on keys with every silo; (c) silo 0 draws the seed and sends it to all.

        The server relays both: it sees public keys, and the seed encrypted for each silo.
        """
        listed = self._post.receive(SiloKeys, SERVER)
        self._keys = pair_keys(
            self._post.name, self._key_pair, listed, self._names, self._roster, self._agreed
        )
        # The seed is drawn once; locked under a pair key, only its receiver can read it.
        if self._number == 0:
            self._seed = Secret(self._draw(SEED_BYTES))
            locked = {
                other: lock_seed(keys, self._seed, other, self._agreed)
                for other, keys in self._keys.items()
            }
            self._post.send(SERVER, LockedSeeds(locked))

    def send_histogram(self) -> None:
        """(c) Receive the seed, except in silo 0; (d), (e) send the counts, blinded and masked.

        The server sees r_u c_su plus masks that cancel in the sum over silos, so r_u N_u alone.
        """
        if self._number != 0:
            locked = self._post.receive(LockedSeed, SERVER).locked
            keys = self._keys[self._names[0]]
            self._seed = unlock_seed(keys, locked, self._post.name, self._agreed)
        modulus = int(self._public.n)
        factors = blinding_factors(self._seed, self._terms.users, modulus, self._session)
        column = blinded_column(
            self._number, self._shares, factors, self._keys, modulus, self._session
        )
        # r_u c_su m mod n: raising Enc(B_u^-1) to it gives Enc(m c_su / N_u).
        self._exponents = tuple(
            factor * share * self._terms.multiple % modulus
            for factor, share in zip(factors, self._shares.tolist(), strict=True)
        )
        check = seed_check(self._seed, self._session)
        self._post.send(SERVER, Histogram(numbers(column, self._terms.modulus_bytes), check))

    def member(self) -> Membership:
        """Return what the silo keeps; the keys of the setup are discarded with this object."""
        return Membership(
            self._number,
            self._session,
            self._terms,
            self._public,
            self._shares,
            self._exponents,
            self._seed,
            self._keys,
        )

    def __repr__(self) -> str:
        return f"Enrolment({self._post.name})"
