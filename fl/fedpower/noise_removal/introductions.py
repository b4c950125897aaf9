"""How nodes agree on keys in pairs, through a server that relays their messages.

The server could put itself between two nodes by handing each of them a key of the server's.  Every
node therefore signs its key with an identity (Ed25519) that all nodes know beforehand, the
`Roster`; that each identity belongs to its node is an assumption of the protocol.  A signature
covers the session, the terms and the server's Paillier key, so nodes that were given different
ones, or keys of another session, reject each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ....accountant.errors import InvalidInput
from ....accountant.randomness import Secret, SecretHolder
from ...crypto.keys import (
    Identity,
    KeyPair,
    agree,
    check_relayed,
    derive,
    framed,
    relayed_fault,
    verify,
)
from ...crypto.paillier.keys import PublicKey
from ...parties.network import SERVER, Post, silo_name
from .messages import NodeKey, NodeKeys, ServerKey, setup_limits
from .terms import Terms

SETUP: Final = 0
"""The round number of the setup."""

Roster: TypeAlias = Mapping[str, bytes]
"""The public half of each node's identity, by name; known to all nodes beforehand."""


@dataclass(frozen=True)
class Membership(SecretHolder):
    """What a node keeps from the setup: a key for masks with each other node, by its number."""

    number: int
    session: bytes
    terms: Terms
    public: PublicKey
    mask_keys: Mapping[int, Secret]

    def __repr__(self) -> str:
        return f"Membership(number={self.number})"


class Introduction(SecretHolder):
    """One node in the setup; its steps are called in their order, each once.

    Raises `InvalidInput` where the roster is not of these nodes, and `ProtocolFault` in any step
    where a message is not what it must be.
    """

    def __init__(
        self, number: int, terms: Terms, identity: Identity, roster: Roster, post: Post
    ) -> None:
        self._names = tuple(silo_name(node) for node in range(terms.nodes))
        if set(roster) != set(self._names) or roster[post.name] != identity.public:
            raise InvalidInput("The roster must name the identity of every node, and no other.")
        self._number, self._terms, self._post = number, terms, post
        self._identity, self._roster = identity, roster
        self._key_pair = KeyPair.new()

    def begin(self, session: bytes) -> None:
        """Enter a session."""
        self._session = session
        self._post.enter(session, SETUP, setup_limits(self._terms))

    def answer_key(self) -> None:
        """(a) Receive the server's Paillier key; send this node's X25519 key, signed.

        The key is refused unless it has the size agreed on, and if it is even, a prime, a power or
        has a small factor.  That it is the product of two primes is taken from the server.
        """
        modulus = self._post.receive(ServerKey, SERVER).modulus
        n = int.from_bytes(modulus, "big")
        if len(modulus) != self._terms.modulus_bytes or n.bit_length() != self._terms.key_bits:
            raise relayed_fault(f"The server did not send a key of {self._terms.key_bits} bits.")
        self._public = PublicKey(n, small=self._terms.weak)
        self._agreed = framed(
            b"noise removal: session", self._session, self._terms.digest(), modulus
        )
        name, public = self._post.name, self._key_pair.public
        signature = self._identity.sign(_statement(name, public, self._agreed))
        self._post.send(SERVER, NodeKey(public, signature))

    def meet(self) -> Membership:
        """(b) Receive every node's key, check who signed it, and return what the node keeps."""
        listed = self._post.receive(NodeKeys, SERVER)
        self._post.leave()
        name, public = self._post.name, self._key_pair.public
        check_relayed(name, public, listed.publics, listed.signatures, self._names)
        mask_keys = {
            number: self._mask_key(other, listed)
            for number, other in enumerate(self._names)
            if other != name
        }
        return Membership(self._number, self._session, self._terms, self._public, mask_keys)

    def _mask_key(self, other: str, listed: NodeKeys) -> Secret:
        public = listed.publics[other]
        # The signature binds the key to the session, the terms and the server's key.
        statement = _statement(other, public, self._agreed)
        verify(self._roster[other], listed.signatures[other], statement)
        return derive(agree(self._key_pair, public, self._agreed), b"noise removal: masks")

    def __repr__(self) -> str:
        return f"Introduction({self._post.name})"


def _statement(name: str, public: bytes, agreed: bytes) -> bytes:
    return framed(b"noise removal: node key", name.encode(), public, agreed)
