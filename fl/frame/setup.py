"""What every federated system is made of, and what it keeps over all of its rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from ...accountant import events as ev
from ...accountant import records
from ...accountant.errors import InvalidInput, Unsupported, there_are
from ...accountant.mechanisms import RoundDescription
from ...accountant.mechanisms.base import Mechanism
from ...accountant.plan import Plan, PlannedPhase
from ..aggregation.choice import aggregator
from ..aggregation.sums import Aggregator, Plain
from ..data.federation import Federation
from ..declarations.declaration import PRIVPLAN_PACKAGE, SERVER_AGGREGATIONS
from ..declarations.registry import declaration_or_none
from ..observers.names import MODEL, SERVER, SILO_WITH_RECORDS, Coalition, coalitions_in
from ..observers.reaches import reaches_of
from ..observers.route import Route
from ..observers.sample_knowledge import is_sampled
from ..observers.stated_reaches import checked_reaches
from ..settings.schema import SecuritySettings
from ..training.local_training import Local
from .phases import Phase
from .private_normalisation import Normalising
from .promise import PHASE, Promise, promise, restated
from .rounds import Draft, make_round, name_in, release_beside
from .state import Arrays, State, states
from .system import Aggregation, Opening, Parameters, Privacy, Round, digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...accountant.mechanisms import Gate, Ticket
    from ..parties.network import Network
    from ..settings.schema import Settings, TrainingSettings


@dataclass(frozen=True, eq=False)
class Setup:
    """What a system is made of: public constants, a federation, and training inside its silos.

    `aggregator` adds up what the silos send; `normalising` is the phase that releases what features
    are normalised by, where there is one.
    """

    name: str
    privacy: Privacy
    rounds: int
    training: TrainingSettings
    federation: Federation
    local: Local
    security: SecuritySettings = field(default_factory=SecuritySettings)
    aggregator: Aggregator = field(default_factory=Plain)
    normalising: Normalising | None = None

    @property
    def aggregation(self) -> Aggregation:
        """What the server sees of the silos' updates."""
        return self.security.aggregation

    @property
    def coalitions(self) -> tuple[int, ...]:
        """With how many silos the server is accounted for, where silos collude with it.

        Among peers there is no server: who colludes there is counted with the peer.
        """
        if self.aggregation == "shares":
            return ()
        named = coalitions_in((self.privacy.observer, *self.privacy.observers))
        return tuple(sorted({*named, self.security.colluders} - {0}))

    @property
    def users(self) -> int:
        """|U|, a public constant."""
        return self.federation.users

    @property
    def silos(self) -> int:
        """|S|, a public constant."""
        return self.federation.silos


class Promised:
    """The part that all systems with one promise share; see `fl.frame.system.System`.

    A system gives `views(noise)`, one round as each observer sees it; `mechanism(noise)`, what
    draws the noise; `round`, which most make with `make_round`; and `state`, what it keeps between
    rounds beside its model.
    """

    phase: ClassVar[str] = PHASE
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
        stated, declaration = self.reaches(), declaration_or_none(self.name)
        if stated is None:
            return None
        return checked_reaches(
            stated, self.name, PRIVPLAN_PACKAGE if declaration is None else declaration.package
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

    def opening(self) -> Opening:
        """Return what the run states first."""
        return Opening(
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
        return (states(self) or State()).zeros()

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
        about = self._about(number, planned, sampling, draws, digest(parameters))
        intent = mechanism.intent(about, self.setup.privacy.neighbours)
        whose = name_in(self.name, declaration_or_none(self.name))
        return make_round(gate, intent, work, state=states(self), whose=whose)

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
        )

    @property
    def normalising(self) -> Normalising | None:
        """The phase that releases what features are normalised by, where there is one."""
        return self.setup.normalising

    def normalised(self, federation: Federation) -> None:
        """Train on these features from now on; nothing else of the federation has changed."""
        self.setup.local.use(federation)


def setup(settings: Settings, federation: Federation, local: Local) -> Setup:
    """Return what the settings say that a system is made of."""
    own = settings.privacy
    security = _bearing(settings, federation)
    by = aggregator(security, federation.silos)
    return Setup(
        settings.run.system,
        Privacy(
            unit=own.unit or "user",
            neighbours=own.neighbours,
            delta=own.delta,
            epsilon=own.epsilon,
            noise_multiplier=own.noise_multiplier,
            sampling_rate=own.sampling_rate,
            observer=own.observer,
            group=own.group,
            observers=own.observers,
        ),
        settings.run.rounds,
        settings.training,
        federation,
        local,
        security,
        by,
        _normalising(settings, federation, by, security),
    )


def _bearing(settings: Settings, federation: Federation) -> SecuritySettings:
    """Return settings that bear the coalitions that are named; `InvalidInput` for too large ones.

    Of all silos two must be left to hide among; of all users, where these send messages.
    """
    privacy, silos = settings.privacy, federation.silos
    if settings.security.aggregation == "shuffle":
        _require_two_left(settings.security.colluders, federation.users)
        return settings.security
    named = max(coalitions_in((privacy.observer, *privacy.observers)), default=0)
    told = max(named, settings.security.colluders)
    if told > max(0, silos - 2):
        what = f"`colluders` is {told}" if named < told else f"server+{named} is named"
        raise InvalidInput(
            f"{what}, and {there_are(silos, 'silo')}.",
            "Two silos at least must tell nothing: what one alone sends, the others would know.",
            f"Name at most {max(0, silos - 2)} of them, or have more silos.",
        )
    return replace(settings.security, colluders=told)


def _require_two_left(colluders: int, users: int) -> None:
    """Raise `InvalidInput` where shuffled messages have nobody to hide among."""
    if users - colluders < 2:
        told = f", and `colluders` is {colluders:,}" if colluders else ""
        raise InvalidInput(
            f"A shuffle needs two users who tell nothing; there {'is' if users == 1 else 'are'} "
            f"{users:,}{told}.",
            "One message is not hidden among others that are known.",
            "Have more `users` in [data], or lower `colluders` in [security].",
        )


def require_aggregation(setup: Setup) -> None:
    """Raise `Unsupported` for an aggregation that the system's declaration does not name."""
    declaration = declaration_or_none(setup.name)
    words = SERVER_AGGREGATIONS if declaration is None else declaration.aggregations
    if setup.aggregation not in words:
        raise Unsupported(
            f"{setup.name} has no aggregation {setup.aggregation!r}.",
            "What the server sees decides what it learns, so none is taken for another.",
            f"Use one of {', '.join(words)}.",
        )


def users_only(setup: Setup) -> None:
    """Raise `InvalidInput` unless a user is the unit, present or absent, or with other records."""
    if setup.privacy.unit != "user":
        raise InvalidInput(
            f"{setup.name} protects users; the unit asked for is {setup.privacy.unit!r}.",
            "Its clipping and its noise are made for all records of a user together.",
            "Give unit = 'user'.",
        )
    if setup.privacy.neighbours == "zero-out":
        raise InvalidInput(
            f"{setup.name} is not accounted under zero-out.",
            "A record of zeros is still trained on, so it is no absent record.",
            "Give neighbours = 'add-remove' or 'replace-one'.",
        )


def everybody_joins(setup: Setup) -> None:
    """Raise `InvalidInput` where users are sampled and the system has no place for it."""
    if setup.privacy.sampling_rate != 1.0:
        raise InvalidInput(
            f"{setup.name} does not sample users.",
            "Every silo takes part with all of its users in each round.",
            "Leave `sampling_rate` out, or use uldp-avg or uldp-sgd.",
        )


def public_features_only(setup: Setup) -> None:
    """Raise `InvalidInput` where features are normalised by private moments, and may not be."""
    if setup.normalising is not None:
        raise InvalidInput(
            f"{setup.name} does not normalise features by private moments.",
            "Such moments are a release for users, and its promise does not cover that.",
            "Give normalisation = 'public', or use uldp-avg, uldp-sgd or uldp-naive.",
        )


def _normalising(
    settings: Settings, federation: Federation, by: Aggregator, security: SecuritySettings
) -> Normalising | None:
    from ..datasets.registry import scaling_of

    noise = settings.privacy.normalisation_noise
    if (settings.data.normalisation == "private") != (noise is not None):
        raise InvalidInput(
            "Private normalisation and `normalisation_noise` go together.",
            "The moments are released with that noise, and nothing else has a use for it.",
            "Give both, or neither.",
        )
    if noise is None:
        return None
    scaling = scaling_of(settings.data.name)
    return Normalising(
        noise,
        settings.training.weighting,
        settings.privacy.neighbours,
        federation,
        scaling.lower,
        scaling.upper,
        by,
        security,
        coalitions_in((settings.privacy.observer, *settings.privacy.observers)),
    )
