"""ULDP-AVG and ULDP-SGD weighted by records, under weights that nobody sees: private weighting.

    silo s:  sends Enc( sum_u (c_su / N_u) clip_C(d_su) + noise );   N_u = sum_s c_su + 1
    server:  decrypts the sum over all silos, and sees nothing else

c_su is user u's record count in silo s, capped by a public rule; the 1 in N_u is a dummy that is
counted for every user (`weighting.counts`).  Weights are therefore slightly below n_su / N_u and
sum to less than 1, and adding or removing a user moves the sum by less than C.  Updates are clipped
as integers.  Every silo's noise is on the grid of the decrypted integers
(`accountant.mechanisms.fine_grid_gaussian`), so no residue of the sum is free of noise.

A silo does not learn which users were drawn: it trains on all of its users in every round, and
those who were not drawn are weighted by an encrypted 0.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1; what
is changed, and why, is said in `weighting.protocol`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import FineGaussian, Ticket
from ...accountant.mechanisms.clip import Sparse
from ..aggregation.clip_check import ITEM as RECOMPUTED
from ..aggregation.clip_check import norms_of
from ..frame.model import Parameters
from ..frame.opening import OpeningStatement
from ..frame.requirements import refuse
from ..frame.setup import Setup
from ..frame.state import Arrays, State
from ..parties.network import Network
from ..settings.security_rules import slots_complaint
from .averaging import RoundSum, UldpAvg
from .terms import UPDATE_DIGIT_BITS
from .weighting.counts import reduced_counts, rounded_weights
from .weighting.protocol import PrivateWeighting, names
from .weighting.terms import DrawnBy, WeightingTerms

if TYPE_CHECKING:
    from ...accountant.mechanisms import Gate
    from ...accountant.randomness import Streams
    from ..frame.model import Round

MIN_HIDDEN_STEPS_PER_SHARE: Final = 2**19
"""The least std of one share of the noise, in steps of its grid.

An audit subtracts 64 steps^2 from a share's variance, as a log does not say whether the rounding to
the grid is in it.  With this many steps epsilon changes by less than 10^-9, to which audits
compare.
"""

SLOT_ORDER_STREAM: Final = "sampling/slots"
"""The random stream that orders the slots of an oblivious transfer."""


SESSION_STREAM: Final = "weighting/session"
"""The random stream of a session's name and of the silos' common seed."""


class UldpAvgHiddenWeights(UldpAvg):
    """ULDP-AVG or ULDP-SGD under hidden weights; see the module.

    `streams` are the random streams of the run; the silos' common seed comes from them, which
    decides who is drawn by oblivious transfer.  `weak_key` allows keys that are too short to hide
    anything, for tests.  Raises `InvalidInput` for another rule of weights than `records`, and for
    slots that cannot give the sampling rate.
    """

    hides_weights = True
    state = State()

    def __init__(
        self, setup: Setup, *, step: str, streams: Streams | None = None, weak_key: bool = False
    ) -> None:
        super().__init__(setup, step=step)
        self._weak_key = weak_key
        self._streams = streams
        self._present = [np.flatnonzero(column > 0) for column in setup.federation.counts.T]
        self._session: PrivateWeighting | None = None
        refuse(setup, slots_complaint(setup.security.slots, setup.privacy.sampling_rate))

    def mechanism(self, noise_multiplier: float) -> FineGaussian:
        """Return the noise of one round, on the grid of the decrypted integers."""
        mechanism = self.terms.mechanism(noise_multiplier)
        assert isinstance(mechanism, FineGaussian)
        if Fraction(mechanism.share_std) < MIN_HIDDEN_STEPS_PER_SHARE * mechanism.step:
            raise InvalidInput(
                "The noise of one silo is too little for `count_limit` in [security]: less than "
                "2^19 steps of its grid.",
                "An audit, which takes the rounding to the grid off, would find a little less "
                "noise than is promised.",
                "Give a larger `count_limit`, or more noise.",
            )
        return mechanism

    @cached_property
    def protocol_terms(self) -> WeightingTerms:
        """The public parameters that all parties agree on."""
        setup, security = self.setup, self.setup.security
        mechanism = self.mechanism(self.promise.noise_multiplier)
        drawn_by: DrawnBy = "server" if security.slots is None else "oblivious-transfer"
        return WeightingTerms(
            users=setup.users,
            silos=setup.silos,
            dimensions=self.initial().size,
            largest=mechanism.largest,
            tail=mechanism.tail,
            key_bits=security.key_bits,
            count_limit=security.count_limit,
            records_per_count=security.records_per_count,
            digits=UPDATE_DIGIT_BITS,
            drawn_by="nobody" if self.rate == 1.0 else drawn_by,
            slots=security.slots,
            chosen=self.terms.real_slots,
            weak_key=self._weak_key,
        )

    @cached_property
    def network(self) -> Network:
        """The parties and their messages."""
        return Network(names(self.protocol_terms), keep=self.setup.security.keep_transcripts)

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states, with the parameters of the protocol."""
        return replace(super().opening(), security=self.protocol_terms.security())

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round; before the first one, the parties exchange keys and blinded counts."""
        if self._session is None:
            with gate.before(number):
                self._session = PrivateWeighting(
                    self.protocol_terms,
                    self.setup.federation.counts,
                    self.network,
                    stream=None if self._streams is None else self._streams.stream(SESSION_STREAM),
                    processes=self.setup.security.processes,
                    rounds=self.setup.rounds,
                )
        return super().round(number, parameters, gate, state)

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> RoundSum:
        """Return the noisy sum of one round, as the server decrypts it.

        A silo sees encrypted weights, and sends its encrypted sum with its share of the noise; the
        server sees the sum of all, and who was drawn only where it draws.
        """
        assert self._session is not None  # created by `round`
        mechanism = self.mechanism(self.promise.noise_multiplier)
        # Every silo trains on all of its users, as it does not know who was drawn.
        rows, norms = self._rows(parameters, number, mechanism)
        width, monitor = parameters.size, self.residuals.monitor(ticket.intent.noise)

        def share(silo: int) -> list[int]:
            steps = mechanism.share(ticket, width, f"noise/silo-{silo}")
            monitor.share(silo, mechanism.units(steps), 1.0)
            return steps

        noise = [partial(share, silo) for silo in range(self.setup.silos)]
        sealed: dict[str, object] = {}
        joining, slots = None, None
        if self.protocol_terms.drawn_by == "server":
            joining = self.joining(ticket)
            sealed["joined"] = int(joining.sum())
        elif self.protocol_terms.drawn_by == "oblivious-transfer":
            slots = ticket.stream(SLOT_ORDER_STREAM)
        # Integers V in steps of the fine grid; each silo draws its own share of the noise.
        total = self._session.round(number, rows, noise, joining=joining, stream=slots)
        noisy = mechanism.units(total)
        if slots is None:  # by oblivious transfer nobody knows who is in the sum
            exact = self._sum(rows, joining, mechanism)
            monitor.whole(noisy - exact, 1.0, range(self.setup.silos))
        sealed |= monitor.items() | self._limits(rows, mechanism)
        return RoundSum(noisy, self.setup.silos, norms, sealed)

    def _sum(
        self,
        rows: Sequence[tuple[IntArray, IntArray]],
        joining: BoolArray | None,
        mechanism: FineGaussian,
    ) -> FloatArray:
        """Return sum_s sum_u w_su d_su without noise, (D,), in units; no party sees it."""
        total = np.zeros(rows[0][1].shape[1])
        for silo, (users, digits) in enumerate(rows):
            weights = self._weights[users, silo]
            if joining is not None:
                weights = weights * joining[users]
            total += weights @ digits
        return total * mechanism.unit_grid

    def _limits(
        self,
        rows: Sequence[tuple[IntArray, IntArray]],
        mechanism: FineGaussian,
    ) -> dict[str, object]:
        """Return how close terms and weights came to their bounds, for the sealed sidecar."""
        # Squared norms of the integer updates, exact in int64.
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
    def _weights(self) -> FloatArray:
        """The weights c_su / N_u, (users, silos), rounded down; no party sees them all."""
        return rounded_weights(reduced_counts(self.setup.federation.counts, self.protocol_terms))

    def _rows(
        self, parameters: Parameters, number: int, mechanism: FineGaussian
    ) -> tuple[
        list[tuple[IntArray, IntArray]],
        list[FloatArray],
    ]:
        """Return by silo its users (n,) and their clipped integer updates (n, D), and all norms."""
        silos = range(self.setup.silos)
        users: list[list[IntArray]] = [[np.empty(0, np.int64)] for _ in silos]
        digits = [[np.empty((0, parameters.size), np.int64)] for _ in silos]
        norms: list[list[FloatArray]] = [[np.empty(0)] for _ in silos]
        for block in self.updates(parameters, self._present, number):
            dense = block.rows.dense() if isinstance(block.rows, Sparse) else block.rows
            for silo in np.unique(block.silo).tolist():
                here = block.silo == silo
                users[silo].append(block.user[here])
                digits[silo].append(mechanism.clipped(dense[here]))
                norms[silo].append(norms_of(dense[here]))
        rows = [
            (np.concatenate(silo_users), np.concatenate(silo_digits))
            for silo_users, silo_digits in zip(users, digits, strict=True)
        ]
        return rows, [np.concatenate(silo_norms) for silo_norms in norms]
