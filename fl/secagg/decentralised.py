"""A sum without a server: additive shares among peers, as in DISCO, in Z_{2^64} and with seeds.

Peers u = 1..n with vectors of integers x_u, words modulo 2^64:

1. `hello`    a fresh public key
2. `share`    x_u = last_u + sum_v expand(seed_uv); seed_uv goes to v, locked; last_u stays
3. `slices`   p_u = last_u + sum_v expand(seed_vu), cut into n slices; slice v of p_u goes to v
4. `totals`   v adds up its slice of all p_u and sends that slice of the total to everybody
5. `confirm`  all compare a digest of the total

All p_u together make the total and any fewer cannot be told from uniform words, so a peer, or any
group of them, learns the total of the others and no more.  (In DISCO each p_u goes to everybody;
the slices carry the same in 2 D words a peer instead of (n - 1) D.)  The total needs fewer bits
than a word has, and sums modulo a smaller power of two are the same sums, so only the low bytes of
words travel: 2 D (n - 1) / n times `FixedPoint.bytes_needed` bytes in all.

Each peer knows the group beforehand, the names and the Ed25519 keys, or takes its names from a
coordinator, out of a roster that it knows (`gathering`); it refuses a group below `fewest`.  One
that is missing, or says anything else than the protocol expects, ends the round for everybody:
there is no smaller group.

What is said is signed (a share is locked instead), together with the session, the round and the
group, its step, who says it and to whom: the slice of a partial sum for its one receiver, the
others for everybody.  A bit that was flipped on the way, a message of an earlier round, or one that
was meant for another is no right signature, and the fault names whose words they were said to be.
Who keeps what it received can show it to others.  Signatures do not make anybody honest: for the
total to be right peers must follow the protocol, and one that lies about its vector, or tells
everybody the same wrong slice of the total, is believed.

What a peer learns from the total less its own vector is for the noise in x_u to cover.
Source: the topology is DISCO's (epfml/disco, `aggregator/secure.ts`, 2024).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from ...accountant.arrays import IntArray, UInt64Array
from ...accountant.errors import InvalidInput, PrivplanError, ProtocolFault
from ...accountant.randomness import Secret, SecretHolder
from ..crypto import additive, keys
from ..parties.message_bodies import Body
from ..parties.network import Post
from .peer_group import Confirmation, Group, Hello, PartialSum, Share, TotalSlice


class Peer(SecretHolder):
    """One peer in one round; each step once, in the order of the module.

    `steps` is its vector as integers, (D,) of int64.  Raises `InvalidInput`, before anything is
    sent, for a peer that is not of the group, an identity that is not the roster's, and a vector
    of another length or beyond the grid's bound.
    """

    def __init__(
        self,
        group: Group,
        identity: keys.Identity,
        post: Post,
        session: bytes,
        round: int,
        steps: IntArray,
    ) -> None:
        """Enter the round."""
        group.check_member(post.name, identity)
        self._held = group.words(steps)
        self._group, self._identity, self._post = group, identity, post
        self._others = tuple(name for name in group.peers if name != post.name)
        self._context = group.context(session, round)
        self._pair = keys.KeyPair.new()
        self._keys: dict[str, Secret] = {}
        self._total = np.empty(0, np.uint64)
        self._digest = b""
        self._next = "hello"
        post.enter(session, round, group.limits)

    def hello(self) -> None:
        """Send a fresh key to everybody."""
        with self._step("hello", "share"):
            signed = self._signed(Hello, self._pair.public)
            for other in self._others:
                self._post.send(other, Hello(self._pair.public, signed))

    def share(self) -> None:
        """Check everybody's key, then send everybody a share."""
        with self._step("share", "slices"):
            for name, hello in self._post.gather(Hello, self._others).items():
                self._verify(name, Hello, hello.public, hello.signature)
                self._keys[name] = self._agreed(name, hello.public)
            # The last share stays here, in place of the vector itself.
            seeds, self._held = additive.share(self._held, len(self._group.peers))
            for other, seed in zip(self._others, seeds, strict=True):
                locked = keys.lock(self._keys[other], seed, self._address(self._post.name, other))
                self._post.send(other, Share(locked))

    def slices(self) -> None:
        """Add what the others shared, and send each its slice of the result."""
        with self._step("slices", "totals"):
            seeds = []
            for name, shared in self._post.gather(Share, self._others).items():
                seeds.append(self._seed(name, shared.locked))
            # This peer's partial sum: uniform to whoever lacks one of the seeds.
            additive.add_expanded(self._held, seeds, sign=1)
            for other in self._others:
                words = self._packed(self._held[self._group.part(other)])
                self._post.send(other, PartialSum(words, self._signed(PartialSum, words, other)))

    def totals(self) -> None:
        """Add up one's own slice of all partial sums, and send it to everybody."""
        with self._step("totals", "confirm"):
            part = self._group.part(self._post.name)
            total = self._held[part].copy()
            for name, partial in self._post.gather(PartialSum, self._others).items():
                self._verify(name, PartialSum, partial.words, partial.signature, self._post.name)
                total += self._unpacked(partial.words, part, name)
            self._total = np.zeros(self._group.length, np.uint64)
            packed = self._packed(total)
            self._total[part] = self._unpacked(packed, part, self._post.name)
            self._held = np.empty(0, np.uint64)
            signed = self._signed(TotalSlice, packed)
            for other in self._others:
                self._post.send(other, TotalSlice(packed, signed))

    def confirm(self) -> None:
        """Put the total together and tell everybody its digest."""
        with self._step("confirm", "result"):
            for name, total in self._post.gather(TotalSlice, self._others).items():
                self._verify(name, TotalSlice, total.words, total.signature)
                part = self._group.part(name)
                self._total[part] = self._unpacked(total.words, part, name)
            # Whoever was told another slice computes another digest, and the round ends.
            digest = hashlib.sha256(self._context)
            digest.update(self._total.astype("<u8", copy=False).data)
            self._digest = digest.digest()
            signed = self._signed(Confirmation, self._digest)
            for other in self._others:
                self._post.send(other, Confirmation(self._digest, signed))

    def result(self) -> IntArray:
        """Return the total, (D,) of int64, if everybody has the same."""
        with self._step("result", ""):
            for name, theirs in self._post.gather(Confirmation, self._others).items():
                self._verify(name, Confirmation, theirs.digest, theirs.signature)
                if theirs.digest != self._digest:
                    raise _fault(f"{name} was told another total than {self._post.name}.")
            self._post.leave()
            return self._group.grid.from_ring(self._total)

    def __repr__(self) -> str:
        return f"Peer({self._post.name})"

    @contextmanager
    def _step(self, step: str, following: str) -> Iterator[None]:
        """Take a step; refuse it out of order, and every step after one that failed."""
        if self._next != step:
            raise InvalidInput(
                f"{self._post.name} cannot take the step {step!r} now.",
                "Each step is taken once, in order; after a fault there is no next one.",
                "Begin a new round with new peers.",
            )
        self._next = ""
        yield
        self._next = following

    def _signed(self, what: type[Body], content: bytes, receiver: str = "") -> bytes:
        """Return a signature of what this peer says; `receiver` is empty where all are told."""
        return self._identity.sign(self._statement(self._post.name, what, content, receiver))

    def _verify(
        self, name: str, what: type[Body], content: bytes, signature: bytes, receiver: str = ""
    ) -> None:
        """Raise `ProtocolFault`, with the name, unless a peer has said this, here and now."""
        try:
            statement = self._statement(name, what, content, receiver)
            keys.verify(self._group.roster[name], signature, statement)
        except ProtocolFault:
            raise _fault(
                f"What came as {name}'s {what.kind!r} to {self._post.name} is not signed by it."
            ) from None

    def _agreed(self, name: str, public: bytes) -> Secret:
        """Return the key that is shared with a peer; raise `ProtocolFault`, with the name."""
        try:
            return keys.agree(self._pair, public, self._context)
        except ProtocolFault:
            raise _fault(f"{name} sent {self._post.name} a public key that is none.") from None

    def _seed(self, name: str, locked: bytes) -> Secret:
        """Return the seed of a peer's share; raise `ProtocolFault`, with the name."""
        try:
            seed = keys.unlock(self._keys[name], locked, self._address(name, self._post.name))
        except ProtocolFault:
            raise _fault(f"The share from {name} to {self._post.name} does not open.") from None
        if len(seed) != additive.SEED_BYTES:
            raise _fault(f"{name} sent a share that is no seed.")
        return seed

    def _statement(self, name: str, what: type[Body], content: bytes, receiver: str) -> bytes:
        """Return what is signed: of a fixed length, whatever is said."""
        words = (what.kind.encode(), name.encode(), receiver.encode())
        return keys.framed(b"privplan decentralised statement", self._context, *words, content)

    def _address(self, sender: str, receiver: str) -> bytes:
        indices = (self._group.peers.index(name) for name in (sender, receiver))
        return (
            b"peer-share"
            + self._context
            + b"".join(index.to_bytes(8, "little") for index in indices)
        )

    def _packed(self, words: UInt64Array) -> bytes:
        # Words as bytes (D, 8), the lowest first, of which `width` travel.
        columns = words.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
        return columns[:, : self._group.width].tobytes()

    def _unpacked(self, raw: bytes, part: slice, sender: str) -> UInt64Array:
        """Return words from their low bytes, the sign carried to the top."""
        width, count = self._group.width, part.stop - part.start
        if len(raw) != width * count:
            raise _fault(f"{sender} sent a slice of another length.")
        # The bytes stand at the top of each word, and an arithmetic shift carries the sign down.
        columns = np.zeros((count, 8), np.uint8)
        columns[:, 8 - width :] = np.frombuffer(raw, np.uint8).reshape(count, width)
        words = columns.view("<i8").reshape(-1) >> np.int64(8 * (8 - width))
        return words.astype(np.int64, copy=False).view(np.uint64)


def carry_out(peers: Mapping[str, Peer]) -> dict[str, IntArray]:
    """Take all steps of a round, peer by peer; return the total as each of them has it.

    Raises as the steps do, and `ProtocolFault` where two totals differ in any bit.
    """
    for step in (Peer.hello, Peer.share, Peer.slices, Peer.totals, Peer.confirm):
        for peer in peers.values():
            step(peer)
    totals = {name: peer.result() for name, peer in peers.items()}
    first, *others = totals.values()
    if not all(np.array_equal(first, total) for total in others):
        raise _fault("Two peers ended the round with different totals.")
    return totals


def decentralised_sum(
    posts: Mapping[str, Post],
    group: Group,
    identities: Mapping[str, keys.Identity],
    session: bytes,
    round: int,
    inputs: Mapping[str, IntArray],
) -> dict[str, IntArray]:
    """Carry out one round among all peers in this process; return the total as each peer has it.

    `posts` are the peers' posts, by name.  `inputs` holds each peer's steps, (D,) of int64; a peer
    without any is missing, which ends the round for all.  The session must be new for every run of
    the protocol, and the round new within it.  Raises `MissingParty`, `ProtocolFault`, and
    `InvalidInput` before anything is sent.
    """
    peers = set(group.peers)
    if set(posts) != peers or set(identities) != peers:
        raise InvalidInput("`posts` and `identities` must hold one of every peer of the group.")
    if not inputs or not peers.issuperset(inputs):
        raise InvalidInput("`inputs` must be of peers of the group, and there must be some.")
    present = {
        name: Peer(group, identities[name], posts[name], session, round, inputs[name])
        for name in group.peers
        if name in inputs
    }
    try:
        return carry_out(present)
    except PrivplanError:
        for post in posts.values():  # what was under way belongs to no later round
            post.enter(session, round, {}, forget=True)
        raise


def _fault(what: str) -> ProtocolFault:
    return ProtocolFault(
        what,
        "The total can no longer be trusted, or no longer hides the others.",
        "Find out why, and begin again with new keys; the budget of the round is spent.",
    )
