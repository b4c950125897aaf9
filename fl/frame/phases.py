"""Phases: the parts of a run, each with its plan, its rounds' numbers, and what one of them does.

Rounds are numbered through the whole run.  `[run] rounds` counts those from 1 on; what is made
before them has the number 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.mechanisms import Gate
from ...accountant.plan import PlannedPhase
from .model import Parameters, Round
from .state import Arrays, State

if TYPE_CHECKING:
    from ..data.federation import Federation

MakeRound: TypeAlias = Callable[[int, Parameters, Gate, Arrays], Round]
"""From a round's number, the model and the state that the last round left, to what it releases."""

SaveArrays: TypeAlias = Callable[[Arrays], None]
"""Keeps the result of a phase that cannot be made again, durably."""


@dataclass(frozen=True, eq=False)
class PhaseOutcome:
    """What follows from the result of a phase: the arrays as they are used, and the federation.

    `federation` is what is trained and measured on from then on; None where it stays the same.
    """

    arrays: Arrays
    federation: Federation | None = None


@dataclass(frozen=True, eq=False)
class SingleRelease:
    """What a phase releases that is no model, and that no other release can replace.

    - `what`: its name in messages, such as "the moments that features are normalised by".
    - `state`: the arrays that it leaves, public; they stay in the state of the run.
    - `release(gate, keep)`: one intent and one release, or an error.  It calls `keep` before the
      release stands in the log: noise that was drawn is gone with the process that drew it, and
      the plan pays for no second release.  What is kept counts for nothing without the release.
    - `digest(arrays)`: SHA-256 of what was released, as `aggregate` of the release names it.
    - `follow(arrays)`: what follows from it; called when it was made, and again on resume.
    """

    what: str
    state: State
    release: Callable[[Gate, SaveArrays], Arrays]
    digest: Callable[[Arrays], str]
    follow: Callable[[Arrays], PhaseOutcome]


@dataclass(frozen=True, eq=False)
class Phase:
    """One phase of a system: what is planned, the number of its first round, and what one does.

    Either `make` makes each round, which releases a model, or the phase is one release of something
    else (`once`).  Raises `InvalidInput` for neither, both, and more than one such release.
    """

    plan: PlannedPhase
    first: int
    make: MakeRound | None = None
    once: SingleRelease | None = None

    def __post_init__(self) -> None:
        if (self.make is None) == (self.once is None) or (self.once and self.plan.rounds != 1):
            raise InvalidInput(
                f"The phase {self.plan.name!r} must say what one round of it does.",
                "It makes models round by round, or it is one release of something else.",
                "Give `make`, or `once` with a plan of one round.",
            )

    @property
    def name(self) -> str:
        """Its name in the plan and in the log."""
        return self.plan.name

    @property
    def last(self) -> int:
        """The number of its last round; `first` - 1 where it has none."""
        return self.first + self.plan.rounds - 1


def checked_phases(phases: Sequence[Phase], planned: Sequence[PlannedPhase]) -> tuple[Phase, ...]:
    """Return phases whose rounds follow one another; raise `InvalidInput` for others.

    They are those of the plan, in its order, and no two of them have a round's number in common.
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
    due = 0
    for phase in listed:
        if phase.first < due:
            raise InvalidInput(
                f"The first round of the phase {phase.name!r} is {phase.first}; it must be {due} "
                "or above.",
                "Rounds are known by their numbers, in the log and on resume.",
                "Number them through the whole run; those from 1 on are the rounds of [run].",
            )
        due = max(phase.last + 1, 1)
    return listed


def require_saved_before_release(once: SingleRelease, gate: Gate, earlier: int, whose: str) -> None:
    """Raise `InvalidInput` where a result is kept after its release stands in the log.

    `earlier` is how many releases the gate had recorded before the phase, and `whose` names the
    system with its package.
    """
    if gate.releases != earlier:
        raise _lying(f"{whose} keeps {once.what} after their release", "Call `keep` before `close`")


def require_one_release(
    once: SingleRelease, state: Arrays, gate: Gate, earlier: int, whose: str
) -> None:
    """Raise `InvalidInput` unless a phase made one release, of what it kept; as above."""
    kept = {name: state[name] for name in once.state.shapes if name in state}
    if kept.keys() != once.state.shapes.keys():
        raise _lying(
            f"{whose} released {once.what}, and kept nothing", "Call `keep` before `close`"
        )
    if gate.releases != earlier + 1 or gate.aggregate != once.digest(kept):
        raise _lying(
            f"{whose} keeps {once.what} that are not those of one release in its log",
            "Keep what `close` is given as `aggregate`, under one intent",
        )


def _lying(what: str, step: str) -> InvalidInput:
    return InvalidInput(
        f"{what}.",
        "A run goes on from what stands in its log, and from nothing else.",
        f"{step}, as `release` of a phase that releases once.",
    )


def last_round(phases: Sequence[Phase]) -> int:
    """Return the number of the last round, which is how many `[run] rounds` may ask for."""
    return max((phase.last for phase in phases if phase.plan.rounds), default=0)


def rounds_by_phase(planned: Sequence[PlannedPhase], rounds: int) -> list[int]:
    """Return how many of the first `rounds` rounds of a plan belong to each phase."""
    shares = []
    for phase in planned:
        shares.append(min(phase.rounds, rounds))
        rounds -= shares[-1]
    return shares


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
