"""What every federated system is made of, and what it keeps over all of its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from ..accountant import events as ev
from ..accountant import records
from ..accountant.errors import InvalidInput, Unsupported
from ..accountant.mechanisms.base import Mechanism
from ..accountant.plan import Plan
from .aggregation import Aggregator, Plain, aggregator
from .federation import Federation
from .local import Local
from .normalising import Normalising
from .promise import Promise, promise
from .settings import SecuritySettings
from .system import Aggregation, Opening, Parameters, Privacy

if TYPE_CHECKING:
    from .parties import Network
    from .settings import Settings, TrainingSettings


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
    def users(self) -> int:
        """|U|, a public constant."""
        return self.federation.users

    @property
    def silos(self) -> int:
        """|S|, a public constant."""
        return self.federation.silos


class Promised:
    """The part that all systems with one promise share; see `fl.system.System`.

    A system gives `views(noise)`: one round as each observer sees it.
    """

    aggregations: ClassVar[tuple[Aggregation, ...]] = ("plain", "masked")
    """By which protocols its updates can be summed."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        if setup.aggregation not in self.aggregations:
            raise Unsupported(
                f"{setup.name} has no aggregation {setup.aggregation!r}.",
                "What the server sees decides what it learns, so none is taken for another.",
                f"Use one of {', '.join(self.aggregations)}.",
            )
        self.aggregator = setup.aggregator

    @property
    def name(self) -> str:
        """Its name in configurations."""
        return self.setup.name

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round, as each observer sees it."""
        raise NotImplementedError

    def mechanism(self, noise_multiplier: float) -> Mechanism:
        """Return what draws the noise of this multiplier."""
        raise NotImplementedError

    @cached_property
    def promise(self) -> Promise:
        """What the run promises, certified once."""
        own = self.setup
        before = () if own.normalising is None else (own.normalising.phase,)
        return promise(self.views, own.privacy, own.rounds, before)

    def plan(self) -> Plan:
        """Return what will be released, fixed before the first release.

        Raises `InvalidInput` for noise or a clip that no mechanism takes: now, not in a round.
        """
        self.mechanism(self.promise.noise_multiplier)
        return self.promise.plan

    def opening(self) -> Opening:
        """Return what the run states first."""
        return Opening(
            self.promise.claim,
            self.promise.planned,
            records.Population(self.setup.users, self.setup.silos),
            self.setup.aggregation,
            self.aggregator.security,
        )

    @property
    def network(self) -> Network | None:
        """Between whom messages travel, where parties exchange any."""
        return self.aggregator.network

    def initial(self) -> Parameters:
        """Return the model that the first round starts from."""
        return self.setup.local.initial()

    @property
    def normalising(self) -> Normalising | None:
        """The phase that releases what features are normalised by, where there is one."""
        return self.setup.normalising

    def normalised(self, federation: Federation) -> None:
        """Train on these features from now on; nothing else of the federation has changed."""
        self.setup.local.use(federation)


def setup(settings: Settings, federation: Federation, local: Local) -> Setup:
    """Return what the settings say that a system is made of."""
    own, by = settings.privacy, aggregator(settings.security, federation.silos)
    return Setup(
        settings.run.system,
        Privacy(
            unit=own.unit or "user",
            neighbours=own.neighbours,
            delta=own.delta,
            epsilon=own.epsilon,
            noise_multiplier=own.noise_multiplier,
            sampling_rate=own.sampling_rate,
            group=own.group,
        ),
        settings.run.rounds,
        settings.training,
        federation,
        local,
        settings.security,
        by,
        _normalising(settings, federation, by),
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


def _normalising(settings: Settings, federation: Federation, by: Aggregator) -> Normalising | None:
    from .datasets.registry import scaling_of

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
        settings.security,
    )
