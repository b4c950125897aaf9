"""How silos agree on keys and a seed, through a server that relays their messages.

The server could put itself between two silos by handing each of them a key of the server's.  Every
silo therefore signs its key with an identity (Ed25519) that all silos know beforehand, the
`Roster`; that each identity belongs to its silo is the one assumption of the protocol.  A signature
covers the session, the terms and the server's Paillier key, so silos that were given different
ones, or keys of another session, reject each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ....accountant.randomness import Secret, SecretHolder
from ...crypto.keys import (
    Identity,
    KeyPair,
    agree,
    check_relayed,
    derive,
    lock,
    relayed_fault,
    unlock,
    verify,
)
from .messages import SEED_BYTES, SiloKey, SiloKeys
from .terms import WeightingTerms

Roster: TypeAlias = Mapping[str, bytes]
"""The public half of each silo's identity, by name; known to all silos beforehand."""

_PROTOCOL: Final = b"privplan private weighting 1"


@dataclass(frozen=True)
class PairKeys(SecretHolder):
    """What two silos share: a key for each purpose."""

    seed: Secret
    histogram: Secret
    ciphertexts: Secret


def facts(session: bytes, terms: WeightingTerms, modulus: bytes) -> bytes:
    """Return 32 bytes that stand for what all silos must agree on."""
    parts = (_PROTOCOL, session, terms.digest(), modulus)
    return hashlib.sha256(_joined(parts)).digest()


def introduce(identity: Identity, name: str, public: bytes, agreed: bytes) -> SiloKey:
    """Return a silo's key of this session with its signature; `agreed` is `facts`."""
    return SiloKey(public, identity.sign(_statement(name, public, agreed)))


def pair_keys(
    name: str,
    key_pair: KeyPair,
    listed: SiloKeys,
    names: Sequence[str],
    roster: Roster,
    agreed: bytes,
) -> dict[str, PairKeys]:
    """Return the keys that the silo `name` shares with each other silo in `names`.

    Raises `ProtocolFault` unless there is exactly one signed key of every silo, one's own is what
    was sent, no two are equal, and none is malformed or of low order.
    """
    check_relayed(name, key_pair.public, listed.publics, listed.signatures, names)
    keys = {}
    for other in names:
        if other != name:
            public = listed.publics[other]
            # The signature binds the key to the session, the terms and the server's key.
            verify(roster[other], listed.signatures[other], _statement(other, public, agreed))
            keys[other] = _purposes(agree(key_pair, public, agreed))
    return keys


def lock_seed(keys: PairKeys, seed: Secret, receiver: str, agreed: bytes) -> bytes:
    """Return the seed, locked for one silo."""
    return lock(keys.seed, seed, _joined((b"seed", receiver.encode(), agreed)))


def unlock_seed(keys: PairKeys, locked: bytes, receiver: str, agreed: bytes) -> Secret:
    """Return the seed that silo 0 has locked; `ProtocolFault` if it was not for us, or spoilt."""
    seed = unlock(keys.seed, locked, _joined((b"seed", receiver.encode(), agreed)))
    if len(seed) != SEED_BYTES:
        raise relayed_fault(f"{receiver} was given a seed of a wrong length.")
    return seed


def _purposes(shared: Secret) -> PairKeys:
    return PairKeys(
        derive(shared, b"weighting: seed"),
        derive(shared, b"weighting: histogram"),
        derive(shared, b"weighting: ciphertexts"),
    )


def _statement(name: str, public: bytes, agreed: bytes) -> bytes:
    return _joined((_PROTOCOL, b"silo key", name.encode(), public, agreed))


def _joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
