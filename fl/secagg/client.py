"""A party of a masked sum: it hides its words, and helps to unmask the sum and nothing else.

Each step of a round is one method, to be called once and in order.  What a step needs is handed
on by the one before and is gone afterwards: after `mask` the party has no key of its own left,
only shares of others, and after `recover` not these either.  Keys and seeds are fresh in every
round, so what is recovered of one round is of no use in another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.randomness import Secret
from ..crypto.keys import KEY_BYTES, Identity, KeyPair, agree, derive, fresh, lock, unlock, verify
from ..crypto.masks import Mask, RingWords, masks_into
from ..crypto.shamir import split
from ..parties.network import SERVER, Post
from . import messages
from .group import Group, View, limits, parted

_scratch = threading.local()


def commitment_to(seed: bytes) -> bytes:
    """Return what binds a party to the seed of its own mask, and tells nothing of it."""
    return bytes(derive(seed, b"commitment to the seed of a party's own mask"))


@dataclass(frozen=True)
class _AdvertisedState:
    round: int
    lock_pair: KeyPair
    mask_pair: KeyPair
    advert: messages.Advert


@dataclass(frozen=True)
class _SharedState:
    view: View
    mask_pair: KeyPair
    seed: Secret
    channels: Mapping[str, Secret]  # by neighbour: what messages between the two are locked with
    kept_share: Secret


@dataclass(frozen=True)
class _MaskedState:
    view: View
    sharing: tuple[str, ...]
    held: Mapping[str, Secret]  # by owner: shares of both its secrets, and of this party's own


@dataclass(frozen=True)
class _ConfirmedState:
    before: _MaskedState
    survivors: tuple[str, ...]
    signature: bytes


State = TypeVar("State")


class Client:
    """One party, from round to round; its only way out is its post.

    A `ProtocolFault` in any step ends the round for this party, whose state is dropped;
    `MissingParty` says that nothing came from the server, so that the party was left out.
    """

    def __init__(self, post: Post, group: Group, identity: Identity) -> None:
        if group.roster.get(post.name) != identity.public:
            raise InvalidInput(f"The roster has another identity for {post.name}.")
        self.name = post.name
        self._post = post
        self._group = group
        self._identity = identity
        self._limits = limits(group)
        self._last = -1
        self._state: object | None = None
        self._away = False

    def advertise(self, round: int) -> None:
        """Begin a round: send fresh keys.  Raises `InvalidInput` for a round that is not later."""
        number = validate.count_from(0, round=round)
        if number <= self._last:
            raise InvalidInput(f"`round` must be above {self._last}, the last; it is {number}.")
        self._last = number
        self._state = None
        self._post.enter(self._group.session, number, self._limits, forget=self._away)
        self._away = True  # until the round is done
        # One pair locks messages to neighbours, the other agrees on masks, and may have to be
        # given away, and must open no message then.
        locks, masks = KeyPair.new(), KeyPair.new()
        claim = self._group.claim(number, self.name, locks.public, masks.public)
        advert = messages.Advert(locks.public, masks.public, self._identity.sign(claim))
        self._post.send(SERVER, advert)
        self._state = _AdvertisedState(number, locks, masks, advert)

    def share(self) -> None:
        """Look at everybody's keys, and share the own secrets among the neighbours."""
        before = self._take(_AdvertisedState)
        received = self._post.receive(messages.Adverts, SERVER)
        view = self._viewed(before, received)
        neighbours = view.neighbours(self.name)
        self._enough_holders(len(neighbours) + 1)
        for name in neighbours:
            view.check(name)
        # Both secrets in one: the seed of the own mask, and the private key that masks come from.
        seed = fresh()
        dealt = split(
            seed + before.mask_pair.secret,
            threshold=self._group.terms.threshold,
            holders=[self._group.holders[name] for name in (self.name, *neighbours)],
        )
        channels: dict[str, Secret] = {}
        locked: dict[str, bytes] = {}
        for name in neighbours:
            with messages.blamed_on(name):
                key = agree(before.lock_pair, view.adverts[name].lock_key, view.context(b"lock"))
            channels[name] = key
            share = dealt[self._group.holders[name]]
            locked[name] = lock(key, share, view.address(self.name, name))
        self._post.send(SERVER, messages.Shares(commitment_to(seed), locked))
        kept_share = dealt[self._group.holders[self.name]]
        self._state = _SharedState(view, before.mask_pair, seed, channels, kept_share)

    def mask(self, words: RingWords | Callable[[], RingWords]) -> None:
        """Send the words, masked; `words` (or what they are computed by) is left as it is.

        A vector of the terms' length and type.  Raises `InvalidInput` for any other, before
        anything is sent.
        """
        before = self._take(_SharedState)
        view, terms = before.view, self._group.terms
        received = self._post.receive(messages.RelayedShares, SERVER)
        sharing = self._listed(received.sharing, set(view.adverts), "shared secrets")
        held = {name: self._opened(before, name, received) for name in received.locked}
        if set(held) != set(view.neighbours(self.name)) & set(sharing):
            raise messages.fault("The server did not hand on exactly the shares of the neighbours.")
        self._enough_holders(len(held) + 1)
        # The own mask, and one with each neighbour, which cancels against the neighbour's.
        masks = [Mask(before.seed, b"own", 1)]
        for name in held:
            with messages.blamed_on(name):
                key = agree(before.mask_pair, view.adverts[name].mask_key, view.context(b"mask"))
            pair = self.name, name
            masks.append(Mask(key, self._group.label(*pair), self._group.sign(*pair)))
        masked = _room(terms.length, terms.words)
        checked_words = _checked(words() if callable(words) else words, terms.length, terms.words)
        try:
            masked[:] = checked_words
            masks_into(masked, masks, session=self._group.session, round=view.round)
        except BaseException:
            masked.fill(0)  # the room is used again
            raise
        self._post.send(SERVER, messages.MaskedWords(masked.tobytes()))
        self._state = _MaskedState(view, sharing, {**held, self.name: before.kept_share})

    def confirm(self) -> None:
        """Sign who survived, before any share is given away; for a server that may lie."""
        before = self._take(_MaskedState)
        survivors = self._survivors(before)
        agreed = before.view.agreement(messages.listed(before.sharing), messages.listed(survivors))
        signature = self._identity.sign(agreed)
        self._post.send(SERVER, messages.Confirmation(signature))
        self._state = _ConfirmedState(before, survivors, signature)

    def recover(self) -> None:
        """Give away one share of each neighbour: of its seed if it survived, else of its key."""
        if self._group.terms.signed:
            confirmed = self._take(_ConfirmedState)
            before, survivors = confirmed.before, confirmed.survivors
            self._check_confirmations(confirmed)
        else:
            before = self._take(_MaskedState)
            survivors = self._survivors(before)
        # Of each party one of the two, never both: together they would show its words.
        alive = set(survivors)
        seeds = {n: bytes(s[:KEY_BYTES]) for n, s in before.held.items() if n in alive}
        keys = {n: bytes(s[KEY_BYTES:]) for n, s in before.held.items() if n not in alive}
        self._post.send(SERVER, messages.Recovery(seeds, keys))

    def finish(self) -> None:
        """End the round; raises `ProtocolFault` if anything came that nobody asked for."""
        self._state = None
        self._post.leave()
        self._away = False

    def stop(self) -> None:
        """Drop everything: the round is over for this party."""
        self._state = None

    def _take(self, kind: type[State]) -> State:
        """Return what the step before left, which is gone with it."""
        state, self._state = self._state, None
        if not isinstance(state, kind):
            raise InvalidInput(f"{self.name} was asked for a step that is not the next one.")
        return state

    def _viewed(self, before: _AdvertisedState, received: messages.Adverts) -> View:
        if any(name not in self._group.roster for name in received.adverts):
            raise messages.fault("The server shows keys of a party that nobody knows.")
        adverts = {}
        for name, raw in received.adverts.items():
            with messages.blamed_on(name):
                adverts[name] = parted(raw)
        if adverts.get(self.name) != before.advert:
            raise messages.fault(f"The server shows other keys of {self.name} than it has.")
        self._listed(self._group.ordered(adverts), set(adverts), "advertised keys")
        return View(self._group, before.round, adverts)

    def _listed(self, names: tuple[str, ...], among: set[str], did: str) -> tuple[str, ...]:
        """Return a list of who did something, if the server may show it to this party."""
        if names != self._group.ordered(set(names)) or not set(names) <= among:
            raise messages.fault(f"The server's list of who {did} is not one that there can be.")
        if self.name not in names:
            raise messages.fault(
                f"The server says that {self.name}, to which it says so, has not {did}."
            )
        if len(names) < self._group.terms.fewest:
            raise messages.fault(
                f"Only {len(names)} parties {did}, of at least {self._group.terms.fewest}, and the "
                "server goes on."
            )
        return names

    def _enough_holders(self, count: int) -> None:
        if count < self._group.terms.threshold:
            raise messages.fault(
                f"{self.name} would have {count} holders of its shares, which is too few."
            )

    def _opened(self, before: _SharedState, name: str, received: messages.RelayedShares) -> Secret:
        with messages.blamed_on(name):
            if name not in before.channels:
                raise messages.fault("Shares came from a party that is no neighbour.")
            share = unlock(
                before.channels[name],
                received.locked[name],
                before.view.address(name, self.name),
            )
            if len(share) != messages.SHARE_BYTES:
                raise messages.fault("Shares have another length.")
        return share

    def _survivors(self, before: _MaskedState) -> tuple[str, ...]:
        received = self._post.receive(messages.Survivors, SERVER)
        return self._listed(received.names, set(before.sharing), "survived")

    def _check_confirmations(self, confirmed: _ConfirmedState) -> None:
        signatures = self._post.receive(messages.Confirmations, SERVER).signatures
        signers = self._group.ordered(set(signatures))
        if len(signers) != len(signatures) or not set(signers) <= set(confirmed.survivors):
            raise messages.fault("The server shows a signature of a party that did not survive.")
        if signatures.get(self.name) != confirmed.signature:
            raise messages.fault(f"The server shows another signature of {self.name} than it gave.")
        if len(signers) < self._group.terms.fewest:
            raise messages.fault("The server shows too few signatures of who survived.")
        agreed = confirmed.before.view.agreement(
            messages.listed(confirmed.before.sharing), messages.listed(confirmed.survivors)
        )
        for name in signers:
            if name != self.name:
                with messages.blamed_on(name):
                    verify(self._group.roster[name], signatures[name], agreed)


def _checked(words: Any, length: int, kind: np.dtype[np.unsignedinteger]) -> RingWords:
    if not isinstance(words, np.ndarray) or words.dtype != kind or words.shape != (length,):
        raise InvalidInput(
            f"The words to be summed must be a vector of {length} {kind.name} numbers.",
            "All parties add vectors of one length in one ring.",
            "Encode them with the terms' length and ring.",
        )
    return cast("RingWords", words)


def _room(length: int, kind: np.dtype[np.unsignedinteger]) -> RingWords:
    """Return this thread's vector to mask in: new memory for every round would cost more time."""
    buffer: RingWords | None = getattr(_scratch, "words", None)
    if buffer is None or buffer.shape != (length,) or buffer.dtype != kind:
        buffer = _scratch.words = cast("RingWords", np.empty(length, kind))
    return buffer
