"""MaskedWords sums over many rounds: the server and all parties in one process.

network = Network([SERVER, *map(silo_name, range(5))])
committee = Committee.on(network, choose(5, length=1000, dropouts=1), session)
total, survivors = committee.sum(1, {"silo-0": words, "silo-1": compute, ...})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ...accountant import validate
from ...accountant.errors import InvalidInput, MissingParty
from ..crypto.keys import Identity
from ..crypto.masks import RingWords
from ..parties.network import SERVER, Network, Post
from .client import Client
from .group import Group
from .server import Server
from .terms import Terms

Input: TypeAlias = "RingWords | Callable[[], RingWords] | None"


class Committee:
    """A server and parties that add up vectors, of which nobody sees more than the sum.

    `posts` are those of the server and of every party; their order is the roster's.  `identities`
    are the parties' own, fresh ones if left out.  A fault, or too few parties, stops the committee
    for good: whoever wants to go on makes another, with another session.

    >>> import numpy as np
    >>> from privplan.fl.parties.network import Network
    >>> from privplan.fl.secagg.terms import choose
    >>> network = Network(["server", "silo-0", "silo-1", "silo-2"])
    >>> committee = Committee.on(network, choose(3, length=2, ring_bits=32), b"an example")
    >>> words = np.array([1, 2**32 - 1], np.uint32)
    >>> total, survivors = committee.sum(1, {f"silo-{i}": words for i in range(3)})
    >>> total.tolist(), survivors
    ([3, 4294967293], ('silo-0', 'silo-1', 'silo-2'))
    """

    def __init__(
        self,
        posts: Mapping[str, Post],
        terms: Terms,
        session: bytes,
        identities: Mapping[str, Identity] | None = None,
    ) -> None:
        names = [name for name in posts if name != SERVER]
        if SERVER not in posts:
            raise InvalidInput(f"A masked sum needs the post of {SERVER!r}.")
        identity_of = {name: Identity.new() for name in names} if identities is None else identities
        if set(identity_of) != set(names):
            raise InvalidInput("There must be one identity for every party.")
        group = Group(terms, {name: identity_of[name].public for name in names}, bytes(session))
        self.terms = terms
        self._server = Server(posts[SERVER], group)
        self._clients = {name: Client(posts[name], group, identity_of[name]) for name in names}
        self._stopped = False
        self._last = -1

    @classmethod
    def on(cls, network: Network, terms: Terms, session: bytes) -> Committee:
        """Return a committee of all parties of a network whose posts nobody has taken yet."""
        return cls({name: network.post(name) for name in network.names}, terms, session)

    def sum(self, round: int, inputs: Mapping[str, Input]) -> tuple[RingWords, tuple[str, ...]]:
        """Return the sum modulo 2^32 or 2^64, and the parties whose words are in it.

        `inputs` holds each party's words, or a function that computes them once the party's
        secrets are shared.  A party without any, or with None, is not there at all; one whose
        function raises `MissingParty` drops out at that step.

        Raises `MissingParty` where fewer than `terms.fewest` are left at any step, `ProtocolFault`
        for any message that is not right, `InvalidInput` for words of another type or length, an
        unknown party, a `round` that is not above the last one, and a committee that was stopped.
        """
        if unknown := sorted(set(inputs) - set(self._clients)):
            raise InvalidInput(f"There is no party {unknown[0]!r:.40} in this committee.")
        if self._stopped:
            raise InvalidInput(
                "This committee was stopped by an earlier fault.",
                "Whoever caused it could learn more by having the others go on.",
                "Make another committee, with another session.",
            )
        number = validate.count_from(0, round=round)
        if number <= self._last:
            raise InvalidInput(f"`round` must be above {self._last}, the last; it is {number}.")
        self._last = number
        try:
            return self._run(
                number, {name: words for name, words in inputs.items() if words is not None}
            )
        except BaseException:
            self._stop()
            raise

    def _run(
        self, round: int, inputs: Mapping[str, RingWords | Callable[[], RingWords]]
    ) -> tuple[RingWords, tuple[str, ...]]:
        server, clients = self._server, self._clients
        server.begin(round)
        self._each(inputs, lambda name: clients[name].advertise(round))
        server.collect_keys()
        self._each(server.expected, lambda name: clients[name].share())
        server.relay_shares()
        for name in server.expected:  # one after the other, so that only one has masked words
            self._each([name], lambda name: clients[name].mask(inputs[name]))
            server.add(name)
        server.name_survivors()
        if self.terms.signed:
            self._each(server.expected, lambda name: clients[name].confirm())
            server.relay_confirmations()
        self._each(server.expected, lambda name: clients[name].recover())
        done = server.expected
        unmasked = server.unmask()
        for name, client in clients.items():
            if name in done:
                client.finish()
            else:
                client.stop()
        return unmasked

    def _each(
        self, names: Mapping[str, object] | tuple[str, ...] | list[str], step: Callable[[str], None]
    ) -> None:
        """Let parties take a step; one that hears nothing from the server has dropped out."""
        for name in names:
            try:
                step(name)
            except MissingParty:
                self._clients[name].stop()

    def _stop(self) -> None:
        self._stopped = True
        self._server.stop()
        for client in self._clients.values():
            client.stop()
