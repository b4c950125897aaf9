"""Sums among peers for federated systems: silos' 64-bit integers, added up without a server.

Every silo is a peer of `decentralised`, and each of them learns the sum, and so the sum of the
others.  From everybody else, and from any peers that put together what they know, the vectors of
the others are hidden but for their sum; that rests on two honest peers who are not of them, on the
roster's keys, and on AES-128 and X25519.  What is learnt from the sum is for the noise to cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...accountant import records, validate
from ...accountant.errors import InvalidInput, counted
from ..crypto.additive import WholeRing
from ..crypto.fixed_point_sums import FixedPoint
from ..crypto.keys import Identity, fresh
from ..observers.names import COORDINATOR
from ..parties.network import Network, silo_name
from ..secagg.decentralised import decentralised_sum
from ..secagg.gathering import gathered_sum
from ..secagg.peer_group import Group
from ..secagg.peers import RING_BITS, require_peers, security_among
from .sums import Silo, Sum, indices, integers_of

_SESSION_BYTES: Final = 16

_LARGEST_EXACT: Final = 2**53
"""Up to here every integer is a float."""


class ShareAggregator:
    """The silos see the sum of their integers, and nobody sees more; see `fl.aggregation.sums`.

    Without `fewest`, all silos take part in every round.  With it, a coordinator says in every
    round who is there (`fl.secagg.gathering`), and any `fewest` silos or more may sum; that many
    are what guarantees count with.  One that is missing from its group, or any fault, ends the
    round, and nothing is summed afterwards.  `colluders` may tell a peer all they know; with that
    peer they must leave two, of the smallest group, whose vectors hide each other.  `keep` makes
    the network keep what each party receives.

    A number of a silo, its noise included, is at most 2^62 / n steps of its grid, or `largest`;
    more is refused before anything is sent.  With `whole_ring` every integer of 64 bits is taken,
    and the sum is modulo 2^64: where a refusal would tell something of private numbers.  Raises
    `InvalidInput` for fewer silos than 3, and for more colluders than leave two.
    """

    def __init__(
        self,
        silos: int,
        *,
        colluders: int = 0,
        keep: bool = False,
        whole_ring: bool = False,
        fewest: int | None = None,
    ) -> None:
        require_peers(silos, colluders=colluders, fewest=fewest)
        names = [silo_name(silo) for silo in range(silos)]
        self.network = Network(names if fewest is None else [*names, COORDINATOR], keep=keep)
        self._posts = {name: self.network.post(name) for name in self.network.names}
        self._identities = {name: Identity.new() for name in names}
        self._roster = {name: identity.public for name, identity in self._identities.items()}
        self._whole_ring, self._fewest = whole_ring, fewest
        self._session = bytes(fresh(_SESSION_BYTES))
        self._sums = 0
        self._colluders = colluders
        self._stopped = False

    @property
    def security(self) -> records.Security:
        """The public facts of the protocol, for the log."""
        return security_among(len(self._roster), self._colluders, self._fewest)

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of what the silos make in round `number`, vectors of `length`.

        `present` are the silos that take part, all different, in the order of `silos`; others than
        all of them need `fewest`.  `largest`, up to 2^53, bounds every integer in public, and of a
        word only the bytes travel that a sum of such integers needs.  Raises `MissingParty` where a
        silo does, `ProtocolFault` for any message that is not right and for other vectors,
        `InvalidInput` for numbers that have no room; after any of them nothing is summed any more.
        """
        if self._stopped:
            raise InvalidInput(
                "Sums among peers were stopped by an earlier fault.",
                "Whoever caused it could learn more by having the others go on.",
                "Find out who it was, and begin another run.",
            )
        self._stopped = True  # until the sum is there
        received = self._sum(number, silos, length, present, largest)
        self._stopped = False
        return received

    def _sum(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        present: Sequence[int] | None,
        largest: int | None,
    ) -> Sum:
        parties = len(self._roster)
        if present is None and len(silos) != parties:
            raise InvalidInput(f"There are {parties} silos; {len(silos)} are given.")
        taking_part = indices(present, len(silos), parties)
        fewest = parties if self._fewest is None else self._fewest
        if len(taking_part) < fewest:
            raise InvalidInput(
                f"{counted(len(taking_part), 'silo')} cannot sum; at least {fewest} must take "
                "part.",
                "In a smaller group the total says more about each than was agreed.",
                "Wait until there are enough, or agree on a smaller `fewest` beforehand.",
            )
        # A round may have several sums, and each is a session of its own.
        session = self._session + self._sums.to_bytes(8, "little")
        self._sums += 1
        inputs = {
            silo_name(index): np.ascontiguousarray(integers_of(silo, index))
            for index, silo in zip(taking_part, silos, strict=True)
        }
        agreed = Group(self._roster, fewest, self._grid(largest), length)
        carry_out = decentralised_sum if self._fewest is None else gathered_sum
        totals = carry_out(self._posts, agreed, self._identities, session, number, inputs)
        return Sum(totals[silo_name(taking_part[0])], taking_part)

    def _grid(self, largest: int | None) -> FixedPoint | WholeRing:
        """Return what the integers are: up to `largest`, or as large as there is room for."""
        silos = len(self._roster)
        if self._whole_ring:
            if largest is None:
                return WholeRing(silos)
            raise InvalidInput(
                "`largest` bounds integers, and the whole ring is for those without a bound.",
                "A refusal would tell something of private numbers.",
                "Leave one of them out.",
            )
        # n numbers of at most 2^62 / n add up to less than 2^63: the sum never wraps around.
        most = 1 << (62 - (silos - 1).bit_length())
        if largest is None:
            return FixedPoint(step=1.0, bound=float(most), terms=silos, modulus=2**RING_BITS)
        bound = validate.count(largest=largest)
        if bound > min(most, _LARGEST_EXACT):
            raise InvalidInput(
                f"`largest` must be from 1 to {min(most, _LARGEST_EXACT)} steps; it is {bound}.",
                "A sum of more could wrap around, or the bound is none that a float holds.",
                "Leave it out, or take a coarser grid.",
            )
        return FixedPoint(step=1.0, bound=float(bound), terms=silos, modulus=2**RING_BITS)
