"""ULDP-AVG and ULDP-SGD over the private weighting protocol as it was published: no guarantee.

The noise is right for the sum, but the protocol also shows values without noise (see
`weighting.published`; `privplan.audit.attack_methods` reads them).  Every round states
`no-guarantee`, and the paper's epsilon is logged as a claim.  Users with more records over all
silos than `count_limit` are refused, as the paper does not say how to weight them.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.claims.uldp_fl import published_user_epsilon
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gaussian, Ticket
from ..aggregation.clip_check import norms_of
from ..frame.model import Parameters
from ..frame.opening import OpeningStatement
from ..frame.promise import Promise, unproven
from ..frame.setup import Setup
from ..frame.state import Arrays, State
from .averaging import RoundSum, UldpAvg
from .terms import PUBLISHED_WEIGHTING_EVENT
from .weighting.published import PublishedWeighting

if TYPE_CHECKING:
    from ...accountant.mechanisms import Gate
    from ..frame.model import Round
    from ..parties.network import Network

FIXED_POINT_STEP: Final = 1e-10
"""The step P of the fixed-point encoding, as published."""


class UldpAvgAsPublished(UldpAvg):
    """ULDP-AVG or ULDP-SGD with the published protocol; see the module.

    Raises `InvalidInput` without a noise multiplier, for a single silo, and for users whom the
    protocol has no room for: now, not in the first round.
    """

    hides_weights = True
    as_published = True
    state = State()

    def __init__(self, setup: Setup, *, step: str) -> None:
        super().__init__(setup, step=step)
        counts = setup.federation.counts
        _require_countable(counts, setup.security.count_limit)
        self._present = [np.flatnonzero(column > 0) for column in counts.T]
        self._session: PublishedWeighting | None = None

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round, which covers the sum alone."""
        return self.terms.summed(noise_multiplier)

    @cached_property
    def promise(self) -> Promise:
        """The promise of the run: nothing is proven, and the paper's epsilon is claimed."""
        privacy = self.setup.privacy

        def claim(noise: float) -> float:
            rounds, rate = self.setup.rounds, privacy.sampling_rate
            return published_user_epsilon(rounds, rate=rate, noise=noise, delta=privacy.delta)

        return unproven(self.views, privacy, self.setup.rounds, PUBLISHED_WEIGHTING_EVENT, claim)

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states: run as published, with its parameters."""
        security = self.terms.security
        return replace(super().opening(), security=security, as_published=True)

    @property
    def network(self) -> Network | None:
        """The parties and their messages; None before the first round."""
        return None if self._session is None else self._session.network

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round; before the first one, the parties exchange keys and blinded counts."""
        if self._session is None:
            security = self.setup.security
            with gate.before(number):
                self._session = PublishedWeighting(
                    self.setup.federation.counts,
                    count_limit=security.count_limit,
                    step=FIXED_POINT_STEP,
                    key_bits=security.key_bits,
                )
        return super().round(number, parameters, gate, state)

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> RoundSum:
        """Return the noisy sum of one round, as the server decrypts it."""
        assert self._session is not None  # created by `round`
        setup, width = self.setup, parameters.size
        mechanism = self.mechanism(self.promise.noise_multiplier)
        joining = self.joining(ticket)
        deltas, norms = self._deltas(parameters, number)
        # Shares of the noise alone: the protocol adds them to updates under encryption.
        nothing = np.zeros(width, np.int64)
        noise = [
            mechanism.share(ticket, nothing, f"noise/silo-{silo}") for silo in range(setup.silos)
        ]
        decrypted = self._session.round(number, deltas, np.array(noise), joining.tolist())
        # Transcripts hold every ciphertext of the round; they are large and rarely wanted.
        if not setup.security.keep_transcripts:
            self._session.network.take()
        return RoundSum(decrypted.values, setup.silos, norms, {"joined": int(joining.sum())})

    def _deltas(self, parameters: Parameters, number: int) -> tuple[FloatArray, list[FloatArray]]:
        """Return every user's clipped update in each silo, (silos, users, D), and their norms."""
        setup, clip = self.setup, self.setup.training.clip
        deltas = np.zeros((setup.silos, setup.users, parameters.size))
        norms: list[list[FloatArray]] = [[np.empty(0)] for _ in range(setup.silos)]
        for block in self.updates(parameters, self._present, number):
            sizes = norms_of(block.rows)
            # min(1, C / |d_su|), in floats: rounding may leave an update slightly above C.
            factor = np.minimum(1.0, clip / np.maximum(sizes, clip))
            deltas[block.silo, block.user] = block.rows * factor[:, None]
            for silo in np.unique(block.silo).tolist():
                norms[silo].append(sizes[block.silo == silo])
        return np.nan_to_num(deltas, posinf=0.0, neginf=0.0), [
            np.concatenate(silo_norms) for silo_norms in norms
        ]


def _require_countable(counts: IntArray, limit: int) -> None:
    """Raise `InvalidInput` for counts (users, silos) that the published protocol cannot weight."""
    if counts.shape[1] < 2:
        raise InvalidInput(
            "Private weighting needs two silos; there is one.",
            "A sum of one silo's update is that update.",
            "Give more `silos` in [data].",
        )
    totals = counts.sum(axis=1)
    if not ((totals >= 1) & (totals <= limit)).all():
        raise InvalidInput(
            f"Users have more than {limit} records in all silos together, or none.",
            "As published, the protocol cannot weight them: it knows no cap and no dummy.",
            "Raise `count_limit` in [security], deal out fewer records to a user, or leave "
            "`as_published` in [uldp] out.",
        )
