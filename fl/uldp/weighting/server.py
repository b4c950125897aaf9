"""The server of the private weighting protocol: what it knows and what it sends.

It is assumed to be honest but curious.  It learns the integer vector V of each round and, where it
draws them, the users who take part.  A malicious server can do harm that nobody notices: the
ciphertexts that it sends decide the weights, and with others than those of B_u^-1 and its powers, a
user's digits could have more weight than the noise covers.
"""

from __future__ import annotations

import hmac
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from ....accountant.arrays import BoolArray
from ....accountant.errors import InvalidInput, ProtocolFault
from ....accountant.randomness import SecretHolder, Stream
from ...crypto.oblivious import Sender, real_slots
from ...crypto.paillier.blinding import aggregate
from ...crypto.paillier.keys import generate
from ...crypto.paillier.processes import SERIAL, Workers
from ...parties.network import Post, silo_name
from .enrolment import SETUP
from .histogram import inverses
from .messages import (
    Histogram,
    Inverses,
    LockedSeed,
    LockedSeeds,
    ServerKey,
    SiloKey,
    SiloKeys,
    TransferAnswer,
    TransferOpening,
    TransferRequests,
    Update,
    limits,
    numbers,
    separated,
)
from .sampling import offered, transfer
from .terms import WeightingTerms


class Server(SecretHolder):
    """The server, in one session; its steps are called in their order, the setup's once.

    Raises `ProtocolFault` in any step where a message is not what it must be, and `MissingParty`
    where one is not there: nothing is decrypted unless every silo has sent what it must.
    """

    def __init__(self, terms: WeightingTerms, post: Post, *, workers: Workers = SERIAL) -> None:
        self._terms, self._post, self._workers = terms, post, workers
        self._silos = tuple(silo_name(silo) for silo in range(terms.silos))
        self._private = generate(terms.key_bits, small=terms.weak_key)
        self._inverses: list[int] = []
        self._senders: dict[str, Sender] = {}
        self._session = b""
        self._round = SETUP
        self._limits = limits(terms)

    @property
    def primes(self) -> tuple[int, int]:
        """The private key, for audits of the server's view."""
        return self._private.primes

    def begin(self, session: bytes, number: int) -> None:
        """Enter a round; the setup is round 0."""
        self._session, self._round = session, number
        self._post.enter(session, number, self._limits)

    def leave(self) -> None:
        """End the setup; `total` ends a round."""
        self._post.leave()

    # --- setup ------------------------------------------------------------------------------------

    def announce(self) -> None:
        """(a) Send the Paillier key."""
        modulus = numbers([self._private.public.n], self._terms.modulus_bytes)
        for silo in self._silos:
            self._post.send(silo, ServerKey(modulus))

    def relay_keys(self) -> None:
        """(b) Pass every silo's key on to all silos."""
        keys = self._post.gather(SiloKey, self._silos)
        listed = SiloKeys(
            {name: key.public for name, key in keys.items()},
            {name: key.signature for name, key in keys.items()},
        )
        for silo in self._silos:
            self._post.send(silo, listed)

    def relay_seeds(self) -> None:
        """(c) Pass silo 0's seed on, locked for each other silo."""
        first, *others = self._silos
        locked = self._post.receive(LockedSeeds, first).by_silo
        # The server cannot open the locked seeds; it checks only whom they are for.
        if set(locked) != set(others):
            raise _fault(f"{first} did not send a seed for every other silo.")
        for silo in others:
            self._post.send(silo, LockedSeed(locked[silo]))

    def invert(self) -> None:
        """(f) Add up the silos' columns to B_u = r_u N_u, and invert them modulo n."""
        sent = self._post.gather(Histogram, self._silos)
        checks = [histogram.check for histogram in sent.values()]
        if not all(hmac.compare_digest(checks[0], check) for check in checks):
            raise _fault("The silos do not have the same seed.")
        modulus = int(self._private.public.n)
        columns = [
            self._column(name, histogram.residues, modulus) for name, histogram in sent.items()
        ]
        self._inverses = inverses(columns, modulus)

    def _column(self, silo: str, raw: bytes, modulus: int) -> list[int]:
        parts = separated(raw, self._terms.users, self._terms.modulus_bytes, silo)
        column = [int.from_bytes(part, "big") for part in parts]
        if max(column) >= modulus:
            raise _fault(f"{silo} sent a number that is no residue.")
        return column

    # --- rounds -----------------------------------------------------------------------------------

    def send_inverses(self, joining: ArrayLike | None = None) -> None:
        """(a) Send fresh ciphertexts of B_u^-1, or of 0 for users who are not `joining`.

        `joining` is (users,), true for those who were drawn; None for all.
        """
        real = self._joining(joining)
        ciphertexts = offered(self._private, self._inverses, real, self._workers)
        # Powers of each ciphertext, with which silos raise it to large exponents faster.
        pieces = self._private.powers(ciphertexts, self._terms.pieces, self._workers)
        body = Inverses(b"".join(self._private.public.write(chain.from_iterable(pieces))))
        for silo in self._silos:
            self._post.send(silo, body)

    def open_transfers(self) -> None:
        """(a) Begin an oblivious transfer with every silo."""
        for silo in self._silos:
            agreed = transfer(self._terms, self._session, self._round, silo)
            self._senders[silo] = Sender(agreed)
            self._post.send(silo, TransferOpening(self._senders[silo].point))

    def answer_transfers(self, stream: Stream) -> None:
        """(a) Offer every silo the same P ciphertexts for each user, k real ones among them.

        `stream` decides which of them are real.
        """
        terms = self._terms
        slots, chosen = terms.slots or 0, terms.chosen or 0
        requests = self._post.gather(TransferRequests, self._silos)
        # k of the slots of each user are real, in an order that the silos never learn.
        real = real_slots(stream, terms.users, slots, chosen)
        ciphertexts = offered(self._private, self._inverses, real, self._workers)
        written = self._private.public.write(ciphertexts)
        table = [written[at : at + slots] for at in range(0, len(written), slots)]
        for silo in self._silos:
            answer = self._senders.pop(silo).encrypt(requests[silo].requests, table)
            self._post.send(silo, TransferAnswer(answer))

    def total(self) -> list[int]:
        """(d) Multiply the silos' updates, decrypt, and return V: (dimensions,) integers."""
        terms, public = self._terms, self._private.public
        sent = self._post.gather(Update, self._silos)
        parts = [
            public.read(separated(update.ciphertexts, terms.blocks, terms.ciphertext_bytes, silo))
            for silo, update in sent.items()
        ]
        # Raises where a message is left over: then nothing is decrypted.
        self._post.leave()
        # The product over silos: masks cancel, and each silo's rho hides the randomness left.
        plaintexts = self._private.decrypt_many(aggregate(public, parts), self._workers)
        return terms.packing.unpack(plaintexts, terms.dimensions, int(public.n))

    def _joining(self, joining: ArrayLike | None) -> BoolArray:
        if joining is None:
            return np.ones(self._terms.users, dtype=bool)
        joins = np.asarray(joining)
        if joins.shape != (self._terms.users,) or joins.dtype != np.bool_:
            raise InvalidInput(
                f"`joining` must say true or false for each of {self._terms.users} users."
            )
        return joins

    def __repr__(self) -> str:
        return "Server()"


def _fault(what: str) -> ProtocolFault:
    return ProtocolFault(
        what,
        "A silo does not follow the protocol, or its messages were changed.",
        "Find out which, and begin a new session.",
    )
