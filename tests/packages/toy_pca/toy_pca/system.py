from dataclasses import replace
from functools import cached_property

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gaussian
from privplan.fl.aggregation.clip_check import ClipCheck, norms_of
from privplan.fl.aggregation.residuals import Residuals
from privplan.fl.aggregation.sums import noisy_sum
from privplan.fl.datasets.registry import SHAPES
from privplan.fl.delm.pca import pca_release
from privplan.fl.delm.pca_canaries import empty_federation, simulate_pca
from privplan.fl.delm.pca_terms import PCA, PcaTerms, expected_pca
from privplan.fl.frame.expected_log import ExpectedLog, ExpectedPhase, expected_phase
from privplan.fl.frame.phases import Phase
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.promise import promise, unproven
from privplan.fl.frame.rounds import Draft
from privplan.fl.frame.setup import setup
from privplan.fl.frame.state import State
from privplan.fl.frame.system import build
from privplan.fl.training.local_training import NoTraining

NOTHING = ev.NoGuarantee("a toy as published")


class ToyPca(PrivateSystem):
    """Sums of records on private components: one noisy sum of rows of norm R in every round."""

    phase = "release"
    state = State()

    def __init__(self, settings, federation, local, streams):
        super().__init__(setup(settings, federation, local))
        self.table = settings.table
        self.pca = pca_release(
            self.setup,
            kind=self.table.pca,
            epsilon=self.table.epsilon,
            components=self.table.components,
            row_norm=self.table.row_norm,
        )
        self.federation = None
        self.residuals = Residuals()

    @property
    def parts(self):
        return {"sum": (self.table.components,)}

    def initial(self):
        return np.zeros(self.table.components)

    def mechanism(self, noise_multiplier):
        silos = self.setup.silos
        std = noise_multiplier * self.table.row_norm * silos**0.5
        return Gaussian(self.table.row_norm, std, shares=silos, unit="record")

    def views(self, noise_multiplier):
        silos = self.setup.silos
        if self.table.as_published:
            return dict.fromkeys(self.pca.views, NOTHING)
        of_one = ev.Gaussian(noise_multiplier * (1.0 - 1e-9))
        whole = self.mechanism(noise_multiplier).event("add-remove")
        left = ev.Gaussian(noise_multiplier * (silos - 1) ** 0.5 * (1.0 - 1e-9))
        return {"model": whole, "server": of_one, "silo": left}

    @cached_property
    def promise(self):
        earlier = (self.pca.planned,)
        if self.table.as_published:
            return unproven(
                self.views,
                self.setup.privacy,
                self.setup.rounds,
                NOTHING,
                lambda _: 1.0,
                self.phase,
                earlier,
            )
        return promise(self.views, self.setup.privacy, self.setup.rounds, earlier, self.phase)

    def opening(self):
        return replace(super().opening(), as_published=self.table.as_published)

    @property
    def phases(self):
        return (
            self.pca.as_phase(self.use),
            Phase(self.promise.plan.phases[-1], 1, self.round),
        )

    def use(self, federation):
        self.federation = federation

    def round(self, number, parameters, gate, state=None):
        federation = self.federation
        mechanism = self.mechanism(self.promise.noise_multiplier)
        rows = federation.features.astype(np.float64)
        totals = list(mechanism.totals(rows, federation.silo, self.setup.silos))

        def work(ticket):
            silos, size = self.setup.silos, rows.shape[1]
            again = ClipCheck(ticket.intent, mechanism, silos, size)
            norms, ones = norms_of(rows), np.ones(len(rows))
            again.add(rows, federation.silo, norms, ones, np.arange(len(rows)))
            monitor = self.residuals.monitor(ticket.intent.noise)
            arrived = noisy_sum(self.aggregator, number, mechanism, ticket, totals, monitor=monitor)
            released = mechanism.units(arrived.total)
            return Draft(
                released,
                aggregate=released,
                normaliser=records.Normaliser("constant", 1.0),
                sealed={**monitor.items(), **again.items(totals)},
            )

        return self.make_round(number, parameters, gate, work)


def toy_pca(settings, federation, local, streams):
    return ToyPca(settings, federation, local, streams)


def _phase(read, intent, values) -> ExpectedPhase:
    del values
    norm, silos = read("toy", "row_norm"), read("data", "silos")
    if intent.phase == PCA:
        terms = PcaTerms(
            kind=read("toy", "pca"),
            noise=read("toy", "epsilon"),
            row_norm=norm,
            components=read("toy", "components"),
            features=SHAPES[read("data", "name")][0],
            silos=silos,
            users=read("data", "users"),
            relation=read("privacy", "neighbours"),
        )
        return expected_pca(terms, intent)
    std = read("privacy", "noise_multiplier") * norm * silos**0.5
    mechanism = Gaussian(norm, std, shares=silos, unit="record")
    return expected_phase(
        mechanism,
        read("privacy", "neighbours"),
        1,
        records.Sampling(),
        records.Normaliser("constant", 1.0),
    )


DETERMINES = ExpectedLog(
    _phase, first=lambda read: np.zeros(read("toy", "components")), before=lambda _: 1
)


def carrier(request):

    name = request.settings.data.name
    federation = empty_federation(SHAPES[name][0], request.silos)
    system = build(request.settings, federation, NoTraining(), request.streams())
    return simulate_pca(request, system.pca, system.plan(), system.opening())
