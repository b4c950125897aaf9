"""The system `statistics`: X^T X and X^T Y of all silos' records, with noise, released once.

    silo s   its rows on the grid, G_s and L_s as integers, with its share of the noise
    server   their sum modulo 2^64, and of it G and S as floats: the model of the run

Whatever is fitted to the release is post-processing.  Exact sums are made before the intent, so
that no record can keep a release that was paid for from being made; after it nothing is computed
that could fail by what the numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate, NoisyGram, Ticket
from ..aggregation.residuals import Residuals
from ..declarations.sealed_items import RELEASE
from ..frame.model import KeepModel, Parameters, Round
from ..frame.phases import Phase
from ..frame.private_system import PrivateSystem
from ..frame.requirements import refuse
from ..frame.rounds import Draft
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, Shape, State
from ..observers.names import MODEL
from ..parties.network import silo_name
from .exact_sums import ExactSums, exact_sums
from .noise_shown import NoiseShown, gram_parts
from .run_terms import RunTerms
from .settings import ReleaseSettings, StatisticsSettings, rounds_complaint
from .statistics import ReleasedStatistics

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining


class Statistics(PrivateSystem):
    """One release of Gram matrix and label sums; see the module.

    Raises `InvalidInput` for more rounds than one, labels that are no classes, sampled users,
    private moments, and what does not suit the federation (`RunTerms`).
    """

    phase = RELEASE
    state = State()

    def __init__(self, setup: Setup, table: ReleaseSettings) -> None:
        super().__init__(setup)
        refuse(setup, rounds_complaint(setup.name, setup.rounds))
        self.terms: RunTerms = self.run_terms(table)
        self._mechanisms: dict[float, NoisyGram] = {}
        self.residuals = Residuals()

    def run_terms(self, table: ReleaseSettings) -> RunTerms:
        """Return the public facts of the release, of rows with labels.

        Raises `InvalidInput` for labels that are no classes, and as `RunTerms`.
        """
        _require_classes(self.setup)
        federation = self.setup.federation
        features = math.prod(federation.features.shape[1:])
        return RunTerms.of(self.setup, table, features, federation.classes)

    @property
    def parts(self) -> Mapping[str, Shape]:
        """The shapes of what is released."""
        return self.terms.parts

    def initial(self) -> Parameters:
        """Return the vector before the release: zeros, (values,)."""
        return np.zeros(self.terms.gram.values)

    def mechanism(self, noise_multiplier: float) -> NoisyGram:
        """Return the noise of the release, in a share for each silo; its grid is sought once."""
        if noise_multiplier not in self._mechanisms:
            self._mechanisms[noise_multiplier] = self.terms.mechanism(noise_multiplier)
        return self._mechanisms[noise_multiplier]

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The release; a run that is killed when it is in the log has it on disk."""
        return (Phase(self.promise.plan.phases[-1], 1, self.round, make_kept=self.round),)

    def round(
        self,
        number: int,
        parameters: Parameters,
        gate: Gate,
        state: Arrays | None = None,
        keep: KeepModel | None = None,
    ) -> Round:
        """Make the release: exact sums first, then the intent, and noise under it.

        `keep` writes it to disk before the log has it: nothing pays for another one.
        """
        mechanism = self.mechanism(self.promise.noise_multiplier)
        exact = self.exact_sums(mechanism)

        def work(ticket: Ticket) -> Draft:
            monitor = self.residuals.monitor(ticket.intent.noise, gram_parts(mechanism))
            shown = NoiseShown(monitor, mechanism)
            totals = exact.totals
            sends = [
                partial(shown.sent, ticket, silo, f"noise/{silo_name(silo)}", total)
                for silo, total in enumerate(totals)
            ]
            # Modulo 2^64: no check of sizes, as it would tell that the numbers are large.
            received = self.aggregator.total(number, sends, len(totals[0]))
            if received.made_here is None:  # else the exact totals of others are theirs
                shown.whole(received.total, totals, received.silos)
            released = mechanism.units(received.total)
            return Draft(
                released,
                aggregate=released,
                normaliser=self.terms.normaliser,
                sealed={**shown.items(), **exact.sealed(self.terms.most_rows)},
                shares=len(received.silos),
            )

        return self.make_round(number, parameters, gate, work, keep=keep)

    def released(self, values: Parameters) -> ReleasedStatistics:
        """Return what a released vector (values,) holds, as fits read it."""
        privacy = self.setup.privacy
        views = {MODEL: self.promise.event, **self.promise.views}
        return ReleasedStatistics.of_vector(
            values,
            self.mechanism(self.promise.noise_multiplier),
            event=views[privacy.observer],
            delta=privacy.delta,
            neighbours=privacy.neighbours,
            intercept=self.terms.settings.intercept,
            observer=privacy.observer,
        )

    def exact_sums(self, mechanism: NoisyGram) -> ExactSums:
        """Return the exact sums of all silos, and the check of them; private."""
        return exact_sums(self.terms, self.setup.federation, mechanism)


def _require_classes(setup: Setup) -> None:
    if setup.federation.task not in ("binary", "multiclass"):
        raise InvalidInput(
            f"{setup.name} sums rows by classes; the labels of {setup.federation.name} are none.",
            "A time or a number is no class.",
            "Choose a data set with classes.",
        )


def statistics(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> Statistics:
    """Return the system `statistics`."""
    parts = setup(settings, federation, local, whole_ring=True)
    return Statistics(parts, settings.of(StatisticsSettings))
