"""Parties that know each other by name, and talk only through messages.

Everything that one party learns from another is a `Message` that it received, so what it can see
is a fact: a network that keeps transcripts holds the view of each party, word for word.  A party
holds a `Post`, which sends in its name, and hands out what arrived only if it is what the protocol
expects next: the right kind, from the right sender, for this session and this round, once.

    network = Network(["server", "silo-0", "silo-1"])
    post = network.post("silo-0")
    post.enter(session, 3)
    post.send("server", Masked(words))
    reply = post.receive(Total, "server")
    post.leave()

This network is inside one process and delivers at once; a message that is not there when it is
asked for has missed its time.  A real one must give the same: confidential and authenticated
channels between named parties, and a time after which `MissingParty` is raised.  Every fault ends
the protocol for everybody (`ProtocolFault`): nobody goes on with a smaller group or half a result
unless the protocol itself says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar, get_type_hints

from ..accountant import validate
from ..accountant.errors import (
    InvalidInput,
    MissingExtra,
    MissingParty,
    ProtocolFault,
    with_article,
)

SERVER: Final = "server"


def silo_name(number: int) -> str:
    """Return the name of a silo, counted from 0."""
    return f"silo-{number}"


# --- what is said ---------------------------------------------------------------------------------


class Body:
    """What one kind of message holds: a frozen dataclass with a `kind`.

    Its fields are of type `int` (64 bits, signed), `str`, `bytes`, a tuple of one of these
    (`tuple[bytes, ...]`), or a mapping from names to one of them (`Mapping[str, bytes]`).  Numbers
    beyond 64 bits travel as bytes of a fixed length, arrays as their little-endian bytes.  A
    `Secret` is none of them: what may be seen is turned into plain `bytes` by who says so.
    """

    kind: ClassVar[str] = ""

    def pack(self) -> bytes:
        """Return the bytes that travel: MessagePack, a list of the fields in their order.

        Raises `InvalidInput`, without the value, for a field that is not of its type exactly.
        """
        schema = _schema(type(self))
        values = [getattr(self, name) for name, _ in schema]
        for value, (name, hint) in zip(values, schema, strict=True):
            if not _fits(value, hint):
                kind = with_article(repr(self.kind))
                raise InvalidInput(
                    f"`{name}` of {kind} is not of the type that it must have.",
                    "Nobody could read it, or it is a secret that must not travel as it is.",
                )
        packed: bytes = _msgpack().packb(values, use_bin_type=True)
        return packed

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Return the body that these bytes hold; `ProtocolFault` where they hold none."""
        schema = _schema(cls)
        try:
            values = _msgpack().unpackb(
                raw, raw=False, strict_map_key=True, use_list=False, object_pairs_hook=_mapping
            )
        except Exception:  # whatever the library finds wrong, and it quotes what it was given
            values = None
        if type(values) is not tuple or len(values) != len(schema):  # extension types are tuples
            raise _malformed(cls.kind)
        if not all(_fits(value, hint) for value, (_, hint) in zip(values, schema, strict=True)):
            raise _malformed(cls.kind)
        return cls(*values)


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


# --- who says it to whom --------------------------------------------------------------------------


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
        self._boxes: dict[str, dict[str, deque[Message]]] = {
            name: {other: deque() for other in names} for name in names
        }
        self._posts: set[str] = set()
        self._kept: list[Message] = []

    def post(self, name: str) -> Post:
        """Return the one post of a party."""
        if name not in self._boxes or name in self._posts:
            raise InvalidInput(f"There is no party {name!r} that has no post yet.")
        self._posts.add(name)
        return Post(name, self)

    def view(self, name: str) -> tuple[Message, ...]:
        """Return all messages that reached a party, in their order; needs `keep`."""
        return tuple(one for one in self._kept if one.receiver == name)

    def said(self, name: str) -> tuple[Message, ...]:
        """Return all messages that a party has sent and that were delivered; needs `keep`."""
        return tuple(one for one in self._kept if one.sender == name)

    def take(self) -> tuple[Message, ...]:
        """Return all messages that were kept, and forget them."""
        taken, self._kept = tuple(self._kept), []
        return taken

    def deliver(self, message: Message) -> None:
        """Put a message into its receiver's box; for posts."""
        self.sent[message.sender] += message.size
        for one in (message,) if self._meddling is None else tuple(self._meddling(message)):
            if self._keep:
                self._kept.append(one)
            self._boxes[one.receiver][one.sender].append(one)

    def box(self, name: str) -> Mapping[str, deque[Message]]:
        """Return what a party has not read yet, by sender; for posts."""
        return self._boxes[name]


class Post:
    """Where one party sends and receives, in its own name; `Network.post` makes it."""

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self._network = network
        self._box = network.box(name)
        self._session = b""
        self._round = 0

    @property
    def others(self) -> tuple[str, ...]:
        """All other parties of the network."""
        return tuple(name for name in self._network.names if name != self.name)

    def enter(self, session: bytes, round: int, *, forget: bool = False) -> None:
        """Take part in a round: from now on only its messages are right.

        `session` is not empty, `round` 0 or above.  Raises `ProtocolFault` for messages that were
        left unread, unless the party was away and lets them go (`forget`).
        """
        if not isinstance(session, bytes) or not session:
            raise InvalidInput("`session` must be bytes, and some.")
        number = validate.count_from(0, round=round)
        if forget:
            for queue in self._box.values():
                queue.clear()
        self._refuse_unread("before a round began")
        self._session, self._round = bytes(session), number

    def leave(self) -> None:
        """End a round; raises `ProtocolFault` for messages that the protocol has no use for.

        Nothing is sent or received before the next round.
        """
        self._session = b""
        self._refuse_unread("after a round had ended")

    def send(self, receiver: str, body: Body) -> None:
        """Send a body to another party."""
        if receiver not in self.others:
            raise InvalidInput(f"{self.name} knows no party {receiver!r}.")
        self._take_part()
        self._network.deliver(
            Message(self._session, self._round, type(body).kind, self.name, receiver, body.pack())
        )

    def receive(self, what: type[AnyBody], sender: str) -> AnyBody:
        """Return the next message of a party, which must be of this kind and this round.

        Raises `MissingParty` where there is none, `ProtocolFault` where it is another.
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
        return what.unpack(message.body)

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

    def _refuse_unread(self, when: str) -> None:
        for sender, queue in self._box.items():
            if queue:
                queue.clear()
                raise ProtocolFault(
                    f"{self.name} had a message from {sender} that nobody asked for, {when}.",
                    "A message that is sent twice, or late, may be an attack.",
                    "Find out who sent it, and begin again.",
                )


# --- bodies as bytes ------------------------------------------------------------------------------

_PLAIN: Final = (int, str, bytes)
_LONG: Final = range(-(2**63), 2**63)


def _schema(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return the name and the type of each field."""
    found: tuple[tuple[str, Any], ...] = _read_schema(kind)
    return found


@cache
def _read_schema(kind: Any) -> tuple[tuple[str, Any], ...]:
    if not kind.kind or not is_dataclass(kind):
        raise InvalidInput(f"{kind.__name__} must be a dataclass with a kind.")
    hints = get_type_hints(kind)
    return tuple((item.name, hints[item.name]) for item in fields(kind))


def _fits(value: object, hint: Any) -> bool:
    if hint in _PLAIN:
        return type(value) is hint and (hint is not int or value in _LONG)
    arguments = hint.__args__
    if hint.__origin__ is tuple:
        return type(value) is tuple and all(_fits(one, arguments[0]) for one in value)
    name, inner = arguments
    return type(value) is dict and all(
        _fits(key, name) and _fits(one, inner) for key, one in value.items()
    )


def _mapping(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return a mapping in which nobody is named twice: a later entry would hide the first."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _malformed(kind: str) -> ProtocolFault:
    return ProtocolFault(
        f"A message is not a well-formed {kind!r}.",
        "What is not understood cannot be trusted.",
        "See that all parties run the same version.",
    )


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError:
        raise MissingExtra(
            "Messages between parties need the package msgpack, which is not installed.",
            "They travel in its format.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None
    return msgpack
