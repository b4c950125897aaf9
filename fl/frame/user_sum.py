"""A system that releases one noisy sum of the users' clipped rows in every round.

    sum_s sum_u clip_C(row_su) / |S|  +  N(0, sigma^2 C^2),   in |S| shares of the noise

A row is a function of the records of one user in one silo alone.  Adding or removing a user
therefore moves the sum by at most C, wherever its records lie, and everything computed from the
released sum is post-processing.  What each observer sees is as in `fl.aggregation.weighted_sum`,
with uniform weights and without sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import events as ev
from ...accountant import records, validate
from ...accountant.arrays import Float32Array, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ..aggregation.clip_check import ClipCheck, about_norms, norms_of
from ..aggregation.residuals import Residuals
from ..aggregation.sums import noisy_sum
from ..aggregation.weighted_sum import weighted_sum, weighted_views
from ..declarations.declaration import Read
from ..declarations.sealed_items import RELEASE
from .expected_log import ExpectedLog, stated_shape
from .model import Parameters, Round, require_model
from .private_system import PrivateSystem
from .rounds import Draft, NoisySum
from .setup import setup
from .state import Arrays, Shape
from .terms import SetupTerms, by_terms

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation, Indices
    from ..declarations.stated_settings import StatedSettings
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining

_RULE: Final = "uniform"

_CLIP: Final = "clip"
"""The key in a system's own table that bounds the norm of a row."""


@dataclass(frozen=True, eq=False, repr=False)
class UserRecords:
    """The records of one user in one silo: `features` (n, d) float64, `labels` (n, ...), n >= 1."""

    features: FloatArray
    labels: IntArray | Float32Array


@dataclass(frozen=True)
class UserSumTerms(SetupTerms):
    """One noisy sum of the users' rows, each clipped to `clip`, C; see the module."""

    clip: float

    @property
    def divisor(self) -> float:
        """|U|, a public number of users."""
        return float(self.setup.users)

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of the sum; raises as `weighted_sum`."""
        return weighted_sum(
            noise_multiplier,
            bound=self.clip,
            users=self.setup.users,
            silos=self.setup.silos,
            rule=_RULE,
            tolerated_dropouts=self.setup.security.dropouts,
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for the released model, the server and a silo."""
        return weighted_views(
            noise_multiplier,
            silos=self.setup.silos,
            rule=_RULE,
            neighbours=self.setup.privacy.neighbours,
            aggregation=self.setup.aggregation,
            tolerated_dropouts=self.setup.security.dropouts,
            coalitions=self.setup.coalitions,
        )


class UserSum(PrivateSystem):
    """A system of one noisy sum of users' rows in every round; no model is trained.

    A subclass defines `parts`, `row` and `state`, and `server_step` where it releases something
    else than the noisy mean; a declaration names the subclass as `make`.  Its table has a key
    `clip`: C, above 0 and finite.  Raises `InvalidInput` for another unit than a user, for sampled
    users, for private moments, and without a clip.
    """

    phase = RELEASE

    def __init__(
        self, settings: Settings, federation: Federation, local: LocalTraining, streams: Streams
    ) -> None:
        super().__init__(setup(settings, federation, local))
        self.clip = clip_of(settings)
        self.terms: UserSumTerms = UserSumTerms(self.setup, self.clip)
        self.residuals = Residuals()

    @property
    def parts(self) -> Mapping[str, Shape]:
        """The shapes of the parts of a row, and of a release, by name and in order."""
        raise NotImplementedError

    def row(self, held: UserRecords) -> FloatArray:
        """Return the row (D,) float64 of a user in a silo, from its records there alone."""
        raise NotImplementedError

    def server_step(
        self, parameters: Parameters, noisy: NoisySum, state: Arrays, number: int
    ) -> tuple[Parameters, Arrays]:
        """Return the release of round `number`, (D,), and the next state; here the noisy mean.

        An override must be a function of these public values alone.
        """
        return noisy.mean, {}

    @property
    def features(self) -> int:
        """d, the number of features of a record."""
        return math.prod(self.setup.federation.features.shape[1:])

    def initial(self) -> Parameters:
        """Return the vector before the first release: zeros, (D,)."""
        return np.zeros(sum(math.prod(shape) for shape in self.parts.values()))

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round: std sigma C on the sum over all silos, in |S| shares."""
        mechanism: Gaussian = self.terms.mechanism(noise_multiplier)
        return mechanism

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: clip and sum the users' rows in each silo, with that silo's noise."""
        size, silos = parameters.size, self.setup.silos
        last_state = self.initial_state() if state is None else state
        mechanism = self.mechanism(self.promise.noise_multiplier)
        rows, silo, user = self._rows(size)
        # 1 / |S| in each silo, so that the weights of a user sum to at most 1 over all silos.
        weights = np.full(len(rows), 1.0 / silos)

        def work(ticket: Ticket) -> Draft:
            # Integers on the mechanism's grid, (silos, D): rows are clipped to norm C before they
            # are weighted, rounded towards the inside of the ball.
            totals, norms = mechanism.totals(rows, silo, silos, weights), norms_of(rows)
            # The sums once more in floats, for the sealed sidecar; never released.
            again = ClipCheck(ticket.intent, mechanism, silos, size)
            again.add(rows, silo, norms, weights, user)
            monitor = self.residuals.monitor(ticket.intent.noise)
            arrived = noisy_sum(
                self.aggregator, number, mechanism, ticket, list(totals), monitor=monitor
            )
            noisy = NoisySum(mechanism.units(arrived.total), float(self.setup.users))
            released, next_state = self.server_step(parameters, noisy, last_state, number)
            return Draft(
                require_model(released, size, f"What {self.name} releases"),
                next_state,
                aggregate=noisy.total,
                normaliser=records.Normaliser("constant", noisy.constant),
                sealed={
                    **monitor.items(),
                    **again.items(totals),
                    **about_norms([norms[silo == index] for index in range(silos)], self.clip),
                },
                shares=len(arrived.silos),
            )

        return self.make_round(number, parameters, gate, work)

    def _rows(self, size: int) -> tuple[FloatArray, Indices, Indices]:
        """Return rows (n, D), one for each user in each silo, and the silo and user of each."""
        federation = self.setup.federation
        # The width is written out, as -1 has no meaning where there are no records at all.
        width = math.prod(federation.features.shape[1:])
        features = federation.features.reshape(len(federation.features), width)
        pairs = federation.pairs()
        rows = np.zeros((len(pairs), size))
        for pair in range(len(pairs)):
            index = pairs.records(pair)
            row = self.row(
                UserRecords(features[index].astype(np.float64), federation.labels[index])
            )
            # A user with records in several silos has a row in each of them.
            rows[pair] = require_model(row, size, f"A row of {self.name}")
        return rows, pairs.silo, pairs.user


def clip_of(settings: Settings) -> float:
    """Return the clip C in the system's own table; raise `InvalidInput` where there is none."""
    clip: object = getattr(settings.table, _CLIP, None)
    if not isinstance(clip, float):
        raise InvalidInput(
            f"The settings of {settings.run.system} have no clip.",
            "Noise is measured by how far a user moves the sum.",
            f"Give the table of its declaration a key `{_CLIP}`, a number above 0.",
        )
    return validate.positive(clip=clip)


def of_user_sum(size: Callable[[Read], int | None]) -> ExpectedLog:
    """Return what a configuration fixes of the log of a `UserSum`; a declaration names the result.

    `size` returns D, the length of a release, or None where the configuration does not fix it.
    """

    def terms(given: StatedSettings, *_: object) -> UserSumTerms:
        table = given.system.table
        assert table is not None  # else the system was not made
        return UserSumTerms(given, getattr(given.of(table), _CLIP))

    def first(read: Read) -> FloatArray | None:
        length = size(read)
        return None if length is None else np.zeros(length)

    return ExpectedLog(by_terms(terms), first=first)


def features_of(read: Read) -> int:
    """Return how many features a record of the configured data set has.

    Raises `NotStated` for a data set that is not known here.
    """
    return stated_shape(read)[0]
