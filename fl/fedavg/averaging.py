"""FedAvg across silos, without noise: the baseline that private systems are compared with.

    x + eta_g / |S| sum_s (x_s - x)

There are two learning rates, eta_l in the silos and eta_g at the server.  Nothing is clipped and no
noise is added, and every round states `no-guarantee`.

Source: DEFAULT in Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210,
section 5; Yang, Fang and Liu 2021, arXiv 2101.11203.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ...accountant import records
from ...accountant.mechanisms import Gate, Ticket
from ...accountant.plan import Plan, PlannedPhase, plan_given_noise
from ..aggregation.sums import float_sum
from ..data.federation import Federation
from ..frame.model import Parameters, Round, model_digest
from ..frame.opening import OpeningStatement
from ..frame.phases import Phase
from ..frame.promise import TRAINING_PHASE, claimed
from ..frame.requirements import require_declared
from ..frame.rounds import Draft, NoisySum, make_round
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..observers.names import MODEL
from ..observers.reaches import Route, reaches_of
from ..training.local_training import LocalTraining
from .terms import FedAvgTerms

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..parties.network import Network
    from ..settings.schema import Settings


class FedAvg:
    """Federated averaging, without any guarantee."""

    state = State()

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        require_declared(setup)
        self.aggregator = setup.aggregator
        self.terms = FedAvgTerms(setup)

    @property
    def name(self) -> str:
        """Its name in configurations."""
        return self.setup.name

    def plan(self) -> Plan:
        """Return the plan of all rounds, whose epsilon is infinite."""
        return self._plan

    def restate(self, planned: records.Planned) -> None:
        """Do nothing: no announcement of a log changes a plan without a guarantee."""

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states: a claim without an epsilon."""
        setup = self.setup
        releases = sum(phase.rounds for phase in self._plan.phases)
        planned = records.Planned(releases, {"model": self._plan.seen_by("model")})
        population = records.Population(setup.users, setup.silos)
        claim = claimed(setup.privacy, None)
        return OpeningStatement(
            claim, planned, population, setup.aggregation, self.aggregator.security
        )

    def initial(self) -> Parameters:
        """Return the model that the first round starts from."""
        return self.setup.local.initial()

    @property
    def network(self) -> Network | None:
        """The parties and their messages; None where updates are sent in the clear."""
        return self.aggregator.network

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The rounds; then users who are held out vote, where there are some."""
        rounds, votes = Phase(self._plan.phases[0], 1, self.round), self.setup.held_out
        return (rounds,) if votes is None else (rounds, votes.as_phase(rounds.last + 1))

    def initial_state(self) -> Arrays:
        """Return no state: nothing is kept between rounds."""
        return {}

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: train in every silo and take the mean of the updates."""
        setup = self.setup

        def work(_: Ticket) -> Draft:
            # x_s - x of every silo, (silos, D), without a clip.
            rows = setup.local.silo_deltas(parameters, number)
            total = NoisySum(float_sum(self.aggregator, number, rows), self.terms.divisor)
            return Draft(
                parameters + total.times(setup.training.global_rate),
                normaliser=self.terms.normaliser,
                clip_enforced=self.terms.clip_enforced,
            )

        route = Route(setup.aggregation, setup.silos, self.aggregator.security)
        return make_round(gate, self._intent(number, parameters, route), work)

    def _intent(self, number: int, parameters: Parameters, route: Route) -> records.RoundIntent:
        views, stated = self.terms.views(), self.terms.round
        return records.RoundIntent(
            round=number,
            phase=TRAINING_PHASE,
            event=views[MODEL],
            contribution=stated.contribution,
            noise=stated.noise,
            sensitivity=stated.sensitivity,
            model_in=model_digest(parameters),
            reaches=reaches_of(views, route),
        )

    @cached_property
    def _plan(self) -> Plan:
        setup = self.setup
        views = self.terms.views()
        phase = PlannedPhase(TRAINING_PHASE, None, views[MODEL], setup.rounds, views)
        return plan_given_noise(
            [phase] if setup.held_out is None else [phase, setup.held_out.phase],
            delta=setup.privacy.delta,
            neighbours=setup.privacy.neighbours,
            unit=setup.privacy.unit,
        )


def fedavg(settings: Settings, federation: Federation, local: LocalTraining, _: Streams) -> FedAvg:
    """Return FedAvg."""
    return FedAvg(setup(settings, federation, local))
