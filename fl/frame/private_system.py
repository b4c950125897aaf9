"""The base of every system that makes one promise for all of its rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from ...accountant import events as ev
from ...accountant import records
from ...accountant.mechanisms import About
from ...accountant.mechanisms.base import Mechanism
from ...accountant.plan import Plan, PlannedPhase
from ..data.federation import Federation
from ..declarations.declaration import OURS
from ..declarations.registry import known
from ..observers.names import MODEL, SERVER, SILO_WITH_RECORDS, Coalition
from ..observers.reaches import Route, checked_reaches, is_sampled, reaches_of
from .model import Parameters, Round, model_digest
from .opening import OpeningStatement
from .phases import Phase
from .private_normalisation import MomentsRelease
from .promise import TRAINING_PHASE, Promise, promise, restated
from .rounds import Draft, make_round, release_beside, system_with_package
from .state import Arrays, State, declared_state

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...accountant.mechanisms import Gate, Ticket
    from ..parties.network import Network


from .requirements import require_aggregation
from .setup import Setup


class PrivateSystem:
    """The part that all systems with one promise share; see `fl.frame.system.System`.

    A system gives `views(noise)`, one round as each observer sees it; `mechanism(noise)`, what
    draws the noise; `round`, which most make with `make_round`; and `state`, what it keeps between
    rounds beside its model.
    """

    phase: ClassVar[str] = TRAINING_PHASE
    """The name of the phase whose rounds it makes."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        require_aggregation(setup)
        self.aggregator = setup.aggregator

    @property
    def name(self) -> str:
        """Its name in configurations."""
        return self.setup.name

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round, as each observer sees it."""
        raise NotImplementedError

    def reaches(self) -> Mapping[str, records.Reach] | None:
        """Return what of one round reaches each observer, as the frame's table has it.

        Who knows the sample is who is promised an event without one.
        """
        opened, seen = self.opening(), {MODEL: self.promise.event, **self.promise.views}
        mechanism = self.mechanism(self.promise.noise_multiplier)
        route = Route(
            opened.aggregation,
            self.setup.silos,
            opened.security,
            mechanism.noise().tolerated_dropouts,
            unit=mechanism.contribution.unit,
            messages=mechanism.contribution.terms == "message",
        )
        drawn = is_sampled(seen[MODEL])
        return {
            name: replace(reach, knows_sample=drawn and not is_sampled(seen[name]))
            for name, reach in reaches_of(seen, route).items()
        }

    def stated_reaches(self) -> Mapping[str, records.Reach] | None:
        """Return `reaches`; raise `InvalidInput`, naming package and field, for what cannot be."""
        stated, declaration = self.reaches(), known(self.name)
        if stated is None:
            return None
        return checked_reaches(
            stated, self.name, OURS if declaration is None else declaration.package
        )

    def mechanism(self, noise_multiplier: float) -> Mechanism:
        """Return what draws the noise of this multiplier."""
        raise NotImplementedError

    @cached_property
    def promise(self) -> Promise:
        """What the run promises, certified once."""
        own = self.setup
        before = () if own.normalising is None else (own.normalising.phase,)
        return promise(self.seen, own.privacy, own.rounds, before, self.phase)

    def seen(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return `views`, and those of coalitions where a record has a silo's noise to itself.

        Then silos that tell the server what they know add nothing to it but what they hold.
        """
        found = dict(self.views(noise_multiplier))
        if self.setup.privacy.group > 1 and SERVER in found:
            holder = found.get(SILO_WITH_RECORDS, found[SERVER])
            for colluders in self.setup.coalitions:
                found.setdefault(Coalition(colluders).name, found[SERVER])
                found.setdefault(Coalition(colluders, holds=True).name, holder)
        return found

    def restate(self, planned: records.Planned) -> None:
        """State from now on what a log announced, if it fits: it was fixed before any release."""
        found = restated(self.promise, planned, self.setup.privacy)
        if found is None:
            return
        self.__dict__["promise"] = found
        if self.setup.normalising is not None:
            self.setup.normalising.restate(found.plan.phases[0].views)

    def plan(self) -> Plan:
        """Return what will be released, fixed before the first release.

        Raises `InvalidInput` for noise or a clip that no mechanism takes, and for reaches that
        cannot be: now, not in a round.
        """
        self.mechanism(self.promise.noise_multiplier)
        self.stated_reaches()
        return self.promise.plan

    def opening(self) -> OpeningStatement:
        """Return what the run states first."""
        return OpeningStatement(
            self.promise.claim,
            self.promise.planned,
            records.Population(self.setup.users, self.setup.silos),
            self.setup.aggregation,
            self.security,
        )

    @property
    def security(self) -> records.Security | None:
        """The facts of the protocol by which its updates, or messages, travel."""
        return self.aggregator.security

    @property
    def network(self) -> Network | None:
        """Between whom messages travel, where parties exchange any."""
        return self.aggregator.network

    def initial(self) -> Parameters:
        """Return the model that the first round starts from."""
        return self.setup.local.initial()

    @property
    def state(self) -> State | None:
        """What is kept between rounds beside the model; each class states it for itself."""
        return None

    def initial_state(self) -> Arrays:
        """Return the state that the first round starts from: zeros, unless a system says other."""
        return (declared_state(self) or State()).zeros()

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The moments of features, where they are released; then the rounds."""
        before = self.setup.normalising
        rounds = Phase(self.promise.plan.phases[-1], 1, self.round)
        return (rounds,) if before is None else (before.as_phase(self.normalised), rounds)

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make round `number` (from 1), from the model and the state that the last one left."""
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
    ) -> Round:
        """Make one round of the plan: one intent, what `work` draws under it, and its release.

        `sampling` says who takes part, `draws` how many noisy sums are released, `phase` which
        phase of the plan the round is of: the last one, if None; or the last part of one (`part_of`
        of `fl.frame.rounds`), after `release_beside` has released the others.  Raises as
        `fl.frame.rounds.make_round`.
        """
        planned = self.promise.plan.phases[-1] if phase is None else phase
        noise = planned.noise_multiplier
        mechanism = self.mechanism(self.promise.noise_multiplier if noise is None else noise)
        about = self._about(number, planned, sampling, draws, model_digest(parameters))
        intent = mechanism.intent(about, self.setup.privacy.neighbours)
        whose = system_with_package(self.name, known(self.name))
        return make_round(gate, intent, work, state=declared_state(self), whose=whose)

    def release_beside(
        self,
        number: int,
        gate: Gate,
        mechanism: Mechanism,
        work: Callable[[Ticket], NDArray[np.float64]],
        *,
        phase: PlannedPhase,
        sampling: records.Sampling | None = None,
        draws: int = 1,
    ) -> NDArray[np.float64]:
        """Make a release of a round that is no model, before the one that is; return its values.

        `phase` is that part of the plan's phase (`part_of` of `fl.frame.rounds`), `mechanism` draws
        its noise.  Where a run is cut off before the round is whole, the rest of it is spent.
        """
        about = self._about(number, phase, sampling, draws, None)
        intent = mechanism.intent(about, self.setup.privacy.neighbours)
        return release_beside(gate, intent, work)

    def _about(
        self,
        number: int,
        planned: PlannedPhase,
        sampling: records.Sampling | None,
        draws: int,
        model: str | None,
    ) -> About:
        return About(
            number,
            planned.name,
            records.Sampling() if sampling is None else sampling,
            {who: event for who, event in planned.views.items() if who != "model"},
            model,
            planned.event,
            draws,
            self.stated_reaches(),
        )

    @property
    def normalising(self) -> MomentsRelease | None:
        """The phase that releases what features are normalised by, where there is one."""
        return self.setup.normalising

    def normalised(self, federation: Federation) -> None:
        """Train on these features from now on; nothing else of the federation has changed."""
        self.setup.local.use(federation)
