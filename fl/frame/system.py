"""The protocol that every federated system follows: from a budget to a plan, then to its rounds.

A system adds no noise by itself.  In each round it opens an intent at the gate, which pays for the
round and logs what is about to be drawn; what it then releases are noisy sums that
`accountant.mechanisms` made.  It is handed the gate alone, never the log behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, runtime_checkable

from ..declarations.registry import declaration_of

if TYPE_CHECKING:
    from ...accountant.plan import Plan
    from ...accountant.randomness import Streams
    from ...accountant.records import Planned
    from ..data.federation import Federation
    from ..parties.network import Network
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining
    from .model import Parameters
    from .opening import OpeningStatement
    from .phases import Phase
    from .state import Arrays, State


class System(Protocol):
    """One algorithm on one federation, with its plan.

    The frame calls `plan` and `opening` first, which decide what the run will release and what it
    promises; then it makes the rounds of `phases` one after the other.  A system may also name the
    parts of the vector that it releases (`SystemWithParts`).
    """

    @property
    def name(self) -> str:
        """Its name in configurations, such as `uldp-avg`."""

    def plan(self) -> Plan:
        """Return the plan of all releases, fixed before the first of them.

        It has fewer rounds than were configured where the budget allows no more.  Raises
        `BudgetExceeded` where the budget does not allow a single round.
        """

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states."""

    def restate(self, planned: Planned) -> None:
        """Take over the plan that the log of this run announced, on resume.

        A log that an older version began may state the same releases in other words; the rounds to
        come are then stated in the words of that log.
        """

    def initial(self) -> Parameters:
        """Return the model that the first round starts from; public."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the plan in their order, each with the function that makes one round.

        That function is given the round's number (from 1), the model and the state that the round
        before returned, and the gate.  It opens one or more intents and releases a model under the
        last of them; where it raises an error, the round releases no model.
        """

    @property
    def state(self) -> State | None:
        """Names and shapes of the public arrays that are kept between rounds with the model.

        Each class declares its own (`fl.frame.state.declared_state`).  A run of a class that does
        not cannot be resumed, as nothing of what it keeps was saved.
        """

    def initial_state(self) -> Arrays:
        """Return the state that the first round starts from; public."""

    @property
    def network(self) -> Network | None:
        """Between whom messages travel; None where no party talks to another."""


@runtime_checkable
class SystemWithParts(Protocol):
    """A system that names the parts of the vector that it releases."""

    @property
    def parts(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each part by its name, in the order of the vector."""


SystemFactory: TypeAlias = "Callable[[Settings, Federation, LocalTraining, Streams], System]"
"""What a declaration names as `make`."""


def build(
    settings: Settings, federation: Federation, local: LocalTraining, streams: Streams
) -> System:
    """Return the system that `settings.run.system` names, ready to be planned and run.

    `local` is the training inside its silos; a system without gradients never calls it.  Raises
    `InvalidInput` for a system that is not known and for settings that do not fit the system.
    """
    declaration = declaration_of(settings.run.system)
    return cast("SystemFactory", declaration.load(declaration.make))(
        settings, federation, local, streams
    )
