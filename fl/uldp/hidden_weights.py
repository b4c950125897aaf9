"""ULDP-AVG and ULDP-SGD by records, with weights that nobody sees: the private weighting protocol.

    silo s:  under encryption, sum_u (c_su / N_u) clip_C(d_su) + noise;   N_u = sum_s c_su + 1
    server:  decrypts the sum over all silos, and nothing else

A user's count in a silo is a public function of the records there, capped, and one dummy is counted
for everybody (`weighting.counts`), so weights are a little below n_su / N_u and sum to less than 1:
a user moves the sum by less than C.  Updates are clipped as integers, and every silo's noise stands
on the grid of what is decrypted (`accountant.mechanisms.fine`), so that no residue is without it.

A silo is not told who was drawn, so it trains on all of its users in every round, and those who
were not are weighted by an encrypted 0.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1; what
is done differently, and why, stands in `weighting.protocol`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import FineGaussian, Ticket
from ...accountant.mechanisms.clip import Sparse
from ...accountant.sensitivity.release import up
from ..aggregation.clip_check import ITEM as RECOMPUTED
from ..aggregation.term_norms import norms_of
from ..frame.model import Parameters
from ..frame.opening import OpeningStatement
from ..frame.setup import Setup
from ..frame.state import Arrays, State
from ..parties.network import Network
from .averaging import RoundSum, UldpAvg
from .weighting.counts import reduced_counts, rounded_weights
from .weighting.protocol import PrivateWeighting, names
from .weighting.terms import WeightingTerms, common_multiple

if TYPE_CHECKING:
    from ...accountant.mechanisms import Gate
    from ...accountant.randomness import Streams
    from ..frame.model import Round

UPDATE_DIGIT_BITS: Final = 16
"""Bits of one number of a clipped update, with its sign."""

MIN_GRID_STEPS_PER_SHARE: Final = 2**19
"""Steps of the grid in one share of the noise, at least.

An audit takes 64 steps^2 off a share's variance, as a log does not say whether they are in it
already.  With so many steps epsilon is the same to 10^-9, up to which audits compare.
"""

SLOT_ORDER_STREAM: Final = "sampling/slots"
"""The stream that puts the real answers of an oblivious transfer into their order."""


SESSION_STREAM: Final = "weighting/session"
"""The stream of what a session of the protocol is known by, and of the silos' common seed."""


class UldpAvgHiddenWeights(UldpAvg):
    """ULDP-AVG or ULDP-SGD with hidden weights; see the module.

    `streams` are those of the run, from which the silos' common seed comes; it decides who is drawn
    by oblivious transfer.  `weak_key` allows keys that are too short to hide anything, for tests.
    Raises `InvalidInput` for weights by another rule than `records`, and for slots that do not give
    the sampling rate.
    """

    hidden = True
    state = State()

    def __init__(
        self, setup: Setup, *, step: str, streams: Streams | None = None, weak_key: bool = False
    ) -> None:
        super().__init__(setup, step=step)
        self._weak_key = weak_key
        self._streams = streams
        self._present = [np.flatnonzero(column > 0) for column in setup.federation.counts.T]
        self._session: PrivateWeighting | None = None
        _ = self._chosen

    def mechanism(self, noise_multiplier: float) -> FineGaussian:
        """Return the noise of one round, on the grid of what is decrypted."""
        multiple = common_multiple(self.setup.security.count_limit)
        made = FineGaussian.of(self.summing(noise_multiplier), multiple, UPDATE_DIGIT_BITS)
        if Fraction(made.share_std) < MIN_GRID_STEPS_PER_SHARE * made.step:
            raise InvalidInput(
                "The noise of one silo is too little for `count_limit` in [security]: less than "
                "2^19 steps of its grid.",
                "An audit, which takes the rounding to the grid off, would find a little less "
                "noise than is promised.",
                "Give a larger `count_limit`, or more noise.",
            )
        return made

    @cached_property
    def terms(self) -> WeightingTerms:
        """What all parties agree on."""
        own, security = self.setup, self.setup.security
        mechanism = self.mechanism(self.promise.noise_multiplier)
        return WeightingTerms(
            users=own.users,
            silos=own.silos,
            dimensions=self.initial().size,
            largest=mechanism.largest,
            tail=mechanism.tail,
            key_bits=security.key_bits,
            count_limit=security.count_limit,
            records_per_count=security.records_per_count,
            digits=UPDATE_DIGIT_BITS,
            drawn_by=self.drawn_by if self.rate < 1.0 else "nobody",
            slots=security.slots,
            chosen=self._chosen,
            weak_key=self._weak_key,
        )

    @cached_property
    def network(self) -> Network:
        """Between whom messages travel."""
        return Network(names(self.terms), keep=self.setup.security.keep_transcripts)

    @property
    def rate(self) -> float:
        """The probability with which a user joins a round; of real slots, rounded up."""
        if self._chosen is None or self.setup.security.slots is None:
            return super().rate
        return up(Fraction(self._chosen, self.setup.security.slots))

    @property
    def drawn_by(self) -> Literal["server", "oblivious-transfer"]:
        """Who draws the sample of users, where there is one."""
        return "server" if self.setup.security.slots is None else "oblivious-transfer"

    def opening(self) -> OpeningStatement:
        """Return what the run states first, with the parameters of the protocol."""
        found = super().opening()
        return OpeningStatement(
            found.claim,
            found.plan,
            found.population,
            found.aggregation,
            self.terms.security(),
        )

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round; before the first, the parties agree on keys and count their records."""
        if self._session is None:
            with gate.before(number):
                self._session = PrivateWeighting(
                    self.terms,
                    self.setup.federation.counts,
                    self.network,
                    stream=None if self._streams is None else self._streams.stream(SESSION_STREAM),
                    processes=self.setup.security.processes,
                    rounds=self.setup.rounds,
                )
        return super().round(number, parameters, gate, state)

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> RoundSum:
        """Return the noisy sum of one round, as the server decrypts it."""
        assert self._session is not None  # made by `round`
        mechanism = self.mechanism(self.promise.noise_multiplier)
        rows, norms = self._rows(parameters, number, mechanism)
        width, watch = parameters.size, self.residuals.watch(ticket.intent.noise)

        def share(silo: int) -> list[int]:
            drawn = mechanism.share(ticket, width, f"noise/silo-{silo}")
            watch.share(silo, mechanism.units(drawn), 1.0)
            return drawn

        noise = [partial(share, silo) for silo in range(self.setup.silos)]
        sealed: dict[str, object] = {}
        joining, slots = None, None
        if self.terms.drawn_by == "server":
            joining = self.joining(ticket)
            sealed["joined"] = int(joining.sum())
        elif self.terms.drawn_by == "oblivious-transfer":
            slots = ticket.stream(SLOT_ORDER_STREAM)
        total = self._session.round(number, rows, noise, joining=joining, stream=slots)
        found = mechanism.units(total)
        if slots is None:  # else nobody knows whose digits are in the sum
            exact = self._sum(rows, joining, mechanism)
            watch.whole(found - exact, 1.0, range(self.setup.silos))
        sealed |= watch.items() | self._limits(rows, mechanism)
        return RoundSum(found, self.setup.silos, norms, sealed)

    def _sum(
        self,
        rows: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
        joining: NDArray[np.bool_] | None,
        mechanism: FineGaussian,
    ) -> NDArray[np.float64]:
        """Return the sum that noise was added to, in units: what no party of the protocol knows."""
        total = np.zeros(rows[0][1].shape[1])
        for silo, (users, digits) in enumerate(rows):
            weights = self._weights[users, silo]
            if joining is not None:
                weights = weights * joining[users]
            total += weights @ digits
        return total * mechanism.unit_grid

    def _limits(
        self,
        rows: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
        mechanism: FineGaussian,
    ) -> dict[str, object]:
        """Return how near to their limits terms and weights came; see `clip_check`."""
        squares = [np.einsum("ij,ij->i", digits, digits).max(initial=0) for _, digits in rows]
        return {
            RECOMPUTED: {
                "terms": sum(len(users) for users, _ in rows),
                "sum_off": None,
                "term_largest": math.sqrt(max(squares)) / mechanism.largest,
                "weight_largest": float(self._weights.sum(axis=1).max()),
            }
        }

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """What each user weighs in each silo, (users, silos), as nobody knows it."""
        return rounded_weights(reduced_counts(self.setup.federation.counts, self.terms))

    def _rows(
        self, parameters: Parameters, number: int, mechanism: FineGaussian
    ) -> tuple[
        list[tuple[NDArray[np.int64], NDArray[np.int64]]],
        list[NDArray[np.float64]],
    ]:
        """Return each silo's users, the digits of their updates, and the norms of these."""
        silos = range(self.setup.silos)
        users: list[list[NDArray[np.int64]]] = [[np.empty(0, np.int64)] for _ in silos]
        digits = [[np.empty((0, parameters.size), np.int64)] for _ in silos]
        norms: list[list[NDArray[np.float64]]] = [[np.empty(0)] for _ in silos]
        for part in self.updates(parameters, self._present, number):
            table = part.rows.dense() if isinstance(part.rows, Sparse) else part.rows
            for silo in np.unique(part.silo).tolist():
                own = part.silo == silo
                users[silo].append(part.user[own])
                digits[silo].append(mechanism.clipped(table[own]))
                norms[silo].append(norms_of(table[own]))
        rows = [
            (np.concatenate(who), np.concatenate(what))
            for who, what in zip(users, digits, strict=True)
        ]
        return rows, [np.concatenate(one) for one in norms]

    @cached_property
    def _chosen(self) -> int | None:
        """How many slots of an oblivious transfer are real, so that the rate is what was asked."""
        rate, slots = self.setup.privacy.sampling_rate, self.setup.security.slots
        if slots is None:
            return None
        chosen = round(rate * slots)
        if not 0 < chosen < slots or chosen / slots != rate:
            raise InvalidInput(
                f"{slots} slots cannot give a sampling rate of {rate!r}.",
                "A user joins with probability k / slots, where k of so many answers are real.",
                "Give a rate that is a whole number of slots, below 1.",
            )
        return chosen
