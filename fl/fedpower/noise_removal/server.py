"""The server of noise removal: what it knows and what it sends.

It is assumed to follow the protocol.  It learns the sum of all nodes' noise but one's, and whose
noise stayed.  One that does not follow it can have all noise taken off: nothing proves that it
encrypted a 1 for one node, and 0 for all others.
"""

from __future__ import annotations

import secrets

import numpy as np

from ....accountant.arrays import IntArray
from ....accountant.errors import ProtocolFault
from ....accountant.randomness import SecretHolder
from ...crypto.paillier.blinding import aggregate
from ...crypto.paillier.keys import generate
from ...crypto.paillier.processes import SERIAL, Workers
from ...parties.network import Post, silo_name
from .introductions import SETUP
from .messages import NodeKey, NodeKeys, Removal, Selection, ServerKey, round_limits, setup_limits
from .terms import RoundTerms, Terms


def hidden_index(nodes: int) -> int:
    """Return whose noise stays, uniform in 0 .. nodes - 1, from the operating system."""
    return secrets.randbelow(nodes)


class Server(SecretHolder):
    """The server, in one session; its steps are called in their order, the setup's once.

    Raises `ProtocolFault` in any step where a message is not what it must be, and `MissingParty`
    where one is not there: nothing is decrypted unless every node has sent what it must.
    """

    def __init__(self, terms: Terms, post: Post, *, workers: Workers = SERIAL) -> None:
        self._post, self._workers, self._terms = post, workers, terms
        self._nodes = tuple(silo_name(node) for node in range(terms.nodes))
        self._private = generate(terms.key_bits, small=terms.weak)

    @property
    def primes(self) -> tuple[int, int]:
        """The private key, for audits of the server's view."""
        return self._private.primes

    # --- setup ------------------------------------------------------------------------------------

    def begin_setup(self, session: bytes) -> None:
        """Enter a session."""
        self._session = session
        self._post.enter(session, SETUP, setup_limits(self._terms))

    def announce(self) -> None:
        """(a) Send the Paillier key."""
        body = ServerKey(int(self._private.public.n).to_bytes(self._terms.modulus_bytes, "big"))
        for node in self._nodes:
            self._post.send(node, body)

    def relay_keys(self) -> None:
        """(b) Pass every node's key on to all nodes."""
        keys = self._post.gather(NodeKey, self._nodes)
        listed = NodeKeys(
            {name: key.public for name, key in keys.items()},
            {name: key.signature for name, key in keys.items()},
        )
        for node in self._nodes:
            self._post.send(node, listed)
        self._post.leave()

    # --- rounds -----------------------------------------------------------------------------------

    def begin(self, terms: RoundTerms, number: int) -> None:
        """Enter a round."""
        self._round = terms
        self._post.enter(self._session, number, round_limits(terms))

    def select(self) -> None:
        """(a) Draw whose noise stays; send each node its selection, freshly encrypted."""
        staying = hidden_index(len(self._nodes))
        bits = [int(node == staying) for node in range(len(self._nodes))]
        ciphertexts = self._private.encrypt_many(bits, self._workers)
        for node, octets in zip(self._nodes, self._private.public.write(ciphertexts), strict=True):
            self._post.send(node, Selection(octets))

    def total(self) -> IntArray:
        """(c) Multiply what the nodes sent, and decrypt: the sum of noise, int64 (values,)."""
        terms, public = self._round, self._private.public
        parts = []
        for node, sent in self._post.gather(Removal, self._nodes).items():
            if len(sent.ciphertexts) != terms.packs:
                raise ProtocolFault(
                    f"{node} did not send {terms.packs} ciphertexts.",
                    "It does not follow the protocol, or its message was changed.",
                    "Find out which, and begin a new session.",
                )
            parts.append(public.read(sent.ciphertexts))
        # Raises where a message is left over: then nothing is decrypted.
        self._post.leave()
        # The product over nodes: masks cancel, and each node's rho hides the residues left.
        plaintexts = self._private.decrypt_many(aggregate(public, parts), self._workers)
        values = terms.packing.unpack(plaintexts, terms.values, int(public.n))
        return np.array(values, np.int64)

    def __repr__(self) -> str:
        return "Server()"
