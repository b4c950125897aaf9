"""Masked sums for federated systems: silos' 64-bit integers, summed modulo 2^64.

Noise and updates are integers on one grid, and their sum lies far within 64 bits, so the sum modulo
2^64 is the sum, bit for bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from ...accountant import records
from ...accountant.arrays import IntArray, UInt64Array
from ...accountant.errors import InvalidInput
from ..crypto.keys import fresh
from ..crypto.masks import RingWords
from ..parties.network import SERVER, Network, Post, silo_name
from ..secagg.committee import Committee
from ..secagg.terms import ServerKind, Terms, choose
from .sums import Silo, Sum, check_largest, integers_of

RING_BITS: Final = 64

_SESSION_BYTES: Final = 16


class MaskedAggregator:
    """The server sees the sum of the silos' integers alone; see `fl.aggregation.sums.Aggregator`.

    `dropouts` silos may be missing from a round, and `colluders` tell the server all they know;
    what these learn is accounted, and stands in the log.  Silos are protected from a server that
    lies where that is possible, and else from one that only looks; the masks themselves hold
    against as many colluders as is possible then.  `keep` makes the network keep what each party
    receives.  `posts` are those of its parties, for protocols besides the sums.  Raises
    `InvalidInput` where no masks hold against so many.
    """

    def __init__(
        self, silos: int, *, dropouts: int = 0, colluders: int = 0, keep: bool = False
    ) -> None:
        names = [silo_name(silo) for silo in range(silos)]
        self.network = Network([SERVER, *names], keep=keep)
        self._silos, self._dropouts = silos, dropouts
        self._stated_colluders = colluders
        # Masks hold against a server that lies where most of the silos are honest and present.
        lies = silos > 2 * dropouts + colluders
        self._server: ServerKind = "malicious" if lies else "honest-but-curious"
        # Two honest silos must stay, or the sum of the others shows the last one's vector.
        staying = silos - dropouts
        tolerable = min(staying - 2, staying - dropouts - 1) if lies else staying - 2
        self._colluders = max(colluders, tolerable)
        self.terms(1)  # refused now, not in the first round
        self._posts = {name: self.network.post(name) for name in self.network.names}
        self._committees: dict[tuple[int, int], Committee] = {}
        self._sums: tuple[int, Counter[int]] = (0, Counter())  # of a round, by length
        self._stopped = False

    @property
    def posts(self) -> Mapping[str, Post]:
        """The posts of the server and of every silo, for protocols between its sums."""
        return self._posts

    @property
    def security(self) -> records.Security:
        """The public facts of the protocol, for the log."""
        terms = self.terms(1)
        return records.Security(
            "pairwise-masks",
            parties=terms.parties,
            fewest=terms.fewest,
            threshold=terms.threshold,
            degree=terms.degree,
            ring_bits=terms.ring_bits,
            server=terms.server,
            colluders=self._stated_colluders,
        )

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

        All silos begin every round, so `present` is all of them.  Raises as `Committee.sum` does;
        after a fault nothing is summed any more, of any length.
        """
        if present is not None and tuple(present) != tuple(range(self._silos)):
            raise InvalidInput(
                f"Masked sums begin with all {self._silos} silos, and `present` names others.",
                "Masks are agreed on among all; one that is away is a dropout, of which so many "
                "may be.",
                "Leave `present` out, or sum among peers who say that they are there.",
            )
        if self._stopped:
            raise InvalidInput(
                "Masked sums were stopped by an earlier fault.",
                "Whoever caused it could learn more by having the others go on.",
                "Find out who it was, and begin another run.",
            )
        try:
            return self._sum(number, silos, length, largest)
        except BaseException:
            self._stopped = True
            raise

    def _sum(self, number: int, silos: Sequence[Silo], length: int, largest: int | None) -> Sum:
        if self._sums[0] != number:
            self._sums = (number, Counter())
        self._sums[1][length] += 1
        key = (length, self._sums[1][length])  # several sums of a round have a committee each
        if key not in self._committees:
            session = bytes(fresh(_SESSION_BYTES))
            self._committees[key] = Committee(self._posts, self.terms(length), session)
        inputs: dict[str, Callable[[], UInt64Array]] = {
            silo_name(index): partial(words_of, silo, index, largest)
            for index, silo in enumerate(silos)
        }
        words, names = self._committees[key].sum(number, inputs)
        present = tuple(index for index in range(self._silos) if silo_name(index) in names)
        return Sum(signed(words), present)

    def terms(self, length: int) -> Terms:
        """Return the terms of a sum of so many integers, which all parties hold in common."""
        return choose(
            self._silos,
            length=length,
            dropouts=self._dropouts,
            colluders=self._colluders,
            ring_bits=RING_BITS,
            server=self._server,
        )


def words_of(silo: Silo, index: int, largest: int | None) -> UInt64Array:
    """Return what a silo makes, as words; raises as `integers_of` and `check_largest` do."""
    integers = integers_of(silo, index)
    check_largest(integers, largest)
    return np.ascontiguousarray(integers, "<i8").view("<u8")


def signed(words: RingWords) -> IntArray:
    """Return a sum that lies within 63 bits, by its residue modulo 2^64, read as signed."""
    return words.astype("<u8", copy=False).view(np.int64)
