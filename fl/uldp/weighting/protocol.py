"""A session of private weighting between a server and silos of one process.

What it protects, and what that rests on:

- The server sees V, the sum of all silos with all noise in it, and values that are uniform
  whatever the counts and the digits are.  With user sampling by oblivious transfer it does not see
  who takes part.  For that it must follow the protocol, and no silo may tell it what it knows.
- A silo sees ciphertexts under the server's key, and what the server makes public of V.
- The silos know each other's identities beforehand; the server, which relays their keys, cannot
  put itself between two of them.
- Every silo takes part to the end.  One that does not ends the session, for everybody.
- How long a party takes is not hidden: a silo works on the users that it has records of, so its
  time tells about how many they are, as the time of its training does.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1, with
these changes: noise on the grid of what is decrypted, ciphertext randomness hidden by masks in
Z*_{n^2} and by each silo's own, seeds of 256 bits, authenticated keys, capped counts, and a dummy
for every user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from numpy.typing import ArrayLike

from ....accountant import validate
from ....accountant.errors import InvalidInput, ProtocolFault
from ....accountant.randomness import Stream
from ....accountant.records import Security
from ...crypto.keys import Identity, fresh
from ...crypto.paillier.processes import Workers
from ...parties.network import SERVER, Network, silo_name
from .counts import reduced_counts
from .enrolment import SETUP, Draw, Enrolment
from .server import Server
from .silo import Noise, Rows, Silo
from .terms import WeightingTerms

_SESSION_BYTES: Final = 16


class PrivateWeighting:
    """One session: made, it has carried out the setup; `round` carries out one round.

    `counts` (users, silos) are records; each silo is handed its own column.  `network` is made if
    none is given, and must have the parties `names(terms)`.  `identities` by silo, if they are to
    be known beyond the session.  `stream` gives the session's name and the silos' common seed,
    which decides who is drawn by oblivious transfer; the operating system, if none is given, as it
    gives everything else.  `processes` share the heavy work of each party; `rounds` is how many are
    planned (for speed alone).

    Raises `ProtocolFault` (`MissingParty`) where a party or a message is not what it must be.  Any
    error within a round ends the session: begin another one.  Digits and noise are integers, as
    `accountant.mechanisms.FineGaussian` makes them of floats.

    >>> from privplan.fl.uldp.weighting.terms import WeightingTerms
    >>> terms = WeightingTerms(users=2, silos=2, dimensions=3, largest=100, tail=0, count_limit=5,
    ...                        digits=8, key_bits=512, weak_key=True)
    >>> session = PrivateWeighting(terms, [[1, 1], [2, 0]])
    >>> rows = [([0, 1], [[30, 0, -9], [60, 0, 0]]), ([0], [[3, 3, 0]])]
    >>> session.round(1, rows, [[0, 0, 0], [0, 0, 0]])  # 60/3 (30 + 3) + 120/3 60, ...
    [3060, 60, -180]
    """

    def __init__(
        self,
        terms: WeightingTerms,
        counts: ArrayLike,
        network: Network | None = None,
        *,
        identities: Mapping[str, Identity] | None = None,
        stream: Stream | None = None,
        processes: int = 1,
        rounds: int = 1,
    ) -> None:
        # The whole table is here only because all parties run in one process.
        reduced = reduced_counts(counts, terms)
        if reduced.shape != (terms.users, terms.silos):
            raise InvalidInput(f"`counts` must be {terms.users} users by {terms.silos} silos.")
        self.terms = terms
        self.network = Network(names(terms)) if network is None else network
        draw: Draw = fresh if stream is None else stream.bytes
        self._session = bytes(draw(_SESSION_BYTES))
        self._over, self._last = False, SETUP
        workers = Workers(processes)
        known = _identities(terms, identities)
        roster = {name: identity.public for name, identity in known.items()}
        self._server = Server(terms, self.network.post(SERVER), workers=workers)
        posts = [self.network.post(name) for name in known]
        enrolments = [
            Enrolment(number, terms, reduced[:, number], identity, roster, posts[number], draw)
            for number, identity in enumerate(known.values())
        ]
        _enrol(self._server, enrolments, self._session)
        self._silos = [
            Silo(enrolment.member(), post, rounds=rounds, workers=workers)
            for enrolment, post in zip(enrolments, posts, strict=True)
        ]
        for silo in self._silos:
            silo.prepare()
        if terms.drawn_by == "nobody":
            self._hand_out(None)
        for silo in self._silos:
            silo.leave()
        self._server.leave()

    @property
    def modulus(self) -> int:
        """The Paillier modulus n, public."""
        return math.prod(self.primes)

    @property
    def primes(self) -> tuple[int, int]:
        """The server's private key, for audits of its view: it is what the server owns itself."""
        return self._server.primes

    @property
    def security(self) -> Security:
        """The public facts of the protocol, for the log."""
        return self.terms.security()

    def round(
        self,
        number: int,
        rows: Sequence[Rows],
        noise: Sequence[Noise],
        *,
        joining: ArrayLike | None = None,
        stream: Stream | None = None,
    ) -> list[int]:
        """Return V of one round: D integers, exactly sum_s (sum_u (m c_su / N_u) d_su + z_s).

        `rows` are, by silo, the users (n,) and their digits (n, D); a user that is left out counts
        as zeros.  `noise` are, by silo, D integers or what draws them.  `joining` (users,) says who
        was drawn, where the server draws; `stream` orders the slots of an oblivious transfer.
        `number` is above that of all earlier rounds.

        Raises `InvalidInput` for rows and noise beyond their bounds, and what `PrivateWeighting`
        raises.
        """
        if self._over:
            raise ProtocolFault(
                "This session of private weighting has ended with a fault.",
                "What a party has seen of a broken round may undo what protects the next one.",
                "Begin a new session.",
            )
        self._check(number, rows, noise, joining, stream)
        self._over = True  # until the round is complete: a fault in it ends the session
        for silo in self._silos:
            silo.begin(number)
        self._server.begin(self._session, number)
        if self.terms.drawn_by == "server":
            self._hand_out(joining)
        elif stream is not None:
            self._transfer(stream)
        for silo, silo_rows, share in zip(self._silos, rows, noise, strict=True):
            silo.update(silo_rows, share)
            silo.leave()
        total = self._server.total()
        self._over, self._last = False, number
        return total

    def _hand_out(self, joining: ArrayLike | None) -> None:
        """(a) The server sends every silo Enc(B_u^-1), or Enc(0) for users who do not join."""
        self._server.send_inverses(joining)
        for silo in self._silos:
            silo.take_inverses()

    def _transfer(self, stream: Stream) -> None:
        """(a) By oblivious transfer: the server does not see which slot the silos take."""
        self._server.open_transfers()
        for silo in self._silos:
            silo.request()
        self._server.answer_transfers(stream)
        for silo in self._silos:
            silo.take_chosen()

    def _check(
        self,
        number: int,
        rows: Sequence[Rows],
        noise: Sequence[Noise],
        joining: ArrayLike | None,
        stream: Stream | None,
    ) -> None:
        """Refuse wrong arguments before any party acts on them; the session goes on."""
        drawn_by = self.terms.drawn_by
        if validate.count(number=number) <= self._last:
            raise InvalidInput(f"Round {self._last} of this session is over; give a later number.")
        if len(rows) != self.terms.silos or len(noise) != self.terms.silos:
            raise InvalidInput(
                f"`rows` and `noise` must have one entry for each of {self.terms.silos} silos."
            )
        if (joining is not None) != (drawn_by == "server"):
            raise InvalidInput("`joining` is for users that the server draws, and needed there.")
        if (stream is not None) != (drawn_by == "oblivious-transfer"):
            raise InvalidInput("`stream` is for an oblivious transfer, and needed there.")

    def __repr__(self) -> str:
        return f"PrivateWeighting(users={self.terms.users}, silos={self.terms.silos})"


def names(terms: WeightingTerms) -> list[str]:
    """Return the names of all parties, the server first."""
    return [SERVER, *(silo_name(silo) for silo in range(terms.silos))]


def _identities(terms: WeightingTerms, given: Mapping[str, Identity] | None) -> dict[str, Identity]:
    """Return each silo's identity, in the silos' order; new ones if none are given."""
    silos = names(terms)[1:]
    if given is None:
        return {name: Identity.new() for name in silos}
    if set(given) != set(silos):
        raise InvalidInput("`identities` must hold one for every silo, and no other.")
    return {name: given[name] for name in silos}


def _enrol(server: Server, silos: Sequence[Enrolment], session: bytes) -> None:
    """Carry out steps (a) to (f) of the setup."""
    for silo in silos:
        silo.begin(session)
    server.begin(session, SETUP)
    # (a) The Paillier key; a signed key of each silo.
    server.announce()
    for silo in silos:
        silo.answer_key()
    # (b), (c) Pairwise keys, and silo 0's seed for the others: the server sees neither.
    server.relay_keys()
    for silo in silos:
        silo.meet()
    server.relay_seeds()
    # (d) to (f) Blinded and masked counts: the server sees B_u = r_u N_u, uniform in Z_n*.
    for silo in silos:
        silo.send_histogram()
    server.invert()
