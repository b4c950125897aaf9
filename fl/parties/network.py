"""Parties that know each other by name, and talk only through messages.

Everything that one party learns from another is a `Message` that it received, so what it can see
is a fact: a network that keeps transcripts holds the view of each party, word for word.  A party
holds a `Post`, which sends in its name, and hands out what arrived only if it is what the protocol
expects next: the right kind, from the right sender, for this session and this round, once.

    network = Network(["server", "silo-0", "silo-1"])
    post = network.post("silo-0")
    post.enter(session, 3, {Total: room(8 * length)})
    post.send("server", Masked(words))
    reply = post.receive(Total, "server")
    post.leave()

A message is measured before it is read (`Limits`): one that is longer than its kind can be in this
round is the fault of who sent it, and nothing is made of it.

This network is inside one process and delivers at once; a message that is not there when it is
asked for has missed its time.  A real one must give the same: confidential and authenticated
channels between named parties, a time after which `MissingParty` is raised, and the same limits
before it takes a message in.  Every fault ends the protocol for everybody (`ProtocolFault`): nobody
goes on with a smaller group or half a result unless the protocol itself says so.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from ...accountant import validate
from ...accountant.errors import InvalidInput, MissingParty, ProtocolFault
from .message_bodies import Body, Limits

SERVER: Final = "server"


def silo_name(number: int) -> str:
    """Return the name of a silo, counted from 0."""
    return f"silo-{number}"


# --- messages -------------------------------------------------------------------------------------


AnyBody = TypeVar("AnyBody", bound=Body)


@dataclass(frozen=True)
class Message:
    """One message as it travels.

    `session` names the run of a protocol (bytes that were never used before), `round` its round,
    `kind` what `body` holds.
    """

    session: bytes
    round: int
    kind: str
    sender: str
    receiver: str
    body: bytes

    @property
    def size(self) -> int:
        """How many bytes the body has."""
        return len(self.body)

    def __repr__(self) -> str:
        return f"Message({self.sender} -> {self.receiver}, {self.kind!r}, round {self.round})"


Meddling: TypeAlias = Callable[[Message], Iterable[Message]]
"""What becomes of a message on its way: nothing, itself, or others.  For tests of faults."""


# --- network and posts ----------------------------------------------------------------------------


class Network:
    """Delivers messages between parties of one process; for one thread.

    `keep` makes it remember every message, by receiver and by sender: `view` and `said`.
    """

    def __init__(
        self, names: Sequence[str], *, keep: bool = False, meddling: Meddling | None = None
    ) -> None:
        if len(set(names)) != len(names) or not names:
            raise InvalidInput("Parties must have different names, and there must be some.")
        self.names = tuple(names)
        self.sent = dict.fromkeys(names, 0)
        self._keep = keep
        self._meddling = meddling
        self._boxes: dict[str, defaultdict[str, deque[Message]]] = {
            name: defaultdict(deque) for name in names
        }
        self._posts: set[str] = set()
        self._transcript: list[Message] = []

    def post(self, name: str) -> Post:
        """Return the one post of a party."""
        if name not in self._boxes or name in self._posts:
            raise InvalidInput(f"There is no party {name!r} that has no post yet.")
        self._posts.add(name)
        return Post(name, self)

    def view(self, name: str) -> tuple[Message, ...]:
        """Return all messages that reached a party, in their order; needs `keep`."""
        return tuple(message for message in self._transcript if message.receiver == name)

    def said(self, name: str) -> tuple[Message, ...]:
        """Return all messages that a party has sent and that were delivered; needs `keep`."""
        return tuple(message for message in self._transcript if message.sender == name)

    def take(self) -> tuple[Message, ...]:
        """Return all messages that were kept, and forget them."""
        taken, self._transcript = tuple(self._transcript), []
        return taken

    def deliver(self, message: Message) -> None:
        """Put a message into its receiver's box; for posts."""
        # Counted as sent even where meddling drops it: traffic is what the sender paid for.
        self.sent[message.sender] += message.size
        for delivered in (message,) if self._meddling is None else tuple(self._meddling(message)):
            if self._keep:
                self._transcript.append(delivered)
            if delivered.sender not in self._boxes:
                raise InvalidInput(f"There is no party {delivered.sender!r}.")
            self._boxes[delivered.receiver][delivered.sender].append(delivered)

    def box(self, name: str) -> Mapping[str, deque[Message]]:
        """Return what a party has not read yet, by sender; for posts."""
        return self._boxes[name]

    def knows(self, name: str) -> bool:
        """Return whether there is a party of this name."""
        return name in self._boxes


class Post:
    """Where one party sends and receives, in its own name; `Network.post` makes it."""

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self._network = network
        self._box = network.box(name)
        self._session = b""
        self._round = 0
        self._limits: Limits = {}

    @property
    def others(self) -> tuple[str, ...]:
        """All other parties of the network."""
        return tuple(name for name in self._network.names if name != self.name)

    def enter(self, session: bytes, round: int, limits: Limits, *, forget: bool = False) -> None:
        """Take part in a round: from now on only its messages are right.

        `session` is not empty, `round` 0 or above; `limits` say how long each message may be that
        the party takes, by the terms of the protocol alone.  Raises `ProtocolFault` for messages
        that were left unread, unless the party was away and lets them go (`forget`).
        """
        if not isinstance(session, bytes) or not session:
            raise InvalidInput("`session` must be bytes, and some.")
        number = validate.count_from(0, round=round)
        if forget:
            for queue in self._box.values():
                queue.clear()
        self._refuse_unread("before a round began")
        self._session, self._round = bytes(session), number
        self._limits = dict(limits)

    def leave(self) -> None:
        """End a round; raises `ProtocolFault` for messages that the protocol has no use for.

        Nothing is sent or received before the next round.
        """
        self._session = b""
        self._refuse_unread("after a round had ended")

    def send(self, receiver: str, body: Body) -> None:
        """Send a body to another party."""
        if receiver == self.name or not self._network.knows(receiver):
            raise InvalidInput(f"{self.name} knows no party {receiver!r}.")
        self._take_part()
        self._network.deliver(
            Message(self._session, self._round, type(body).kind, self.name, receiver, body.pack())
        )

    def receive(self, what: type[AnyBody], sender: str) -> AnyBody:
        """Return the next message of a party, which must be of this kind and this round.

        Raises `MissingParty` where there is none, `ProtocolFault` where it is another, or longer
        than it may be.
        """
        self._take_part()
        queue = self._box[sender]
        if not queue:
            raise MissingParty(
                f"{sender} did not send {what.kind!r} to {self.name} in time (round "
                f"{self._round}).",
                "The protocol needs every party at this step.",
                "See why it is not there, and begin again; the budget of the round is spent.",
            )
        message = queue.popleft()
        self._check(message, what, sender)
        try:
            return what.unpack(message.body)
        except ProtocolFault as error:  # a body does not know who sent it
            raise ProtocolFault(
                f"A message from {sender} to {self.name} is not a well-formed {what.kind!r} "
                f"(round {self._round}).",
                error.why,
                error.next_step,
            ) from None

    def gather(self, what: type[AnyBody], senders: Iterable[str]) -> dict[str, AnyBody]:
        """Return the next message of each of these parties; all of them must have sent it."""
        return {sender: self.receive(what, sender) for sender in senders}

    def gather_present(self, what: type[AnyBody], senders: Iterable[str]) -> dict[str, AnyBody]:
        """Return the next message of those of these parties that have sent one.

        For protocols that can do without some of them.
        """
        return {sender: self.receive(what, sender) for sender in senders if self._box[sender]}

    def _take_part(self) -> None:
        if not self._session:
            raise InvalidInput(f"{self.name} is in no round: it has entered none, or left it.")

    def _check(self, message: Message, what: type[Body], sender: str) -> None:
        right = (self._session, self._round, what.kind, sender, self.name)
        if (
            message.session,
            message.round,
            message.kind,
            message.sender,
            message.receiver,
        ) == right:
            self._measure(message, what)
            return
        if message.session != self._session or message.round != self._round:
            wrong = "belongs to another session or round"
        else:
            wrong = f"is not {what.kind!r}"
        raise ProtocolFault(
            f"A message from {sender} to {self.name} {wrong} (round {self._round}).",
            "A message that is replayed, or out of order, may undo what protects the others.",
            "Find out who sent it, and begin again; the budget of the round is spent.",
        )

    def _measure(self, message: Message, what: type[Body]) -> None:
        """Refuse a message that is too long, before anything is made of it."""
        limit = self._limits.get(what)
        if limit is None:
            raise InvalidInput(f"{self.name} takes no {what.kind!r} in this round.")
        if message.size > limit:
            raise ProtocolFault(
                f"A message from {message.sender} to {self.name} is longer than the {limit:,} "
                f"bytes that {what.kind!r} may have (round {self._round}).",
                "By the terms of the protocol it cannot be so long, and it could exhaust who reads "
                "it.",
                f"See that {message.sender} agrees on the terms, and begin again; nothing of the "
                "message was read.",
            )

    def _refuse_unread(self, when: str) -> None:
        for sender, queue in self._box.items():
            if queue:
                queue.clear()
                raise ProtocolFault(
                    f"{self.name} had a message from {sender} that nobody asked for, {when}.",
                    "A message that is sent twice, or late, may be an attack.",
                    "Find out who sent it, and begin again.",
                )
