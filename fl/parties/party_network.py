"""A network of which one party is in this process, and the others are elsewhere.

What it sends lies in an outbox until somebody carries it away, and what others sent is brought:

    network = PartyNetwork(["server", "silo-0", "silo-1"], here="silo-0")
    post = network.post("silo-0")
    ...                                   a step of a protocol, which sends
    carried = network.taken_out()         bytes, for whoever carries them
    network.take_in(raw, of="server")     bytes that came from the server

Nobody who carries messages is trusted: whose they are, and that nobody changed or repeated them, is
for the protocol and for signatures to say.  What is brought must be for the party that is here, and
from the one who is said to have sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...accountant.errors import InvalidInput, ProtocolFault
from .message_bodies import Body
from .network import Message, Network


@dataclass(frozen=True)
class _Envelope(Body):
    kind: ClassVar[str] = "envelope"
    session: bytes
    round: int
    named: str
    sender: str
    receiver: str
    body: bytes


class PartyNetwork(Network):
    """Delivers to the party that is `here`, and puts what goes to others into an outbox.

    Raises `InvalidInput` where that party is none of the names.
    """

    def __init__(self, names: Sequence[str], here: str, *, keep: bool = False) -> None:
        super().__init__(names, keep=keep)
        if not self.knows(here):
            raise InvalidInput(f"There is no party {here!r}.")
        self.here = here
        self._outbox: list[Message] = []

    def deliver(self, message: Message) -> None:
        """Put a message of the party that is here into the outbox."""
        if message.sender != self.here:
            raise InvalidInput(f"{message.sender} is not here, and cannot send from here.")
        self.sent[message.sender] += message.size
        if self._keep:
            self._transcript.append(message)
        self._outbox.append(message)

    def taken_out(self, receiver: str | None = None) -> tuple[bytes, ...]:
        """Return what was sent to a party (None: to all), and forget it."""
        gone, kept = list[Message](), list[Message]()
        for each in self._outbox:
            (gone if receiver in (None, each.receiver) else kept).append(each)
        self._outbox = kept
        return tuple(
            _Envelope(
                each.session, each.round, each.kind, each.sender, each.receiver, each.body
            ).pack()
            for each in gone
        )

    def take_in(self, raw: bytes, of: str) -> None:
        """Put a message that was brought into the box of the party that is here.

        Raises `ProtocolFault` for bytes that are no message, and for one of another sender or to
        another receiver.
        """
        read = _Envelope.unpack(raw)
        if read.sender != of or read.receiver != self.here or not self.knows(of):
            raise ProtocolFault(
                f"A message that came from {of} is not of {of} to {self.here}.",
                "A message in another's name could undo what protects that party.",
                "Find out who carried it, and begin again.",
            )
        message = Message(
            read.session, read.round, read.named, read.sender, read.receiver, read.body
        )
        if self._keep:
            self._transcript.append(message)
        self._boxes[self.here][of].append(message)
