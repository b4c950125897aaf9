"""What all parties of a masked sum hold in common, and the keys of a round as one sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Final, Literal

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..crypto.keys import KEY_BYTES, LOCK_BYTES, SIGNATURE_BYTES, check_public, verify
from ..parties.message_bodies import Limits, named, room
from . import messages
from .terms import Terms


class Graph:
    """Each of `names` with its `degree` neighbours; the same for all who know the `seed`.

    Parties stand on a circle in the order of SHA-256(seed, name), a uniform permutation where
    nobody chose the seed, and each is joined to the `degree` / 2 nearest on either side.  With
    `degree` one below the number of names, or above, everybody is joined to everybody.

    Where the seed is the hash of keys to which every honest party adds a fresh one, nobody can aim
    at a graph, only try: `terms` says how often.

    >>> sorted(Graph(["a", "b", "c"], 2, b"seed").neighbours("b"))
    ['a', 'c']
    """

    def __init__(self, names: Sequence[str], degree: int, seed: bytes) -> None:
        self._half = degree // 2
        self._circle = list(names)
        self._complete = degree >= len(names) - 1
        if not self._complete:
            self._circle.sort(
                key=lambda name: sha256(messages.statement(b"place", seed, name.encode())).digest()
            )
        self._position = {name: position for position, name in enumerate(self._circle)}

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Return the neighbours of one party."""
        position, size = self._position[name], len(self._circle)
        if self._complete:
            return (*self._circle[:position], *self._circle[position + 1 :])
        # The nearest on either side of the circle, whose ends are joined.
        steps = range(1, self._half + 1)
        ahead = (self._circle[(position + step) % size] for step in steps)
        return (*ahead, *(self._circle[position - step] for step in steps))


ADVERT_BYTES: Final = 2 * KEY_BYTES + SIGNATURE_BYTES
"""Bytes of an advert in one piece."""


@dataclass(frozen=True)
class Group:
    """The terms, everybody's identity, and the session: known to all before the first message.

    `roster` maps names to Ed25519 public keys, in an order that all share; whoever hands it out is
    trusted that the keys are the parties' own.  `session` was never used before.
    """

    terms: Terms
    roster: Mapping[str, bytes]
    session: bytes

    def __post_init__(self) -> None:
        if len(self.roster) != self.terms.parties:
            raise InvalidInput(
                f"The terms are for {self.terms.parties} parties; there are {len(self.roster)}."
            )
        if len(set(self.roster.values())) != len(self.roster):
            raise InvalidInput("Two parties have the same identity.")
        if not self.session:
            raise InvalidInput("`session` must be bytes that were never used before.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All parties, in their order."""
        return tuple(self.roster)

    @cached_property
    def holders(self) -> Mapping[str, int]:
        """The number of each party as a holder of shares, from 1."""
        return {name: number for number, name in enumerate(self.roster, 1)}

    @cached_property
    def digest(self) -> bytes:
        """A hash of all of it."""
        entries = (part for name, key in self.roster.items() for part in (name.encode(), key))
        return sha256(
            messages.statement(b"group", self.terms.digest, self.session, *entries)
        ).digest()

    def sign(self, first: str, second: str) -> Literal[1, -1]:
        """Return 1 if the first of a pair adds their mask and -1 if it subtracts it."""
        return 1 if self.holders[first] < self.holders[second] else -1

    def label(self, first: str, second: str) -> bytes:
        """Return what the mask of a pair is for.

        A party may advertise the key of another as its own.  Who masks with both would add one mask
        and take off the same, if only keys and not names told the masks apart.
        """
        pair = sorted((first, second), key=self.holders.__getitem__)
        return messages.statement(b"pair", *(name.encode() for name in pair))

    def claim(self, round: int, name: str, lock_key: bytes, mask_key: bytes) -> bytes:
        """Return what a party signs when it advertises its keys."""
        round_bytes = validate.count_from(0, round=round).to_bytes(8, "little")
        return messages.statement(
            b"advert", self.digest, round_bytes, name.encode(), lock_key, mask_key
        )

    def ordered(self, names: Mapping[str, object] | set[str]) -> tuple[str, ...]:
        """Return names in the roster's order."""
        return tuple(name for name in self.roster if name in names)


@dataclass(frozen=True)
class View:
    """The keys of one round, as they were shown to one party.

    All that follows, who masks with whom and under what key, is bound to `digest`: parties that
    were shown different keys understand nothing of each other.
    """

    group: Group
    round: int
    adverts: Mapping[str, messages.Advert]

    @cached_property
    def present(self) -> tuple[str, ...]:
        """Those who advertised keys, in the roster's order."""
        return self.group.ordered(self.adverts)

    @cached_property
    def digest(self) -> bytes:
        """A hash of the group, the round and all keys."""
        entries = (
            part for name in self.present for part in (name.encode(), joined(self.adverts[name]))
        )
        round_bytes = self.round.to_bytes(8, "little")
        return sha256(
            messages.statement(b"view", self.group.digest, round_bytes, *entries)
        ).digest()

    @cached_property
    def graph(self) -> Graph:
        """Who masks with whom; those who are not there have their places too."""
        return Graph(self.group.names, self.group.terms.degree, self.digest)

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Return the neighbours of a party that are there."""
        return tuple(other for other in self.graph.neighbours(name) if other in self.adverts)

    def check(self, name: str) -> None:
        """Return if a party's keys are well formed and its own, else `ProtocolFault`."""
        with messages.blamed_on(name):
            advert = self.adverts[name]
            check_public(advert.lock_key)
            check_public(advert.mask_key)
            if len(advert.signature) != SIGNATURE_BYTES:
                raise messages.fault("A signature has another length.")
            claim = self.group.claim(self.round, name, advert.lock_key, advert.mask_key)
            verify(self.group.roster[name], advert.signature, claim)

    def context(self, purpose: bytes) -> bytes:
        """Return what a key that two parties agree on is for."""
        return messages.statement(purpose, self.digest)

    def address(self, sender: str, receiver: str) -> bytes:
        """Return what a locked message is bound to."""
        return messages.statement(b"shares", self.digest, sender.encode(), receiver.encode())

    def agreement(self, sharing: bytes, survivors: bytes) -> bytes:
        """Return what is signed to confirm who shared and who survived."""
        return messages.statement(b"survivors", self.digest, sharing, survivors)


def joined(advert: messages.Advert) -> bytes:
    """Return an advert in one piece."""
    return advert.lock_key + advert.mask_key + advert.signature


def parted(raw: bytes) -> messages.Advert:
    """Return the advert that is in one piece; `ProtocolFault` for another length."""
    if len(raw) != ADVERT_BYTES:
        raise messages.fault("The keys of a party have another length.")
    return messages.Advert(raw[:KEY_BYTES], raw[KEY_BYTES : 2 * KEY_BYTES], raw[2 * KEY_BYTES :])


def limits(group: Group) -> Limits:
    """Return the most bytes of each message, whoever receives it."""
    everybody = group.names
    names = [len(name.encode()) for name in everybody]
    locked = named(everybody, LOCK_BYTES + messages.SHARE_BYTES)
    return {
        messages.Advert: room(KEY_BYTES, KEY_BYTES, SIGNATURE_BYTES),
        messages.Adverts: room(*named(everybody, ADVERT_BYTES)),
        messages.Shares: room(KEY_BYTES, *locked),
        messages.RelayedShares: room(*names, *locked),
        messages.MaskedWords: group.terms.length * group.terms.words.itemsize,
        messages.Survivors: room(*names),
        messages.Confirmation: room(SIGNATURE_BYTES),
        messages.Confirmations: room(*named(everybody, SIGNATURE_BYTES)),
        messages.Recovery: room(*named(everybody, KEY_BYTES), *named(everybody, KEY_BYTES)),
    }
