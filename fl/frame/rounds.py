"""One round, as every system makes it: an intent, what is drawn under it, and a release.

The order is the gate's: the intent is paid for and safe in the log before anything is drawn, and
what was made is handed on once its release is in the log.  A system says what is its own: what it
sums, and how that moves its model (`Draft`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import records
from ...accountant.errors import InvalidInput, kind_of, with_article
from ...accountant.mechanisms import Gate, Ticket
from ...accountant.plan import PlannedPhase
from .model import Parameters, Round, finite_model, model_digest
from .state import Arrays, State, declared_state, state_digest
from .system import System

if TYPE_CHECKING:
    from ..declarations.declaration import Declaration


@dataclass(frozen=True, eq=False)
class Draft:
    """What a round is about to release.

    `parameters` is the new model (D,) and `state` what is kept beside it, both functions of
    released values.  `aggregate` is the noisy sum (or what follows from it), of which the log keeps
    a digest; `shares` is how many shares of the noise arrived, where not all must.  `normaliser` is
    what the sum was divided by, a public constant.  `sealed` is for the trusted auditor alone.
    """

    parameters: Parameters
    state: Arrays = field(default_factory=dict)
    aggregate: NDArray[np.float64] | None = None
    normaliser: records.Normaliser | None = None
    sealed: Mapping[str, object] = field(default_factory=dict, repr=False)
    shares: int | None = None
    clip_enforced: bool = True


@dataclass(frozen=True, eq=False)
class NoisySum:
    """A noisy sum (D,) and the public constant that it is divided by; both may be published."""

    total: NDArray[np.float64]
    constant: float

    @property
    def mean(self) -> NDArray[np.float64]:
        """The noisy mean, (D,)."""
        return self.total / self.constant

    def times(self, rate: float) -> NDArray[np.float64]:
        """Return `rate` times the mean, (D,), with one rounding of `rate / constant`."""
        scaled: NDArray[np.float64] = rate / self.constant * self.total
        return scaled


def make_round(
    gate: Gate,
    intent: records.RoundIntent,
    work: Callable[[Ticket], Draft],
    *,
    state: State | None = None,
    whose: str = "the system",
) -> Round:
    """Make one round under an intent: `work` draws what the intent states, with the ticket.

    `state` is what the system keeps beside its model, by which what `work` returns is checked
    before the release; `whose` names it in what is said.  Raises what `work` and the gate raise,
    and `InvalidInput` for what is no draft, for a model that is not one vector of finite float64,
    and for a state that is not the one stated: then the round has no release.
    """
    with gate.open(intent) as ticket:
        draft = work(ticket)
        _require(Draft, draft, whose)
        model = finite_model(draft.parameters, None, f"The next model of {whose}")
        if not isinstance(draft.aggregate, np.ndarray | None):
            raise InvalidInput(
                f"The aggregate of {whose} must be an array; it is {kind_of(draft.aggregate)}.",
                "The log keeps a digest of it.",
                "Give the noisy sum, or None.",
            )
        kept = (state or State()).checked(draft.state, whose)
        released = ticket.close(
            normaliser=draft.normaliser,
            aggregate=None if draft.aggregate is None else draft.aggregate.tobytes(),
            model_out=model_digest(model),
            state_out=state_digest(kept),
            sealed=draft.sealed,
            values=model.size,
            shares=draft.shares,
            clip_enforced=draft.clip_enforced,
        )
    return Round(model, released, kept)


def planned_release(planned: PlannedPhase, place: int, name: str | None = None) -> PlannedPhase:
    """Return one release of each round of a phase whose rounds are several, in the plan's order.

    The plan has a `Compose` for every observer; `place` is which of its events, from 0.  Each
    release has its own `name` in the log, that of the phase if None: the one that makes the model.
    A `Phase` of a system is the whole one; this says what one intent of a round states.  Raises
    `InvalidInput` where the plan has no such part before somebody.
    """
    return replace(
        planned,
        name=planned.name if name is None else name,
        event=_part(planned.event, place),
        views={who: _part(event, place) for who, event in planned.views.items()},
    )


def release_beside(
    gate: Gate, intent: records.RoundIntent, work: Callable[[Ticket], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Make a release of a round that is no model, such as a noisy count beside a noisy sum.

    `work` returns what is released, an array of any shape; the log keeps its digest.  The release
    that makes the model is the last of its round (`make_round`).  Raises as `make_round`.
    """
    with gate.open(intent) as ticket:
        values = work(ticket)
        ticket.close(aggregate=values.tobytes(), values=values.size)
    return values


def _part(event: ev.Event, index: int) -> ev.Event:
    if not isinstance(event, ev.Compose) or not 0 <= index < len(event.events):
        raise InvalidInput(
            f"A round of {event} has no release {index}.",
            "A round of several releases is planned as a `Compose` of them, before each observer.",
            "Return such events from `views`.",
        )
    return event.events[index]


def checked_round(
    system: System, declaration: Declaration | None, moved: Round, size: int, gate: Gate
) -> Round:
    """Return what a round has left: a model that it released, and a state that was stated.

    `size` is the length of every model of the run, and `gate` what released it.  The arrays are
    the run's own: what the system does to its arrays later changes no model.  Raises
    `InvalidInput`, which names the package, the system and the array.
    """
    whose = system_with_package(system.name, declaration)
    _require(Round, moved, whose)
    model = finite_model(moved.parameters, size, f"The next model of {whose}")
    if gate.model != (moved.released, model_digest(model)):
        raise InvalidInput(
            f"The next model of {whose} is not the one that its round released.",
            "A run goes on from what stands in its log, and from nothing else.",
            "Return what `make_round` returns, and change nothing of it.",
        )
    return Round(
        model, moved.released, (declared_state(system) or State()).checked(moved.state, whose)
    )


def system_with_package(system: str, declaration: Declaration | None) -> str:
    """Return a system with its package, as messages name it."""
    return system if declaration is None else f"{system} (package {declaration.package})"


def simulated_rounds(
    system: System, gate: Gate, *, most: int | None = None
) -> Iterator[tuple[int, Parameters, Round]]:
    """Make the rounds of a system without a folder: yield number, model before, and what was made.

    Each round's `state` is all that the run has then.  Phases that are one release of something
    else are made, too, and yield nothing.  `most` ends after so many rounds.
    """
    parameters, state = system.initial(), dict(system.initial_state())
    done = 0
    for phase in system.phases:
        if phase.once is not None:
            arrays = phase.once.release(gate, lambda _: None)
            state |= phase.once.follow(arrays).arrays
            continue
        assert phase.make is not None
        for number in range(phase.first, phase.last + 1):
            if done == most:
                return
            returned = phase.make(number, parameters.copy(), gate, state)
            moved = checked_round(system, None, returned, parameters.size, gate)
            state = {**state, **moved.state}
            yield number, parameters, Round(moved.parameters, moved.released, state)
            parameters, done = moved.parameters, done + 1


def _require(kind: type[Any], given: object, whose: str) -> None:
    if not isinstance(given, kind):
        raise InvalidInput(
            f"A round of {whose} must return {with_article(kind.__name__)}; it returned "
            f"{kind_of(given)}.",
            "What is released, and what the next round starts from, is said there.",
            f"Return {with_article(kind.__name__)}.",
        )
