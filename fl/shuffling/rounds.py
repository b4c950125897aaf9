"""Rounds of messages through a shuffler, all parties in one process."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import records
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Messages, Ticket
from ...accountant.mechanisms.clip import numbers
from ..crypto.keys import fresh
from ..crypto.paillier.processes import Workers
from ..crypto.sealed_box import BoxKey, sealed
from ..parties.network import Network
from .parties import Analyzer, Client, Shuffler
from .terms import (
    ANALYZER,
    SHUFFLER,
    ReceivedMessages,
    Terms,
    client_name,
    dummy_blocks,
    require_honest,
)

ORDER_STREAM: Final = "shuffler/order"
"""A stream of the shuffler; it stands in the release."""

BATCH_MESSAGES: Final = 2**16
"""About how many messages of clients are locked at once."""

_SESSION_BYTES: Final = 16


class Shuffling:
    """The clients of units, a shuffler and an analyzer, for all rounds of a run.

    1. Each client locks every message of its own, already randomised, for the analyzer, in boxes of
       one length, and sends them to the shuffler, with the coordinate that each is of.
    2. The shuffler takes the senders off, pads each coordinate with dummies, which it locks alike,
       and hands the boxes of each coordinate on in an order that is exactly uniform.
    3. The analyzer opens them, and has for each coordinate as many messages as agreed.

    **Who is protected from whom.**  From the *analyzer*, and whoever sees what it makes of the
    messages, a unit is hidden among the messages of its coordinate: what the mechanism's `event`
    says, with `Shuffled` of these terms.  That rests on a shuffler that follows the protocol and
    does not collude with the analyzer: together they see each message with its sender, which is
    the mechanism's `local_event`, as anybody does who sees the messages before they are mixed.
    Clients who collude with the analyzer hide nobody, and take up places of the padding:
    `Terms.shuffled(colluders)` states what is left.  The *shuffler* sees boxes and, where
    coordinates are chosen, which client chose which; the key of the analyzer is all that keeps the
    messages from it.  It knows its dummies: before it they hide nobody, nor before anybody who gets
    what it knows.  *Clients* receive nothing.  Channels are confidential and authentic
    (`fl.parties.network`), and the analyzer's public key is its own.

    A dishonest client can send any message, as one message; a dishonest shuffler can leave messages
    out and put its own in their place, and can break the promise above.  Every message binds the
    session, the round, the terms and its coordinate, so one of another round is found, as is one
    that comes twice.  Every fault ends the round for all: nothing of it is handed out, and no other
    round begins.

    `colluders` of the clients may tell the analyzer all they know; `keep` makes the network keep
    what each party receives; `processes` share the work of boxes, and change nothing else.  Raises
    `InvalidInput` where fewer than two clients are left.
    """

    def __init__(
        self, terms: Terms, *, colluders: int = 0, keep: bool = False, processes: int = 1
    ) -> None:
        self._clients = [client_name(number) for number in range(terms.clients)]
        self.network = Network([SHUFFLER, ANALYZER, *self._clients], keep=keep)
        self._posts = {name: self.network.post(name) for name in self.network.names}
        self._workers = Workers(processes)
        self._begin(terms, colluders)

    def _begin(self, terms: Terms, colluders: int) -> None:
        """Have a key and a session that were never used, for rounds of these terms."""
        self.terms = terms
        self._key, self._session = BoxKey(), bytes(fresh(_SESSION_BYTES))
        self._rounds = 0
        self._colluders = require_honest(terms, colluders)
        self._stopped = False

    def with_terms(self, terms: Terms) -> Shuffling:
        """Return the same parties with other terms, for rounds of other messages.

        They talk over the same network; the analyzer's key and the session are new.  Raises
        `InvalidInput` for another number of clients.
        """
        if terms.clients != self.terms.clients:
            raise InvalidInput(
                f"The terms are of {terms.clients:,} clients; there are {self.terms.clients:,}.",
                "Each of them has one place in the network.",
                "Make another `Shuffling`.",
            )
        other = copy(self)
        other._begin(terms, self._colluders)
        return other

    @property
    def security(self) -> records.Security:
        """The public facts of the protocol, for the log."""
        clients = self.terms.clients
        bits = 8 * len(self._key.public)  # on a curve
        return records.Security(
            "shuffler", parties=clients, fewest=clients, key_bits=bits, colluders=self._colluders
        )

    def round(
        self,
        number: int,
        ticket: Ticket,
        messages: ArrayLike,
        *,
        places: ArrayLike | None = None,
        mechanism: Messages | None = None,
    ) -> ReceivedMessages:
        """Return what the analyzer has of round `number`.

        `messages` are integers as `Messages.messages` draws them, a row for each client: (clients,
        chosen), or (clients, chosen, width).  `places` (clients, chosen) says of which coordinate
        each is; None where all send all of them, in order.  `mechanism` draws the dummies, if the
        terms ask for any.  The randomness of the shuffler comes from `ticket`, and stands in the
        release.

        Raises `InvalidInput` for other arrays, before anything is sent; `MissingParty` and
        `ProtocolFault` as the parties do.  After a fault no round begins.
        """
        if self._stopped:
            raise InvalidInput(
                "This shuffler was stopped by an earlier fault.",
                "Whoever caused it could learn more by having the others go on.",
                "Find out who it was, and begin another run.",
            )
        sent, chosen = checked_messages(self.terms, messages, places)
        if self.terms.padded_to is not None and mechanism is None:
            raise InvalidInput(
                "The terms ask for dummies, and no mechanism is given.",
                "Dummies are drawn by the mechanism of the messages that they are mixed with.",
                "Give `mechanism`.",
            )
        self._stopped = True  # until the messages are there
        received = self._run(number, ticket, sent, chosen, mechanism)
        self._stopped = False
        return received

    def _run(
        self,
        number: int,
        ticket: Ticket,
        messages: IntArray,
        places: IntArray,
        mechanism: Messages | None,
    ) -> ReceivedMessages:
        terms, public = self.terms, self._key.public
        session = self._session + self._rounds.to_bytes(8, "little")
        self._rounds += 1
        dummies: Callable[[int], IntArray] | None = None
        if mechanism is not None:
            dummies = partial(_dummies, mechanism, ticket, terms)
        entered = (session, number)
        post, order = self._posts[SHUFFLER], ticket.stream(ORDER_STREAM)
        shuffler = Shuffler(terms, public, post, *entered, order, dummies, self._workers)
        analyzer = Analyzer(terms, self._key, self._posts[ANALYZER], *entered, self._workers)
        step = max(1, BATCH_MESSAGES // terms.chosen)
        for first in range(0, terms.clients, step):
            part = slice(first, first + step)
            clients = [
                Client(terms, public, self._posts[name], *entered) for name in self._clients[part]
            ]
            self._send(clients, messages[part], places[part])
        shuffler.mix()
        return analyzer.receive()

    def _send(self, clients: list[Client], messages: IntArray, places: IntArray) -> None:
        """Have clients send their messages, all of them locked in one batch."""
        contents = [
            content
            for client, row, coordinates in zip(clients, messages, places, strict=True)
            for content in client.contents(coordinates, row)
        ]
        boxes = sealed(self._key.public, contents, self._workers)
        size = self.terms.box * self.terms.chosen
        for number, (client, coordinates) in enumerate(zip(clients, places, strict=True)):
            client.send(coordinates, boxes[number * size : (number + 1) * size])


def checked_messages(
    terms: Terms, messages: ArrayLike, places: ArrayLike | None
) -> tuple[IntArray, IntArray]:
    """Return messages, (clients, chosen, width), and their places, (clients, chosen).

    Raises `InvalidInput` for other arrays, and for places beyond the coordinates.
    """
    sent = numbers(messages, "iu")
    if sent is not None and sent.ndim == 2:
        sent = sent[:, :, None]
    if sent is None or sent.shape != (terms.clients, terms.chosen, terms.width):
        raise InvalidInput(
            f"Messages must be integers, {terms.chosen:,} x {terms.width:,} of each of "
            f"{terms.clients:,} clients.",
            next_step="Give what the mechanism's `messages` returns.",
        )
    shape = (terms.clients, terms.chosen)
    if places is None and terms.chosen == terms.dimensions:
        every = np.broadcast_to(np.arange(terms.dimensions), shape)
        return sent.astype(np.int64), every.astype(np.int64)
    given = None if places is None else numbers(places, "iu")
    if given is None or given.shape != shape:
        raise InvalidInput(
            f"`places` must say for each of {terms.chosen:,} messages of each client of which "
            "coordinate it is.",
            next_step="Give integers of the shape (clients, chosen).",
        )
    if ((given < 0) | (given >= terms.dimensions)).any():
        raise InvalidInput(f"`places` must be from 0 to {terms.dimensions - 1:,}.")
    return sent.astype(np.int64), given.astype(np.int64)


def _dummies(mechanism: Messages, ticket: Ticket, terms: Terms, needed: int) -> IntArray:
    blocks = dummy_blocks(mechanism, ticket, terms, needed)
    return np.concatenate([np.empty(0, np.int64), *blocks])
