"""The phases of a run: for each its plan, the numbers of its rounds, and how one round is made.

Rounds are numbered through the whole run.  `[run] rounds` counts those from 1 on; a phase that
releases something before the first model has the number 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.mechanisms import Gate
from ...accountant.plan import PlannedPhase
from ..declarations.declaration import HELD_OUT
from .model import KeepModel, Parameters, Round
from .state import Arrays, State

if TYPE_CHECKING:
    from ..data.federation import Federation

MakeRound: TypeAlias = Callable[[int, Parameters, Gate, Arrays], Round]
"""From a round's number, the last model, the gate and the last state, to the round's result."""

MakeKeptRound: TypeAlias = Callable[[int, Parameters, Gate, Arrays, KeepModel], Round]
"""As `MakeRound`, and calls the last argument with model and state just before their release."""

SaveArrays: TypeAlias = Callable[[Arrays], None]
"""Writes the result of a phase that cannot be repeated to disk."""


@dataclass(frozen=True, eq=False)
class PhaseOutcome:
    """What follows from a single release: its arrays as later rounds use them, and the federation.

    `federation` replaces the one that is trained and measured on; None leaves it as it is.
    """

    arrays: Arrays
    federation: Federation | None = None


@dataclass(frozen=True, eq=False)
class SingleRelease:
    """One release of something else than a model, made once in a run.

    - `what`: its name in messages, such as "the moments that features are normalised by".
    - `state`: names and shapes of the public arrays that it adds to the state of the run.
    - `release(gate, keep)`: makes one intent and one release, or raises an error.  It calls `keep`
      with the arrays before the release is logged: a process that is killed would lose the noise
      that it drew, and the plan pays for no second draw.  Kept arrays count only once the log has
      the release.
    - `digest(arrays)`: SHA-256 of the released values, as `aggregate` of the release states it.
    - `follow(arrays)`: the consequences; called after the release, and again on resume.
    - `of_model(parameters, gate, keep)`: does what `release` does, which is None then, from the
      model that the last round released.
    - `needed`: whether later rounds need it.  One that they do not need, and that was begun and
      lost when a run was cut off, is spent, and the run goes on without it.
    - `metrics(arrays)`: what the log says of the released values, as texts by name; None: nothing.
    """

    what: str
    state: State
    release: Callable[[Gate, SaveArrays], Arrays] | None
    digest: Callable[[Arrays], str]
    follow: Callable[[Arrays], PhaseOutcome]
    of_model: Callable[[Parameters, Gate, SaveArrays], Arrays] | None = None
    needed: bool = True
    metrics: Callable[[Arrays], Mapping[str, str]] | None = None

    def made(self, parameters: Parameters, gate: Gate, keep: SaveArrays) -> Arrays:
        """Make the release, after a round that released the model `parameters`."""
        if self.of_model is not None:
            return self.of_model(parameters, gate, keep)
        assert self.release is not None
        return self.release(gate, keep)


@dataclass(frozen=True, eq=False)
class Phase:
    """One phase of a system: its plan, the number of its first round, and how a round is made.

    Either `make` makes every round, each of which releases a model, or `once` makes the single
    release of something else.  `make_kept` is for a phase whose rounds cannot be made up for: it
    does what `make` does, and has the model kept before its release is logged, so that a process
    that is killed between the two loses nothing.  What is kept so counts only once the log has the
    release.  Raises `InvalidInput` for neither or both, and where `once` is planned with more than
    one round.
    """

    plan: PlannedPhase
    first: int
    make: MakeRound | None = None
    once: SingleRelease | None = None
    make_kept: MakeKeptRound | None = None

    def __post_init__(self) -> None:
        if (self.make is None) == (self.once is None) or (self.once and self.plan.rounds != 1):
            raise InvalidInput(
                f"The phase {self.plan.name!r} must say what one round of it does.",
                "It makes models round by round, or it is one release of something else.",
                "Give `make`, or `once` with a plan of one round.",
            )

    @property
    def name(self) -> str:
        """The name of the phase in the plan and in the log."""
        return self.plan.name

    @property
    def last(self) -> int:
        """The number of the last round; `first` - 1 where there is none."""
        return self.first + self.plan.rounds - 1


def checked_phases(phases: Sequence[Phase], planned: Sequence[PlannedPhase]) -> tuple[Phase, ...]:
    """Return the phases of a system as a tuple; raise `InvalidInput` unless they fit the plan.

    They must be the phases of the plan, in its order, and their rounds must be numbered upwards
    without an overlap.
    """
    listed = tuple(phases)
    for phase in listed:
        if not isinstance(phase, Phase):
            raise InvalidInput(
                f"The phases must be of type Phase; one is {kind_of(phase)}.",
                "A phase says what is planned, and what one round of it does.",
                "Return a tuple of `Phase`.",
            )
        if type(phase.first) is not int:
            raise InvalidInput(
                f"The first round of the phase {phase.name!r} must be an integer; it is "
                f"{kind_of(phase.first)}.",
                "Rounds are known by their numbers, in the log and on resume.",
                "Number them through the whole run; those from 1 on are the rounds of [run].",
            )
        if not callable(phase.make) and phase.once is None:
            raise InvalidInput(
                f"`make` of the phase {phase.name!r} must be a function.",
                "It makes each round of the phase.",
                "Give the function that makes a round.",
            )
    if [phase.name for phase in listed] != [phase.name for phase in planned]:
        raise InvalidInput(
            f"The phases are {_names([phase.name for phase in listed])}, and the plan has "
            f"{_names([phase.name for phase in planned])}.",
            "What is released is what was planned, phase by phase.",
            "List the phases of the plan, in its order.",
        )
    # A phase before the first model may have the number 0; rounds of models start at 1.
    next_number = 0
    for phase in listed:
        if phase.first < next_number:
            raise InvalidInput(
                f"The first round of the phase {phase.name!r} is {phase.first}; it must be "
                f"{next_number} or above.",
                "Rounds are known by their numbers, in the log and on resume.",
                "Number them through the whole run; those from 1 on are the rounds of [run].",
            )
        next_number = max(phase.last + 1, 1)
    return listed


def require_saved_before_release(once: SingleRelease, gate: Gate, earlier: int, whose: str) -> None:
    """Raise `InvalidInput` where a system saves its single release after it was logged.

    `earlier` is how many releases the gate had recorded before the phase; `whose` names the system
    and its package in the error.
    """
    if gate.releases != earlier:
        raise _refused(
            f"{whose} keeps {once.what} after their release", "Call `keep` before `close`"
        )


def require_one_release(
    once: SingleRelease, state: Arrays, gate: Gate, earlier: int, whose: str
) -> None:
    """Raise `InvalidInput` unless the phase made exactly one release, of the arrays it saved."""
    saved = {name: state[name] for name in once.state.shapes if name in state}
    if saved.keys() != once.state.shapes.keys():
        raise _refused(
            f"{whose} released {once.what}, and kept nothing", "Call `keep` before `close`"
        )
    if gate.releases != earlier + 1 or gate.aggregate != once.digest(saved):
        raise _refused(
            f"{whose} keeps {once.what} that are not those of one release in its log",
            "Keep what `close` is given as `aggregate`, under one intent",
        )


def _refused(what: str, step: str) -> InvalidInput:
    return InvalidInput(
        f"{what}.",
        "A run goes on from what stands in its log, and from nothing else.",
        f"{step}, as `release` of a phase that releases once.",
    )


def last_round(phases: Sequence[Phase]) -> int:
    """Return the number of the last round of all phases that make models."""
    return max((phase.last for phase in phases if phase.plan.rounds and not phase.once), default=0)


def training_phase(planned: Sequence[PlannedPhase]) -> PlannedPhase:
    """Return the phase of a plan whose rounds make the models: the last, but for votes on it."""
    return next(phase for phase in reversed(planned) if phase.name != HELD_OUT)


def rounds_by_phase(planned: Sequence[PlannedPhase], rounds: int) -> list[int]:
    """Return how many of the first `rounds` rounds of a plan fall into each phase."""
    counts = []
    for phase in planned:
        counts.append(min(phase.rounds, rounds))
        rounds -= counts[-1]
    return counts


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
