"""A run whose plan is certified and of which nothing is released yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...accountant.errors import Unsupported
from ...accountant.plan import Plan
from ...accountant.randomness import Streams
from ..data.federation import Federation
from ..declarations.registry import declaration_of
from ..frame.held_out_release import HeldOutRelease
from ..frame.held_out_score import HeldOutScore
from ..frame.opening import Design, Note, OpeningStatement
from ..frame.phases import last_round
from ..frame.private_system import PrivateSystem
from ..frame.rounds import system_with_package
from ..frame.state import Arrays, Shape
from ..frame.system import System
from ..settings.public_test_data import EvaluationData
from ..settings.schema import Settings
from .seat import Seat

if TYPE_CHECKING:
    from ..models import Model


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A run that may begin: nothing is released or written yet.

    `dataset` identifies the records and how they were dealt: a fact about private data, which may
    only be sealed.  `test` says whether the model may be measured.  `segment` counts the starts of
    the run; each has streams of its own.  `trained` is None for a system that does not train.
    `parts` are the names and shapes of what is released, in the order of the vector.  `seat` is
    that of the party that makes the run with others; None where all are in this process.
    """

    settings: Settings
    federation: Federation
    trained: Model | None
    system: System
    streams: Streams
    plan: Plan
    opening: OpeningStatement
    dataset: dict[str, str] = field(repr=False)
    test: EvaluationData
    segment: int = 0
    parts: Mapping[str, Shape] = field(default_factory=dict)
    seat: Seat | None = None

    @property
    def model(self) -> Model:
        """The model that is trained; raises `Unsupported` for a system that does not train."""
        if self.trained is None:
            raise Unsupported(
                f"{self.whose} trains no model.",
                "What asks what a model says of a record has nothing to ask.",
                "Read what was released from its file: `fl.running.checkpoint.Checkpoint.arrays`.",
            )
        return self.trained

    @property
    def rounds(self) -> int:
        """How many rounds are planned, of those that `[run] rounds` counts."""
        return last_round(self.system.phases)

    @property
    def width(self) -> int:
        """How many numbers one release of a model has, D."""
        return self.system.initial().size

    @property
    def whose(self) -> str:
        """The system and its package, as messages name them."""
        return system_with_package(self.system.name, declaration_of(self.system.name))

    def held_out(self, state: Arrays) -> HeldOutScore | None:
        """Return how users who were held out voted, by the state that a run kept; None if none."""
        votes = getattr(getattr(self.system, "setup", None), "held_out", None)
        return votes.score(state) if isinstance(votes, HeldOutRelease) else None

    @property
    def promises(self) -> bool:
        """Whether there is any guarantee: not for a method as published, nor without noise."""
        return not self.opening.as_published and self.opening.claim.epsilon is not None

    @property
    def asked(self) -> int:
        """How many rounds were asked for; a system that plans fewer itself says how many."""
        if isinstance(self.system, PrivateSystem):
            return self.system.setup.rounds
        return self.settings.run.rounds

    @property
    def design(self) -> Design | None:
        """The design that the system chose by public facts; None where it has no choice."""
        return self.system.design if isinstance(self.system, PrivateSystem) else None

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the system says besides its guarantees, none of which is one."""
        return self.system.notes if isinstance(self.system, PrivateSystem) else ()

    @property
    def cut(self) -> bool:
        """Whether the budget allows fewer rounds than were asked for."""
        return self.rounds < self.asked
