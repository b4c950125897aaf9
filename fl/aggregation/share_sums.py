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

from ...accountant import records
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput, ProtocolFault
from ..crypto.fixed_point import FixedPoint
from ..crypto.keys import Identity, fresh
from ..crypto.whole_ring import WholeRing
from ..parties.network import Network, silo_name
from ..secagg.decentralised import Group, decentralised_sum
from ..secagg.peers import RING_BITS, require_peers, security_among
from .sums import Silo, Sum

_SESSION_BYTES: Final = 16


class ShareAggregator:
    """The silos see the sum of their integers, and nobody sees more; see `fl.aggregation.sums`.

    All silos take part in every round: one that is missing, or any fault, ends it, and nothing is
    summed afterwards.  `colluders` of them may tell a peer all they know; with that peer they must
    leave two whose vectors hide each other.  `keep` makes the network keep what each receives.

    A number of a silo, its noise included, is at most 2^62 / n steps of its grid; more is refused
    before anything is sent.  With `whole_ring` every integer of 64 bits is taken, and the sum is
    modulo 2^64: where a refusal would tell something of private numbers.  Raises `InvalidInput` for
    fewer silos than 3, and for more colluders than leave two.
    """

    def __init__(
        self, silos: int, *, colluders: int = 0, keep: bool = False, whole_ring: bool = False
    ) -> None:
        require_peers(silos, colluders=colluders)
        names = [silo_name(silo) for silo in range(silos)]
        self.network = Network(names, keep=keep)
        self._posts = {name: self.network.post(name) for name in names}
        self._identities = {name: Identity.new() for name in names}
        self._roster = {name: identity.public for name, identity in self._identities.items()}
        # n numbers of at most 2^62 / n add up to less than 2^63: the sum never wraps around.
        largest = 2.0 ** (62 - (silos - 1).bit_length())
        self._grid = (
            WholeRing(silos)
            if whole_ring
            else FixedPoint(step=1.0, bound=largest, terms=silos, modulus=2**RING_BITS)
        )
        self._session = bytes(fresh(_SESSION_BYTES))
        self._sums = 0
        self._colluders = colluders
        self._stopped = False

    @property
    def security(self) -> records.Security:
        """The public facts of the protocol, for the log."""
        return security_among(len(self._roster), self._colluders)

    def total(self, number: int, silos: Sequence[Silo], length: int) -> Sum:
        """Return the sum of what the silos make in round `number`, vectors of `length`.

        Raises `MissingParty` where a silo does, `ProtocolFault` for any message that is not right
        and for other vectors, `InvalidInput` for numbers that have no room; after any of them
        nothing is summed any more.
        """
        if self._stopped:
            raise InvalidInput(
                "Sums among peers were stopped by an earlier fault.",
                "Whoever caused it could learn more by having the others go on.",
                "Find out who it was, and begin another run.",
            )
        self._stopped = True  # until the sum is there
        total = self._sum(number, silos, length)
        self._stopped = False
        return total

    def _sum(self, number: int, silos: Sequence[Silo], length: int) -> Sum:
        if len(silos) != len(self._roster):
            raise InvalidInput(f"There are {len(self._roster)} silos; {len(silos)} are given.")
        group = Group(self._roster, len(self._roster), self._grid, length)
        # A round may have several sums, and each is a session of its own.
        session = self._session + self._sums.to_bytes(8, "little")
        self._sums += 1
        inputs = {silo_name(index): _integers(silo, index) for index, silo in enumerate(silos)}
        totals = decentralised_sum(self._posts, group, self._identities, session, number, inputs)
        return Sum(totals[silo_name(0)], tuple(range(len(silos))))


def _integers(silo: Silo, index: int) -> IntArray:
    sent = silo()
    if not isinstance(sent, np.ndarray) or sent.dtype != np.dtype(np.int64):
        raise ProtocolFault(
            f"{silo_name(index)} did not make integers of 64 bits.",
            "Others would be cut off before they are summed, their noise too.",
            "Find out which model it has, and begin again.",
        )
    return np.ascontiguousarray(sent)
