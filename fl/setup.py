"""What every federated system is made of, and what it keeps over all of its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..accountant import events as ev
from ..accountant import records
from ..accountant.errors import InvalidInput, Unsupported
from ..accountant.plan import Plan
from .federation import Federation
from .local import Local
from .promise import Promise, promise
from .system import Opening, Parameters, Privacy

if TYPE_CHECKING:
    from .settings import Settings, TrainingSettings


@dataclass(frozen=True, eq=False)
class Setup:
    """What a system is made of: public constants, a federation, and training inside its silos."""

    name: str
    privacy: Privacy
    rounds: int
    training: TrainingSettings
    federation: Federation
    local: Local
    aggregation: str = "plain"

    @property
    def users(self) -> int:
        """|U|, a public constant."""
        return self.federation.users

    @property
    def silos(self) -> int:
        """|S|, a public constant."""
        return self.federation.silos


class Promised:
    """The part that all systems with one phase and one promise share; see `fl.system.System`.

    A system gives `views(noise)`: one round as each observer sees it.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        if setup.aggregation != "plain":
            raise Unsupported(
                f"{setup.name} has no aggregation {setup.aggregation!r} yet.",
                "What the server sees decides what it learns, so none is taken for another.",
                "Use aggregation 'plain', where the server sees every silo's noisy update.",
            )

    @property
    def name(self) -> str:
        """Its name in configurations."""
        return self.setup.name

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round, as each observer sees it."""
        raise NotImplementedError

    @cached_property
    def promise(self) -> Promise:
        """What the run promises, certified once."""
        return promise(self.views, self.setup.privacy, self.setup.rounds)

    def plan(self) -> Plan:
        """Return what will be released, fixed before the first release."""
        return self.promise.plan

    def opening(self) -> Opening:
        """Return what the run states first."""
        population = records.Population(self.setup.users, self.setup.silos)
        return Opening(self.promise.claim, self.promise.planned, population)

    def initial(self) -> Parameters:
        """Return the model that the first round starts from."""
        return self.setup.local.initial()


def setup(settings: Settings, federation: Federation, local: Local) -> Setup:
    """Return what the settings say that a system is made of."""
    own = settings.privacy
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
        settings.security.aggregation,
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
