"""The base of the systems that promise a guarantee: plan, promise, intents and rounds in common.

    views(sigma)  ->  noise or rounds  ->  plan and claim  ->  for each round: intent, draw, release

A subclass says what one round shows to each observer, which mechanism draws the noise, and how a
round is computed.  Everything that the log must state about it follows here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from ...accountant import events as ev
from ...accountant import records
from ...accountant.mechanisms import RoundDescription
from ...accountant.mechanisms.base import Mechanism
from ...accountant.plan import Plan, PlannedPhase
from ..data.federation import Federation
from ..declarations.declaration import PRIVPLAN_PACKAGE
from ..declarations.registry import declaration_or_none
from ..observers.names import MODEL, SERVER, SILO_WITH_RECORDS, Coalition
from ..observers.reaches import Route, is_sampled, reaches_of
from ..observers.stated_reaches import checked_reaches
from .held_out_release import VotesPhase
from .model import KeepModel, Parameters, Round, model_digest
from .opening import Design, Note, OpeningStatement
from .phases import Phase
from .private_normalisation import MomentsRelease
from .promise import TRAINING_PHASE, Promise, promise, restated
from .requirements import require_declared
from .rounds import Draft, make_round, release_with_model, system_with_package
from .setup import Setup
from .state import Arrays, State, declared_state
from .terms import Terms

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray
    from ...accountant.mechanisms import Gate, Ticket
    from ..parties.network import Network


class PrivateSystem:
    """A system with one guarantee for all of its rounds; see `fl.frame.system.System`.

    A subclass defines `views(noise_multiplier)`, the event of one round for each observer, and
    `mechanism(noise_multiplier)`, which draws the noise, or has `terms` that give both; `round`,
    usually by means of `make_round`; and `state`, what it keeps between rounds with its model.
    """

    phase: ClassVar[str] = TRAINING_PHASE
    """The name of its phase in the plan and in the log."""

    unsaved: ClassVar[str | None] = None
    """Why nothing of what it keeps between rounds is saved, so that no run of it is taken up again;
    None where that is not so."""

    terms: Terms
    """What each of its releases is; a system that has none gives `views` and `mechanism` itself."""

    design: Design | None = None
    """Which design was chosen, by public facts alone, where the system has several."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        require_declared(setup)
        self.aggregator = setup.aggregator

    @property
    def name(self) -> str:
        """Its name in configurations."""
        return self.setup.name

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for each observer, by the observer's name."""
        return self.terms.views(noise_multiplier)

    def reaches(self) -> Mapping[str, records.Reach] | None:
        """Return which messages of a round reach each observer, by the aggregation that is used.

        An observer whose event has no sampling, where the model's event has it, knows the sample.
        """
        opening, views = self.opening(), {MODEL: self.promise.event, **self.promise.views}
        # The protocol decides who receives which message; the event, what is promised of it.
        mechanism = self.mechanism(self.promise.noise_multiplier)
        route = Route(
            opening.aggregation,
            self.setup.silos,
            opening.security,
            mechanism.noise().tolerated_dropouts,
            unit=mechanism.contribution.unit,
            messages=mechanism.contribution.terms == "message",
        )
        # Amplification by sampling holds only for an observer who does not know the sample.
        sampled = is_sampled(views[MODEL])
        return {
            name: replace(reach, knows_sample=sampled and not is_sampled(views[name]))
            for name, reach in reaches_of(views, route).items()
        }

    def stated_reaches(self) -> Mapping[str, records.Reach] | None:
        """Return `reaches` after checks; `InvalidInput` names the package and the wrong field."""
        stated, declaration = self.reaches(), declaration_or_none(self.name)
        if stated is None:
            return None
        return checked_reaches(
            stated, self.name, PRIVPLAN_PACKAGE if declaration is None else declaration.package
        )

    def mechanism(self, noise_multiplier: float) -> Mechanism:
        """Return the mechanism that draws the noise of this multiplier."""
        mechanism: Mechanism = self.terms.mechanism(noise_multiplier)
        return mechanism

    @cached_property
    def promise(self) -> Promise:
        """Noise, plan and claim of the run; computed once."""
        setup = self.setup
        earlier = () if setup.normalisation is None else (setup.normalisation.phase,)
        return promise(
            self.all_views,
            setup.privacy,
            setup.rounds,
            earlier,
            self.phase,
            self.counted_rounds,
            self.blocks,
            self.later,
        )

    @property
    def votes(self) -> VotesPhase | None:
        """The release of votes of who is held out, after the rounds; None where nobody is."""
        return self.setup.held_out

    @property
    def later(self) -> tuple[PlannedPhase, ...]:
        """The phases that come after the rounds, with noise that is given."""
        return () if self.votes is None else (self.votes.phase,)

    @property
    def counted_rounds(self) -> int | None:
        """How many rounds one silo takes part in at most, by a public schedule; None: all.

        The rounds of such a system state their `silos` (`make_round`).
        """
        return None

    @property
    def blocks(self) -> int | None:
        """How many blocks its rounds are cut into that share correlated noise; None: they do not.

        `views` are then those of one block, and the rounds of such a system state their block
        (`mechanisms.BandedGaussian`).
        """
        return None

    def all_views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return `views`, with those of coalitions added where noise protects single records.

        There each record is covered by the noise of its own silo alone.  Silos that collude with
        the server then tell it nothing about a record of another silo, except the records of the
        same user that they hold themselves.
        """
        views = dict(self.views(noise_multiplier))
        if self.setup.privacy.group > 1 and SERVER in views:
            holder = views.get(SILO_WITH_RECORDS, views[SERVER])
            for colluders in self.setup.coalitions:
                views.setdefault(Coalition(colluders).name, views[SERVER])
                views.setdefault(Coalition(colluders, holds=True).name, holder)
        return views

    def restate(self, planned: records.Planned) -> None:
        """Take over the announced plan of a log, if it is this plan in other words; on resume."""
        announced = restated(self.promise, planned, self.setup.privacy)
        if announced is None:
            return
        self.__dict__["promise"] = announced  # the cached property above
        if self.setup.normalisation is not None:
            self.setup.normalisation.restate(announced.plan.phases[0].views)

    def plan(self) -> Plan:
        """Return the plan of all releases, fixed before the first of them.

        Raises `InvalidInput` for noise or a clip that no mechanism accepts, and for reaches that
        contradict the aggregation.
        """
        # Refused here rather than in a round, which the budget would have paid for.
        self.mechanism(self.promise.noise_multiplier)
        self.stated_reaches()
        return self.promise.plan

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states."""
        return OpeningStatement(
            self.promise.claim,
            self.promise.planned,
            records.Population(self.setup.users, self.setup.silos),
            self.setup.aggregation,
            self.security,
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """What it says besides its guarantees, by public facts alone."""
        return ()

    @property
    def security(self) -> records.Security | None:
        """The public parameters of the protocol that carries updates or messages."""
        return self.aggregator.security

    @property
    def network(self) -> Network | None:
        """The parties and their messages; None where no party talks to another."""
        return self.aggregator.network

    def initial(self) -> Parameters:
        """Return the model that the first round starts from."""
        return self.setup.local.initial()

    @property
    def state(self) -> State | None:
        """Names and shapes of what is kept between rounds; every class declares its own."""
        return None

    def initial_state(self) -> Arrays:
        """Return the state that the first round starts from: zeros, unless overridden."""
        return (declared_state(self) or State()).zeros()

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The release of private feature moments, where there is one; then the rounds.

        Users who are held out vote on the last model, where there are some.
        """
        moments, votes = self.setup.normalisation, self.votes
        rounds = Phase(self.promise.training, 1, self.round)
        return (
            *(() if moments is None else (moments.as_phase(self.normalised),)),
            rounds,
            *(() if votes is None else (votes.as_phase(rounds.last + 1),)),
        )

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make round `number` (from 1), from the model and the state that the last one returned."""
        raise NotImplementedError

    def make_round(
        self,
        number: int,
        parameters: Parameters,
        gate: Gate,
        work: Callable[[Ticket], Draft],
        *,
        sampling: records.Sampling | None = None,
        draws: int = 1,
        phase: PlannedPhase | None = None,
        mechanism: Mechanism | None = None,
        keep: KeepModel | None = None,
        silos: tuple[int, ...] | None = None,
    ) -> Round:
        """Make one round of the plan: one intent, what `work` draws under it, and its release.

        `sampling` says how participants are drawn, `draws` how many noisy sums are released, and
        `phase` which phase of the plan the round belongs to (None: the training).  A round of
        several releases gives the last of them (`fl.frame.rounds.planned_release`), after
        `release_with_model` has made the others.  `mechanism` draws the noise (None: that of the
        plan's noise multiplier).  `keep` is what `Phase.make_kept` is given.  `silos` are those
        that take part, by a public schedule (None: all).  Raises as `fl.frame.rounds.make_round`,
        and `BudgetExceeded` before anything is drawn where a silo would take part in more than
        `counted_rounds`.
        """
        planned = self.promise.training if phase is None else phase
        # A phase with noise of its own draws with that, and all others with the run's.
        noise = planned.noise_multiplier
        if mechanism is None:
            mechanism = self.mechanism(self.promise.noise_multiplier if noise is None else noise)
        about = self._about(number, planned, sampling, draws, model_digest(parameters), silos)
        intent = mechanism.intent(about, self.setup.privacy.neighbours)
        whose = system_with_package(self.name, declaration_or_none(self.name))
        return make_round(gate, intent, work, state=declared_state(self), whose=whose, keep=keep)

    def release_with_model(
        self,
        number: int,
        gate: Gate,
        mechanism: Mechanism,
        work: Callable[[Ticket], FloatArray],
        *,
        phase: PlannedPhase,
        sampling: records.Sampling | None = None,
        draws: int = 1,
        silos: tuple[int, ...] | None = None,
        sealed: Mapping[str, object] | None = None,
    ) -> FloatArray:
        """Release something else than a model before the model of a round; return its values.

        `phase` is this release as planned (`fl.frame.rounds.planned_release`), and `mechanism`
        draws its noise.  `sealed` is for the trusted auditor alone; `work` may fill it.  Where a
        run is cut off in the middle, the budget of the whole round is spent.
        """
        about = self._about(number, phase, sampling, draws, None, silos)
        intent = mechanism.intent(about, self.setup.privacy.neighbours)
        return release_with_model(gate, intent, work, sealed)

    def _about(
        self,
        number: int,
        planned: PlannedPhase,
        sampling: records.Sampling | None,
        draws: int,
        model: str | None,
        silos: tuple[int, ...] | None,
    ) -> RoundDescription:
        return RoundDescription(
            number,
            planned.name,
            records.Sampling() if sampling is None else sampling,
            {who: event for who, event in planned.views.items() if who != "model"},
            model,
            planned.event,
            draws,
            self.stated_reaches(),
            silos,
        )

    @property
    def normalisation(self) -> MomentsRelease | None:
        """The release of the moments that features are normalised by, where there is one."""
        return self.setup.normalisation

    def normalised(self, federation: Federation) -> None:
        """Train on these normalised features from now on; the records are the same."""
        self.setup.local.use(federation)
