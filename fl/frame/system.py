"""What a system is: something that turns a budget into a plan, and a plan into rounds.

A system adds no noise by itself: each round it opens one intent at the gate, and what it releases
under it is noisy sums that `accountant.mechanisms` made.  It never sees a log, only the gate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, runtime_checkable

from ...accountant import validate
from ...accountant.delta_checks import delta_below_half
from ...accountant.errors import InvalidInput
from ...accountant.neighbours import Neighbours, as_neighbours
from ...accountant.records import Claim, Planned, Population, Security
from ..declarations.registry import declaration_of
from ..observers.names import DEFAULT_OBSERVERS, MODEL, observer_name, observer_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...accountant.plan import Plan
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..parties.network import Network
    from ..settings.schema import Settings
    from ..training.local_training import Local
    from .phases import Phase
    from .state import Arrays, State

Parameters: TypeAlias = "NDArray[np.float64]"
"""A model as one vector: (D,) float64."""

Aggregation = Literal["plain", "masked", "private-weighting", "shares", "shuffle"]
"""What the server sees: every silo's update, only their sum, or that with hidden weights; without
one, peers see the sum (`shares`), and a shuffler takes the senders off messages (`shuffle`)."""


@dataclass(frozen=True)
class Privacy:
    """What a run is asked to protect, and with what.

    `unit` and `neighbours` say what one neighbour is, `observer` from whom it is hidden;
    `observers` are those whose numbers a verdict is about.
    `noise_multiplier` gives the noise; without it, `epsilon` at `delta` finds it.  With both, as
    many rounds are made as the budget allows.  `sampling_rate` is the probability that a user
    joins a round.  `group` is the number of records of a unit, where noise protects records.

    Range: `delta` in (0, .5), `epsilon` and `noise_multiplier` above 0, `sampling_rate` in (0, 1],
    `group` 1 or above.  Raises `InvalidInput`.
    """

    unit: Literal["record", "user", "silo", "entry"] = "user"
    neighbours: Neighbours = "add-remove"
    delta: float = 1e-5
    epsilon: float | None = None
    noise_multiplier: float | None = None
    sampling_rate: float = 1.0
    observer: str = MODEL
    group: int = 1
    observers: tuple[str, ...] = DEFAULT_OBSERVERS

    def __post_init__(self) -> None:
        validate.choice(("record", "user", "silo", "entry"), unit=self.unit)
        as_neighbours(self.neighbours)
        delta_below_half(delta=self.delta)
        if self.epsilon is not None:
            validate.positive(epsilon=self.epsilon)
        if self.noise_multiplier is not None:
            validate.positive(noise_multiplier=self.noise_multiplier)
        if validate.probability(sampling_rate=self.sampling_rate) == 0.0:
            raise InvalidInput(
                "`sampling_rate` must be above 0.",
                "At 0 no user ever takes part.",
                "Give the probability that a user joins a round.",
            )
        validate.count(group=self.group)
        observer_name(observer=self.observer)
        observer_names(observers=self.observers)


@dataclass(frozen=True)
class Opening:
    """What a run states before its first round: its promise, its plan and what it rests on."""

    claim: Claim
    plan: Planned
    population: Population
    aggregation: Aggregation = "plain"
    security: Security | None = None
    as_published: bool = False


@dataclass(frozen=True)
class Round:
    """A round that was made: the released model, and the sequence number of its release.

    `state` is what the system keeps beside the model, as it stated (`fl.frame.state`).
    """

    parameters: Parameters
    released: int
    state: Arrays = field(default_factory=dict)


class System(Protocol):
    """An algorithm, a federation and a plan.

    A system may also offer `parts`, the names and shapes of the parts of the released vector
    (`Parted`).
    """

    @property
    def name(self) -> str:
        """Its name in configurations, such as `uldp-avg`."""

    def plan(self) -> Plan:
        """Return what will be released, fixed before the first release.

        Its phases' rounds add up to fewer than were asked for where the budget ends before.
        Raises `BudgetExceeded` where it does not allow one round.
        """

    def opening(self) -> Opening:
        """Return what the run states first."""

    def restate(self, planned: Planned) -> None:
        """State from now on what the log of this run announced, where an older version wrote it."""

    def initial(self) -> Parameters:
        """Return the model that the first round starts from; public."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the plan, in their order, with what one round of each does.

        A round of a phase that makes models is given its number (from 1), the model and the state
        that the last round left, and the gate.  It opens one intent or more, and releases a model
        under the last of them, or it raises an error and releases none.
        """

    @property
    def state(self) -> State | None:
        """What is kept between rounds beside the model: public arrays, by name and shape.

        Each class states it for itself (`fl.frame.state.states`).  A run of a class that does not
        cannot be resumed: what it keeps, nobody saved.
        """

    def initial_state(self) -> Arrays:
        """Return the state that the first round starts from; public."""

    @property
    def network(self) -> Network | None:
        """Between whom messages travel; None where no party talks to another."""


@runtime_checkable
class Parted(Protocol):
    """A system that names the parts of the vector that it releases."""

    @property
    def parts(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each part, in the order in which they stand in the vector."""


def digest(parameters: Parameters) -> str:
    """Return the SHA-256 of a model, as the log names it: over its little-endian float64 bytes."""
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(parameters, "<f8").tobytes()).hexdigest()


Maker: TypeAlias = "Callable[[Settings, Federation, Local, Streams], System]"


def build(settings: Settings, federation: Federation, local: Local, streams: Streams) -> System:
    """Return the system that `settings.run.system` names, ready to be planned and run.

    `local` is the training inside its silos, which a system without gradients never asks.
    Raises `InvalidInput` for a name that is not known and for settings that do not fit the system.
    """
    declaration = declaration_of(settings.run.system)
    return cast("Maker", declaration.load(declaration.make))(settings, federation, local, streams)
