"""One round as every system makes it: an intent, the draw of the noise, and a release.

    intent   paid from the budget and written to the log before anything is drawn
    draw     the system computes its noisy sum and the next model (`Draft`)
    release  written to the log; only then is the model handed on

A crash at any point leaves a round that is paid for; none is ever released without being paid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accountant import events as ev
from ...accountant import records
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, kind_of, with_article
from ...accountant.mechanisms import Gate, Ticket
from ...accountant.plan import PlannedPhase
from .model import KeepModel, Parameters, Round, finite_model, model_digest
from .state import Arrays, State, declared_state, state_digest
from .system import System

if TYPE_CHECKING:
    from ..declarations.declaration import Declaration


@dataclass(frozen=True, eq=False)
class Draft:
    """The result of a round before its release.

    - `parameters`: the next model (D,); `state`: the arrays with it.  Both are functions of
      released values alone.
    - `aggregate`: the noisy sum, or a function of it; the log keeps its digest.
    - `normaliser`: the public constant by which the sum was divided.
    - `shares`: how many shares of the noise are in it, where silos may drop out.
    - `sealed`: computed from private records, for the trusted auditor alone; the log keeps a
      commitment.
    - `clip_enforced`: whether every contribution was clipped to the stated bound.
    - `values`: how many numbers were released, where the model is made of others; None: its own.
    """

    parameters: Parameters
    state: Arrays = field(default_factory=dict)
    aggregate: FloatArray | None = None
    normaliser: records.Normaliser | None = None
    sealed: Mapping[str, object] = field(default_factory=dict, repr=False)
    shares: int | None = None
    clip_enforced: bool = True
    values: int | None = None


@dataclass(frozen=True, eq=False)
class NoisySum:
    """A noisy sum (D,) and the public constant that divides it; both may be published."""

    total: FloatArray
    constant: float

    @property
    def mean(self) -> FloatArray:
        """The noisy mean, (D,)."""
        return self.total / self.constant

    def times(self, rate: float) -> FloatArray:
        """Return `rate` times the mean, (D,), with one rounding of `rate / constant`."""
        scaled: FloatArray = rate / self.constant * self.total
        return scaled


def make_round(
    gate: Gate,
    intent: records.RoundIntent,
    work: Callable[[Ticket], Draft],
    *,
    state: State | None = None,
    whose: str = "the system",
    keep: KeepModel | None = None,
) -> Round:
    """Make one round: log the intent, call `work` with the ticket to draw, log the release.

    `state` declares what the system keeps with its model; what `work` returns is checked against
    it before the release.  `whose` names the system in errors.  `keep` is called with model and
    state just before the release is logged (`fl.frame.phases.Phase.make_kept`).  Raises what `work`
    and the gate raise, and `InvalidInput` where `work` returns no `Draft`, a model that is not one
    vector of finite float64, or another state than declared; then the round has no release.
    """
    with gate.open(intent) as ticket:
        # The intent is logged and paid for: from here on, a failure counts as spent.
        draft = work(ticket)
        _require(Draft, draft, whose)
        # All checks come before `close`: after it the release could not be taken back.
        model = finite_model(draft.parameters, None, f"The next model of {whose}")
        if not isinstance(draft.aggregate, np.ndarray | None):
            raise InvalidInput(
                f"The aggregate of {whose} must be an array; it is {kind_of(draft.aggregate)}.",
                "The log keeps a digest of it.",
                "Give the noisy sum, or None.",
            )
        state_after = (state or State()).checked(draft.state, whose)
        if keep is not None:
            keep(model, state_after)
        released = ticket.close(
            normaliser=draft.normaliser,
            aggregate=None if draft.aggregate is None else draft.aggregate.tobytes(),
            model_out=model_digest(model),
            state_out=state_digest(state_after),
            sealed=draft.sealed,
            values=model.size if draft.values is None else draft.values,
            shares=draft.shares,
            clip_enforced=draft.clip_enforced,
        )
    return Round(model, released, state_after)


def planned_release(planned: PlannedPhase, index: int, name: str | None = None) -> PlannedPhase:
    """Return the plan of one release of a phase whose rounds consist of several releases.

    Such a phase is planned as a `Compose` for every observer, and `index` counts its events from 0.
    Each release has a `name` of its own in the log; None stands for the name of the phase, which
    the release of the model has.  Raises `InvalidInput` where some observer's event has no such
    part.
    """
    return replace(
        planned,
        name=planned.name if name is None else name,
        event=_part(planned.event, index),
        views={observer: _part(event, index) for observer, event in planned.views.items()},
    )


def release_with_model(
    gate: Gate,
    intent: records.RoundIntent,
    work: Callable[[Ticket], FloatArray],
    sealed: Mapping[str, object] | None = None,
) -> FloatArray:
    """Release something else than a model within a round, such as a noisy count; return its values.

    `work` returns the released array, of any shape; the log keeps its digest.  `sealed` is read
    after `work`, which may fill it.  The model is the last release of the round (`make_round`).
    Raises as `make_round`.
    """
    with gate.open(intent) as ticket:
        values = work(ticket)
        ticket.close(aggregate=values.tobytes(), values=values.size, sealed=sealed)
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
    system: System, declaration: Declaration | None, result: Round, size: int, gate: Gate
) -> Round:
    """Return the result of a round, checked against the gate and copied.

    The model must be the one that `gate` released last, with `size` numbers, and the state must be
    as declared.  The arrays are copies: what the system does to its own later changes no model.
    Raises `InvalidInput`, which names the package, the system and the array.
    """
    whose = system_with_package(system.name, declaration)
    _require(Round, result, whose)
    # What the next round starts from must be what the log says was released.
    model = finite_model(result.parameters, size, f"The next model of {whose}")
    if gate.model != (result.released, model_digest(model)):
        raise InvalidInput(
            f"The next model of {whose} is not the one that its round released.",
            "A run goes on from what stands in its log, and from nothing else.",
            "Return what `make_round` returns, and change nothing of it.",
        )
    return Round(
        model, result.released, (declared_state(system) or State()).checked(result.state, whose)
    )


def system_with_package(system: str, declaration: Declaration | None) -> str:
    """Return the name of a system with that of its package, for error messages."""
    return system if declaration is None else f"{system} (package {declaration.package})"


def simulated_rounds(
    system: System, gate: Gate, *, most: int | None = None
) -> Iterator[tuple[int, Parameters, Round]]:
    """Make the rounds of a system in memory: yield the number, the model before, and the result.

    The `state` of each result holds all arrays of the run, those of earlier phases included.
    Phases that release something else than a model are made and yield nothing.  At most `most`
    rounds are made.
    """
    parameters, state = system.initial(), dict(system.initial_state())
    rounds_done = 0
    for phase in system.phases:
        if phase.once is not None:
            arrays = phase.once.made(parameters.copy(), gate, lambda _: None)
            state |= phase.once.follow(arrays).arrays
            continue
        assert phase.make is not None
        for number in range(phase.first, phase.last + 1):
            if rounds_done == most:
                return
            # Copies: a system that keeps the array cannot change what was yielded.
            returned = phase.make(number, parameters.copy(), gate, state)
            result = checked_round(system, None, returned, parameters.size, gate)
            state = {**state, **result.state}
            yield number, parameters, Round(result.parameters, result.released, state)
            parameters, rounds_done = result.parameters, rounds_done + 1


def _require(kind: type[Any], value: object, whose: str) -> None:
    if not isinstance(value, kind):
        raise InvalidInput(
            f"A round of {whose} must return {with_article(kind.__name__)}; it returned "
            f"{kind_of(value)}.",
            "What is released, and what the next round starts from, is said there.",
            f"Return {with_article(kind.__name__)}.",
        )
