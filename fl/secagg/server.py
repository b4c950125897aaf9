"""The server of a masked sum: it passes messages on, and unmasks one sum.

It keeps nothing of one party but what that party sent.  Words are added as they arrive, and the
sum is decoded only when everything that masks it has been recovered and checked: a private key
against the public one, a seed against the commitment to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from ...accountant.errors import InvalidInput, ProtocolFault
from ...accountant.randomness import Secret
from ..crypto.keys import KEY_BYTES, LOCK_BYTES, KeyPair, agree, verify
from ..crypto.masks import Mask, RingWords, masks_into
from ..crypto.shamir import combine
from ..parties.network import Post
from . import messages
from .client import commitment_to
from .group import Group, View, joined, limits


@dataclass
class _Sum:
    """One round: who has come how far, and the sum of the masked words so far."""

    round: int
    total: RingWords
    view: View | None = None
    commitments: dict[str, bytes] = field(default_factory=dict)
    sharing: tuple[str, ...] = ()
    arrived: set[str] = field(default_factory=set)
    survivors: tuple[str, ...] = ()
    answering: tuple[str, ...] = ()


class Server:
    """The server, from round to round.

    `expected` are those from whom the next message is expected.  Every step raises `ProtocolFault`
    for a message that is not right, and `MissingParty` where too few are left.
    """

    def __init__(self, post: Post, group: Group) -> None:
        self._post = post
        self._group = group
        self._limits = limits(group)
        self._sum: _Sum | None = None
        self._away = False
        self.expected: tuple[str, ...] = group.names

    def begin(self, round: int) -> None:
        """Begin a round."""
        terms = self._group.terms
        self._post.enter(self._group.session, round, self._limits, forget=self._away)
        self._away = True
        self._sum = _Sum(round, cast("RingWords", np.zeros(terms.length, terms.words)))
        self.expected = self._group.names

    def collect_keys(self) -> None:
        """Check who has advertised which keys, and tell everybody."""
        now = self._now
        adverts = self._post.gather_present(messages.Advert, self.expected)
        self._enough(len(adverts), "advertised keys")
        view = now.view = View(self._group, now.round, adverts)
        stranger = KeyPair.new()  # agrees with everybody, to find points of low order
        for name, advert in adverts.items():
            view.check(name)
            with messages.blamed_on(name):
                agree(stranger, advert.lock_key, b"")
                agree(stranger, advert.mask_key, b"")
        everybody = messages.Adverts({name: joined(adverts[name]) for name in view.present})
        self._tell(view.present, dict.fromkeys(view.present, everybody))

    def relay_shares(self) -> None:
        """Hand on what each has locked for its neighbours."""
        now, view = self._now, self._view
        shares = self._post.gather_present(messages.Shares, self.expected)
        self._enough(len(shares), "shared secrets")
        for name, sent in shares.items():
            right = set(sent.locked) == set(view.neighbours(name)) and all(
                len(share) == LOCK_BYTES + messages.SHARE_BYTES for share in sent.locked.values()
            )
            if not right or len(sent.commitment) != KEY_BYTES:
                raise messages.fault(f"The shares of {name} are not those that it has to send.")
            now.commitments[name] = sent.commitment
        now.sharing = self._group.ordered(shares)
        self._tell(
            now.sharing,
            {
                name: messages.RelayedShares(
                    now.sharing,
                    {n: shares[n].locked[name] for n in view.neighbours(name) if n in shares},
                )
                for name in now.sharing
            },
        )

    def add(self, name: str) -> bool:
        """Add the masked words of a party to the sum, and return whether they have arrived."""
        now = self._now
        if name not in now.sharing or name in now.arrived:
            raise InvalidInput(f"No words of {name} are expected.")
        message = self._post.gather_present(messages.MaskedWords, [name]).get(name)
        if message is None:
            return False
        if len(message.words) != now.total.nbytes:
            raise messages.fault(f"The words of {name} have another length.")
        now.total += np.frombuffer(message.words, self._group.terms.words)
        now.arrived.add(name)
        return True

    def name_survivors(self) -> None:
        """Tell those whose words are in the sum who they are."""
        now = self._now
        self._enough(len(now.arrived), "sent their words")
        now.survivors = now.answering = self._group.ordered(now.arrived)
        survivors = messages.Survivors(now.survivors)
        self._tell(now.survivors, dict.fromkeys(now.survivors, survivors))

    def relay_confirmations(self) -> None:
        """Hand on who has signed the list of survivors."""
        now = self._now
        confirmations = self._post.gather_present(messages.Confirmation, self.expected)
        self._enough(len(confirmations), "signed who survived")
        agreed = self._view.agreement(messages.listed(now.sharing), messages.listed(now.survivors))
        for name, confirmation in confirmations.items():
            with messages.blamed_on(name):
                verify(self._group.roster[name], confirmation.signature, agreed)
        # Who has not signed is not asked for shares, and its shares are not waited for.
        signers = now.answering = self._group.ordered(confirmations)
        signatures = messages.Confirmations(
            {name: confirmations[name].signature for name in signers}
        )
        self._tell(signers, dict.fromkeys(signers, signatures))

    def unmask(self) -> tuple[RingWords, tuple[str, ...]]:
        """Recover what masks the sum, and return the sum and whose words are in it."""
        now = self._now
        recovery = self._post.gather_present(messages.Recovery, self.expected)
        for name, sent in recovery.items():
            self._check_recovery(name, sent)
        self._post.leave()
        seeds = {name: self._seed(name, recovery) for name in now.survivors}
        keys = {
            name: self._key(name, recovery)
            for name in now.sharing
            if name not in now.arrived and self._masked_with(name)
        }
        # Off come survivors' own masks, and what those who dropped out have left in their words.
        masks = [Mask(seed, b"own", -1) for seed in seeds.values()]
        masks += [mask for gone, pair in keys.items() for mask in self._left_behind(gone, pair)]
        masks_into(now.total, masks, session=self._group.session, round=now.round)
        self._sum, self._away = None, False
        return now.total, now.survivors

    def stop(self) -> None:
        """Drop everything: nothing of this round is decoded any more."""
        self._sum = None

    @property
    def _now(self) -> _Sum:
        if self._sum is None:
            raise InvalidInput("The server is in no round.")
        return self._sum

    @property
    def _view(self) -> View:
        view = self._now.view
        if view is None:
            raise InvalidInput("The server has no keys yet.")
        return view

    def _tell(self, names: tuple[str, ...], bodies: Mapping[str, object]) -> None:
        for name in names:
            self._post.send(name, bodies[name])  # type: ignore[arg-type]
        self.expected = names

    def _enough(self, count: int, did: str) -> None:
        fewest = self._group.terms.fewest
        if count < fewest:
            raise messages.too_few(
                f"Only {count} of {self._group.terms.parties} parties {did} in round "
                f"{self._now.round}; at least {fewest} are needed."
            )

    def _masked_with(self, gone: str) -> tuple[str, ...]:
        """Return the survivors whose words hold a mask with a party that has dropped out."""
        return tuple(n for n in self._view.neighbours(gone) if n in self._now.arrived)

    def _left_behind(self, gone: str, pair: KeyPair) -> Iterator[Mask]:
        """Yield the masks that a party which dropped out has left in the words of survivors."""
        for name in self._masked_with(gone):
            key = agree(pair, self._view.adverts[name].mask_key, self._view.context(b"mask"))
            yield Mask(key, self._group.label(gone, name), self._group.sign(gone, name))

    def _check_recovery(self, name: str, sent: messages.Recovery) -> None:
        now = self._now
        # A seed of everybody alive, a key of everybody gone, of exactly those whose shares it has.
        held = {name, *self._view.neighbours(name)} & set(now.sharing)
        alive = held & now.arrived
        lengths = {len(share) for share in (*sent.seeds.values(), *sent.keys.values())}
        if set(sent.seeds) != alive or set(sent.keys) != held - alive or lengths != {KEY_BYTES}:
            raise messages.fault(f"{name} did not answer with the shares that it was asked for.")

    def _seed(self, name: str, recovery: Mapping[str, messages.Recovery]) -> Secret:
        seed = self._restored(
            name, {n: r.seeds[name] for n, r in recovery.items() if name in r.seeds}
        )
        if commitment_to(seed) != self._now.commitments[name]:
            raise messages.fault(f"The seed of {name} that was recovered is not the one it chose.")
        return seed

    def _key(self, name: str, recovery: Mapping[str, messages.Recovery]) -> KeyPair:
        raw = self._restored(name, {n: r.keys[name] for n, r in recovery.items() if name in r.keys})
        pair = KeyPair.restore(raw)
        if pair.public != self._view.adverts[name].mask_key:
            raise messages.fault(
                f"The key of {name} that was recovered does not belong to its public one."
            )
        return pair

    def _restored(self, name: str, shares: Mapping[str, bytes]) -> Secret:
        needed = self._group.terms.threshold
        if len(shares) < needed:
            raise messages.too_few(
                f"Only {len(shares)} parties that hold shares of {name}'s secrets answered in "
                f"round {self._now.round}; {needed} are needed."
            )
        try:
            return combine({self._group.holders[n]: share for n, share in shares.items()}, needed)
        except ProtocolFault as error:
            raise messages.fault(f"{error.what} They are shares of {name}'s secrets.") from None
