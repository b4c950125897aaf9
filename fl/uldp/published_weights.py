"""ULDP-AVG and ULDP-SGD over the private weighting protocol as it was published: no guarantee.

The noise is right for the sum; what the protocol shows beside the sum has none (see
`weighting.published`, and `privplan.audit.attacks`, which reads it).  Every round says so, the
paper's epsilon stands as a claim, and users with more records in all silos than the protocol has
room for are refused, as its paper does not say what becomes of them.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import records
from ...accountant.claims.uldp_fl import published_user_epsilon
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gaussian, Ticket
from ..aggregation.term_norms import norms_of
from ..frame.model import Parameters
from ..frame.opening import OpeningStatement
from ..frame.promise import Promise, unproven
from ..frame.setup import Setup
from ..frame.state import Arrays, State
from ..observers.names import Coalition
from .averaging import RoundSum, UldpAvg
from .weighting.published import PublishedWeighting

if TYPE_CHECKING:
    from ...accountant.mechanisms import Gate
    from ..frame.model import Round
    from ..parties.network import Network

PUBLISHED_WEIGHTING_EVENT: Final = ev.NoGuarantee(
    "private weighting as published: what is decrypted, and its ciphertexts, show more than the sum"
)

FIXED_POINT_STEP: Final = 1e-10
"""The step of the fixed point, as published."""


class UldpAvgAsPublished(UldpAvg):
    """ULDP-AVG or ULDP-SGD with the published protocol; see the module.

    Raises `InvalidInput` without a noise multiplier, for a single silo, and for users whom the
    protocol has no room for: now, not in the first round.
    """

    hidden = True
    state = State()

    def __init__(self, setup: Setup, *, step: str) -> None:
        super().__init__(setup, step=step)
        counts = setup.federation.counts
        _require_room(counts, setup.security.count_limit)
        self._present = [np.flatnonzero(column > 0) for column in counts.T]
        self._session: PublishedWeighting | None = None

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round, which is right for the sum alone."""
        return self.summing(noise_multiplier)

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:  # noqa: ARG002
        """Return that nothing is hidden from anybody."""
        coalitions = [
            Coalition(colluders, holds).name
            for colluders in self.setup.coalitions
            for holds in (False, True)
        ]
        whom = ("model", "server", "silo", "silo-with-records", *coalitions)
        return dict.fromkeys(whom, PUBLISHED_WEIGHTING_EVENT)

    @cached_property
    def promise(self) -> Promise:
        """What the run promises: nothing, beside the paper's number."""
        own = self.setup.privacy

        def claim(noise: float) -> float:
            rounds, rate = self.setup.rounds, own.sampling_rate
            return published_user_epsilon(rounds, rate=rate, noise=noise, delta=own.delta)

        return unproven(self.views, own, self.setup.rounds, PUBLISHED_WEIGHTING_EVENT, claim)

    def opening(self) -> OpeningStatement:
        """Return what the run states first: that it is run as published, and with what."""
        own = self.setup
        security = records.Security(
            "private-weighting",
            parties=own.silos,
            fewest=own.silos,
            key_bits=own.security.key_bits,
            count_limit=own.security.count_limit,
            records_per_count=1,
            noise="multiples",
        )
        return replace(super().opening(), security=security, as_published=True)

    @property
    def network(self) -> Network | None:
        """Between whom messages travel, once the parties have met."""
        return None if self._session is None else self._session.network

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round; before the first, the parties agree on keys and count their records."""
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
        assert self._session is not None  # made by `round`
        own, width = self.setup, parameters.size
        mechanism = self.mechanism(self.promise.noise_multiplier)
        joining = self.joining(ticket)
        deltas, norms = self._deltas(parameters, number)
        nothing = np.zeros(width, np.int64)
        noise = [
            mechanism.share(ticket, nothing, f"noise/silo-{silo}") for silo in range(own.silos)
        ]
        found = self._session.round(number, deltas, np.array(noise), joining.tolist())
        if not own.security.keep_transcripts:
            self._session.network.take()
        return RoundSum(found.values, own.silos, norms, {"joined": int(joining.sum())})

    def _deltas(
        self, parameters: Parameters, number: int
    ) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        """Return every user's clipped update in each silo, (silos, users, D), and their norms."""
        own, clip = self.setup, self.setup.training.clip
        deltas = np.zeros((own.silos, own.users, parameters.size))
        norms: list[list[NDArray[np.float64]]] = [[np.empty(0)] for _ in range(own.silos)]
        for part in self.updates(parameters, self._present, number):
            sizes = norms_of(part.rows)
            shrunk = np.minimum(1.0, clip / np.maximum(sizes, clip))
            deltas[part.silo, part.user] = part.rows * shrunk[:, None]
            for silo in np.unique(part.silo).tolist():
                norms[silo].append(sizes[part.silo == silo])
        return np.nan_to_num(deltas, posinf=0.0, neginf=0.0), [np.concatenate(one) for one in norms]


def _require_room(counts: NDArray[np.int64], limit: int) -> None:
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
