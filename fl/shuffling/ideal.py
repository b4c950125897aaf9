"""A shuffled round without ciphertexts: the same parties' work on arrays, as if boxes were opaque.

Messages, dummies and what is left out are those of `fl.shuffling.Shuffling`, bit for bit, and so
are the sums; the order within a coordinate changes none of them, and is not drawn.  Nothing keeps
the shuffler from reading: that it does not is supposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import records
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Messages, Ticket
from .rounds import ORDER_STREAM, checked_messages
from .terms import Terms, dummy_blocks, fault, kept_messages, lacking, require_honest, summable


@dataclass(frozen=True, eq=False)
class MixedSums:
    """What the analyzer makes of the mixed messages: `sums` (dimensions, 1) of int64, exact."""

    sums: IntArray


class IdealShuffling:
    """The clients, shuffler and analyzer of all rounds, without messages between them.

    `colluders` of the clients may tell the analyzer all they know.  Raises `InvalidInput` for
    messages of several integers, and where fewer than two clients are left.
    """

    network: Final = None

    def __init__(self, terms: Terms, *, colluders: int = 0) -> None:
        if terms.width > 1:
            raise InvalidInput(
                "Messages of several integers are mixed by `Shuffling` alone.",
                next_step="Send each coordinate as a message of its own.",
            )
        self.terms, self._colluders = terms, require_honest(terms, colluders)

    def with_terms(self, terms: Terms) -> IdealShuffling:
        """Return the same parties with other terms, for rounds of other messages."""
        return IdealShuffling(terms, colluders=self._colluders)

    @property
    def security(self) -> records.Security:
        """The public facts of the protocol; without a key, as nothing is encrypted."""
        clients = self.terms.clients
        return records.Security(
            "shuffler", parties=clients, fewest=clients, colluders=self._colluders
        )

    def round(
        self,
        number: int,
        ticket: Ticket,
        messages: ArrayLike,
        *,
        places: ArrayLike | None = None,
        mechanism: Messages | None = None,
    ) -> MixedSums:
        """Return the sums of what the analyzer has of a round; arguments as `Shuffling.round`.

        Raises `InvalidInput` for other arrays, and `ProtocolFault` where a coordinate overflows and
        that is refused, and for a message that is too large to be summed.
        """
        sent, chosen = checked_messages(self.terms, messages, places)
        values, coordinates = sent.reshape(-1), chosen.reshape(-1)
        if not summable(values, self.terms.count):
            raise fault("A message is too large to be summed.")
        missing = lacking(self.terms, coordinates)
        order = ticket.stream(ORDER_STREAM).fork()
        kept = kept_messages(order, self.terms, coordinates, missing)
        if not kept.all():
            values, coordinates = values[kept], coordinates[kept]
        sums = np.zeros(self.terms.dimensions, np.int64)
        self.add(sums, coordinates, values)
        if mechanism is not None and self.terms.padded_to is not None:
            self._add_dummies(sums, ticket, mechanism, np.maximum(missing, 0))
        return MixedSums(sums[:, None])

    def _add_dummies(
        self, sums: IntArray, ticket: Ticket, mechanism: Messages, missing: IntArray
    ) -> None:
        """Add so many dummies to the sum of each coordinate, in place."""
        ends = np.cumsum(missing)
        edges = np.concatenate(([0], ends))
        done = 0
        for part in dummy_blocks(mechanism, ticket, self.terms, int(ends[-1])):
            # How many of this block stand in each coordinate.
            counts = np.diff(np.clip(edges, done, done + len(part)))
            self.add(sums, np.repeat(np.arange(len(sums)), counts), part)
            done += len(part)

    def add(self, sums: IntArray, coordinates: IntArray, values: IntArray) -> None:
        """Add messages to the sums of their coordinates, in place: all that the analyzer gets."""
        np.add.at(sums, coordinates, values)
