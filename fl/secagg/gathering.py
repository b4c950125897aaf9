"""Who is there: a coordinator names the group of a round, and every peer judges it for itself.

Among peers u of an agreed roster, before the sum of `decentralised`:

1. `ready`    each peer that is there tells the coordinator so, signed
2. `notice`   the coordinator answers each of them with the names of the group
3. `group`    each peer refuses a group it did not agree to, and sums among the others

The coordinator is trusted with nothing but who is there.  The roster, the smallest group, the grid
and the length are agreed beforehand, and none of them is taken from it: a peer refuses a group of
fewer than `fewest`, with a name twice, with a name that is not on the roster, and one without
itself.  What peers say in the sum is bound to the group as each of them was told it, so peers that
were told different groups refuse each other's first message, before any share is sent.

What the coordinator can do is stop a round, and leave out who is there: `fewest` bounds what is
then left to hide among, and guarantees count with it.  Two groups without a common peer do not
meet, and only whoever puts both totals side by side sees that there are two; more than half of the
roster as `fewest` leaves no room for them.  The coordinator sees names, and of each peer a
signature: no key of the sum, no share, no slice, no total.

Source: the coordinator is the server of DISCO (epfml/disco,
`server/src/controllers/decentralized_controller.ts`, 2024), whose clients take any group from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput, MissingParty, PrivplanError, ProtocolFault, counted
from ..crypto import keys
from ..observers.names import COORDINATOR
from ..parties.message_bodies import Body, Limits, room
from ..parties.network import Post
from .decentralised import Peer, carry_out
from .peer_group import Group


@dataclass(frozen=True)
class Ready(Body):
    """The sender takes part in this round; signed, with the session, the round and the terms."""

    kind: ClassVar[str] = "peer-ready"
    signature: bytes


@dataclass(frozen=True)
class GroupNotice(Body):
    """The names of this round's group; the session and the round again, against a replay."""

    kind: ClassVar[str] = "peer-group"
    session: bytes
    round: int
    names: tuple[str, ...]


def limits(agreed: Group, session: bytes) -> Limits:
    """Return how long each message may be: a group has no more names than the roster."""
    names = [len(name.encode()) for name in agreed.peers]
    return {
        Ready: room(keys.SIGNATURE_BYTES),
        GroupNotice: room(len(session), 8, *names),
    }


class Coordinator:
    """Names the group of one round: all who say that they are there.

    `agreed` is the whole roster and its terms.
    """

    def __init__(self, agreed: Group, post: Post, session: bytes, round: int) -> None:
        """Enter the round."""
        self._agreed, self._post = agreed, post
        self._session, self._round = session, round
        post.enter(session, round, limits(agreed, session))

    def notify(self) -> None:
        """Tell all who are ready the names of all who are ready.

        Raises `MissingParty` where they are too few, `ProtocolFault` for a wrong signature.
        """
        ready = self._post.gather_present(Ready, self._agreed.peers)
        for name, body in ready.items():
            try:
                statement = _statement(self._agreed, name, self._session, self._round)
                keys.verify(self._agreed.roster[name], body.signature, statement)
            except ProtocolFault:
                raise _fault(f"What came as {name}'s {Ready.kind!r} is not signed by it.") from None
        if len(ready) < self._agreed.fewest:
            raise MissingParty(
                f"Ready: {counted(len(ready), 'peer')}; there must be {self._agreed.fewest}.",
                "In a smaller group the total says more about each than was agreed.",
                "Wait until there are enough, and begin again.",
            )
        for name in ready:
            notice = GroupNotice(self._session, self._round, tuple(ready))
            self._post.send(name, notice)
        self._post.leave()


class Attendance:
    """What one peer says to the coordinator, and what it takes from it, in one round.

    Raises `InvalidInput` for a peer that is not on the roster under this identity.
    """

    def __init__(
        self, agreed: Group, identity: keys.Identity, post: Post, session: bytes, round: int
    ) -> None:
        """Enter the round."""
        agreed.check_member(post.name, identity)
        self._agreed, self._identity, self._post = agreed, identity, post
        self._session, self._round = session, round
        post.enter(session, round, limits(agreed, session))

    def ready(self) -> None:
        """Tell the coordinator that this peer is there."""
        statement = _statement(self._agreed, self._post.name, self._session, self._round)
        self._post.send(COORDINATOR, Ready(self._identity.sign(statement)))

    def group(self) -> Group:
        """Return the group of this round, with the terms that were agreed on beforehand.

        Raises `MissingParty` where the coordinator says nothing, `ProtocolFault` for a group that
        this peer did not agree to sum among.
        """
        notice = self._post.receive(GroupNotice, COORDINATOR)
        self._post.leave()
        peer, names = self._post.name, notice.names
        if (notice.session, notice.round) != (self._session, self._round):
            raise _fault(f"The coordinator named {peer} the group of another round.")
        if len(set(names)) != len(names):
            raise _fault(f"The coordinator named {peer} a group with a name twice.")
        if len(names) < self._agreed.fewest:
            raise _fault(
                f"The coordinator named {peer} a group of {len(names)}; at least "
                f"{self._agreed.fewest} were agreed on."
            )
        if not set(names) <= set(self._agreed.peers):
            raise _fault(f"The coordinator named {peer} somebody who is not on the roster.")
        if peer not in names:
            raise _fault(f"The coordinator named {peer} a group without itself.")
        return self._agreed.among(names)


def gathered_sum(
    posts: Mapping[str, Post],
    agreed: Group,
    identities: Mapping[str, keys.Identity],
    session: bytes,
    round: int,
    inputs: Mapping[str, IntArray],
) -> dict[str, IntArray]:
    """Carry out a round among those who are there; return the total as each of them has it.

    `posts` are those of the coordinator and of all on the roster of `agreed`, `identities` those of
    the roster.  `inputs` holds the steps, (D,) of int64, of each peer that is there.  The session
    must be new for every run of the protocol, and the round new within it.  Raises `MissingParty`,
    `ProtocolFault`, and `InvalidInput` before anything is sent.
    """
    if set(posts) != {COORDINATOR, *agreed.peers} or set(identities) != set(agreed.peers):
        raise InvalidInput(
            "`posts` and `identities` must be those of the roster, and of the coordinator.",
            "Nobody else takes part, and everybody can be told who does.",
            "Give one of each.",
        )
    if len(inputs) < agreed.fewest or not set(agreed.peers).issuperset(inputs):
        raise InvalidInput(
            f"`inputs` must be of {agreed.fewest} peers on the roster, or more.",
            "In a smaller group the total says more about each than was agreed.",
            "Wait until there are enough.",
        )
    for steps in inputs.values():
        agreed.words(steps)  # nobody says anything before all vectors are right
    try:
        coordinator = Coordinator(agreed, posts[COORDINATOR], session, round)
        present = {
            name: Attendance(agreed, identities[name], posts[name], session, round)
            for name in agreed.peers
            if name in inputs
        }
        for peer in present.values():
            peer.ready()
        coordinator.notify()
        groups = {name: peer.group() for name, peer in present.items()}
        peers = {
            name: Peer(group, identities[name], posts[name], session, round, inputs[name])
            for name, group in groups.items()
        }
        totals = carry_out(peers)
        # Here all are in one process, so groups that never met are seen too.
        if any(set(group.peers) != set(present) for group in groups.values()):
            raise _fault("The coordinator named different groups to different peers.")
        return totals
    except PrivplanError:
        for post in posts.values():  # what was under way belongs to no later round
            post.enter(session, round, {}, forget=True)
        raise


def _statement(agreed: Group, name: str, session: bytes, round: int) -> bytes:
    """Return what a peer signs when it is ready: who it is, when, and the terms it agreed on."""
    return keys.framed(b"privplan peer ready", agreed.context(session, round), name.encode())


def _fault(what: str) -> ProtocolFault:
    return ProtocolFault(
        what,
        "In another group than was agreed on, the total may say more about each of them.",
        "Find out why, and begin again with new keys; the budget of the round is spent.",
    )
