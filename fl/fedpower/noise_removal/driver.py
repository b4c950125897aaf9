"""A session of noise removal between a server and nodes of one process.

Every node i has added noise N_i to a vector Y_i, and the server has the sum over nodes,
S = sum_i (Y_i + N_i), from a secure sum.  For each such sum it draws a hidden index j and learns

    R = sum_{i != j} N_i        so that        S - R = sum_i Y_i + N_j,

with the noise of one node instead of all.

What is protected, and what that rests on:

- The sum of Y keeps the noise of one node against the server, **if it follows the protocol** and no
  node tells it what it knows.  Nothing proves that it encrypts one 1: a server that sends Enc(1)
  to all nodes takes off nothing and gains nothing, but one that sends Enc(0) to all takes off all
  noise, and has the exact sum of Y.
- Nobody but the server learns j.  But each node knows its own noise: before the node whose noise
  stayed, which any node is with probability 1 / nodes in each round, the released sum has no noise
  at all.  So before a node there is no guarantee with a delta below that, and none that does not
  grow with the rounds; c nodes that tell the server what they know undo all noise with probability
  c / nodes.
- The server does not see a single node's noise beyond what R says, and R is independent of all Y
  and of N_j.  That rests on the nodes' pairwise masks (X25519, AES) against a server that knows no
  node's keys, and on each node's own residues, uniform whatever the others do.
- A node sees ciphertexts of 0 or 1 under the server's key: j is hidden by Paillier encryption.
- The nodes know each other's identities beforehand; the server, which relays their keys, cannot
  put itself between two of them.
- Every node takes part to the end.  One that does not ends the session, for everybody.

Source: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value Decomposition*,
Applied Sciences, Algorithm 2, with these changes: masks and residues that hide each node's
ciphertexts from the owner of the key, packing, and integers from end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from ....accountant import validate
from ....accountant.arrays import IntArray
from ....accountant.errors import InvalidInput, ProtocolFault
from ...crypto.keys import Identity, fresh
from ...crypto.paillier.keys import DEFAULT_BITS
from ...crypto.paillier.processes import Workers
from ...parties.network import SERVER, Post, silo_name
from .introductions import SETUP, Introduction
from .node import Node
from .server import Server
from .terms import RoundTerms, Terms

_SESSION_BYTES: Final = 16


class NoiseRemoval:
    """Takes all nodes' noise but one hidden node's off a sum; one object serves a whole run.

    `posts` are those of the server and of every node, `silo_name(0)` on; they may serve other
    protocols between rounds.  `nodes` is 2 or above.  Made, the object has carried out the setup.
    `processes` share the heavy work of each party.  `rounds` is how many are planned, about: it
    decides how random residues are made, and nothing else.  **`weak` allows keys of fewer than 2048
    bits, which protect nothing**: it is for tests.

    Raises `ProtocolFault` (`MissingParty`) where a party or a message is not what it must be.  Any
    error within a round ends the session for everybody: begin another one.

    >>> from privplan.fl.parties.network import Network
    >>> network = Network(["server", "silo-0", "silo-1"])
    >>> posts = {name: network.post(name) for name in network.names}
    >>> removal = NoiseRemoval(posts, 2, key_bits=256, weak=True)
    >>> noise = [np.array([3, -4]), np.array([10, 20])]
    >>> removal.removed(1, [lambda: noise[0], lambda: noise[1]], largest=20).tolist() in (
    ...     [3, -4], [10, 20])
    True
    """

    def __init__(
        self,
        posts: Mapping[str, Post],
        nodes: int,
        *,
        key_bits: int = DEFAULT_BITS,
        processes: int = 1,
        rounds: int = 16,
        weak: bool = False,
    ) -> None:
        self.terms = Terms(nodes, key_bits, weak)
        names = [silo_name(node) for node in range(nodes)]
        if set(posts) != {SERVER, *names}:
            raise InvalidInput(
                f"`posts` must be those of {SERVER!r} and of {nodes} nodes, {names[0]!r} on."
            )
        self._over, self._last = False, SETUP
        workers = Workers(processes)
        self._server = Server(self.terms, posts[SERVER], workers=workers)
        identities = {name: Identity.new() for name in names}
        roster = {name: identity.public for name, identity in identities.items()}
        introductions = [
            Introduction(number, self.terms, identities[name], roster, posts[name])
            for number, name in enumerate(names)
        ]
        session = bytes(fresh(_SESSION_BYTES))
        # (a) The Paillier key; a signed key of each node.
        for introduction in introductions:
            introduction.begin(session)
        self._server.begin_setup(session)
        self._server.announce()
        for introduction in introductions:
            introduction.answer_key()
        # (b) A key for each pair, which the server does not see.
        self._server.relay_keys()
        self._nodes = [
            Node(introduction.meet(), posts[name], rounds=rounds, workers=workers)
            for name, introduction in zip(names, introductions, strict=True)
        ]

    @property
    def primes(self) -> tuple[int, int]:
        """The server's private key, for audits of its view: it is what the server owns itself."""
        return self._server.primes

    def prepare(self, values: int, *, largest: int) -> None:
        """Precompute what all rounds of so many values share; otherwise the first round does."""
        packs = RoundTerms(self.terms, values, largest).packs
        for node in self._nodes:
            node.prepare(packs)

    def removed(
        self, number: int, noises: Sequence[Callable[[], IntArray]], *, largest: int
    ) -> IntArray:
        """Return sum_{i != j} N_i, exactly: int64 (values,), for the server.

        `noises[i]` draws node i's noise when it is its turn, int64 (values,), of magnitude at most
        `largest`, a public bound; how many `values` there are is public, and node 0's says it.
        `number` is above that of all earlier rounds.

        Raises `InvalidInput` for arguments that are refused before anybody acts on them, and
        `ProtocolFault` where noise is beyond `largest` or of another length, which shows none of
        it, where a party or a message is not what it must be, and after any earlier fault.
        """
        if self._over:
            raise ProtocolFault(
                "This session of noise removal has ended with a fault.",
                "What a party has seen of a broken round may undo what protects the next one.",
                "Begin a new session.",
            )
        self._check(number, noises, largest)
        self._over = True  # until the round is complete: a fault in it ends the session
        first = noises[0]()
        terms = RoundTerms(self.terms, _length(first), largest)
        self._server.begin(terms, number)
        for node in self._nodes:
            node.begin(terms, number)
        self._server.select()
        for index, node in enumerate(self._nodes):
            node.blind()
            node.answer(noises[index]() if index else first)
        total = self._server.total()
        self._over, self._last = False, number
        return total

    def _check(self, number: int, noises: Sequence[Callable[[], IntArray]], largest: int) -> None:
        if validate.count(number=number) <= self._last:
            raise InvalidInput(f"Round {self._last} of this session is over; give a later number.")
        if len(noises) != self.terms.nodes:
            raise InvalidInput(
                f"`noises` must have one entry for each of {self.terms.nodes} nodes."
            )
        RoundTerms(self.terms, 1, largest)  # refuses a bound that there is no room for

    def __repr__(self) -> str:
        weak = ", weak: protects nothing" if self.terms.weak else ""
        return f"NoiseRemoval(nodes={self.terms.nodes}, {self.terms.key_bits} bits{weak})"


def _length(noise: object) -> int:
    if not isinstance(noise, np.ndarray) or noise.ndim != 1 or not len(noise):
        raise ProtocolFault(
            f"{silo_name(0)} did not draw its noise as a vector.",
            "Its length says how many values the round has.",
            "It has sent nothing; begin a new session.",
        )
    return len(noise)
