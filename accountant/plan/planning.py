"""How do I split a budget?  Phases in, noise for each out, certified for every observer.

Or how many rounds does it allow?  Answered before the first one is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from .. import events as ev
from .. import validate
from ..account import account
from ..calibrate import calibrate
from ..errors import InvalidInput, PrivplanError, TargetTrivial, Unsupported
from ..event_tree import unit_of
from ..guarantee import Guarantee
from ..neighbours import Neighbours, as_neighbours
from ..rootfinding import last_integer
from .cheapest_split import Cost, cheapest_ratios, cost_of, name_of
from .phases import (
    Phase,
    PlannedPhase,
    checked,
    composed,
    grouped,
    observers_of,
    of_units,
    proven,
    require_single_units,
    unit_named,
)

SPLITS: Final = ("equal-noise", "weights", "cheapest")

_NOISE_INCREMENT: Final = 1.0 + 2e-5
"""The noise grows by this factor where an observer's epsilon lies a hair above the target."""

_MAX_INCREMENTS: Final = 8


@dataclass(frozen=True)
class Plan:
    """Noise for every phase, and what the whole proves to each observer.

    `epsilon`, `delta`, `neighbours`, `group` are the target; `guarantees` holds the certified
    `Guarantee` of each observer, none above it; `cost` is what the split costs, by `cost_name`.
    """

    phases: tuple[PlannedPhase, ...]
    guarantees: Mapping[str, Guarantee]
    epsilon: float
    delta: float
    neighbours: Neighbours
    split: str
    cost: float
    cost_name: str
    group: int = 1
    unit: str = field(default="record")

    @property
    def noise(self) -> dict[str, float]:
        """The noise multiplier of each phase whose noise was not fixed, by name."""
        noises = {phase.name: phase.noise_multiplier for phase in self.phases}
        return {name: noise for name, noise in noises.items() if noise is not None}

    @property
    def event(self) -> ev.Event:
        """All phases, in order, each as its task event: what somebody sees who sees all of it.

        Of each phase as many rounds as are of one unit.
        """
        parts = [ev.Repeat(phase.events_of_a_unit, phase.event) for phase in self.phases]
        return grouped(parts, self.group)

    def seen_by(self, observer: str, rounds: Sequence[int] | None = None) -> ev.Event:
        """Return what an observer sees of so many rounds of each phase.

        Without numbers: of all that are of one unit.
        """
        validate.choice(tuple(self.guarantees), observer=observer)
        if rounds is None:
            return composed(self.phases, observer, self.group)
        counted = zip(self.phases, rounds, strict=True)
        parts = [part for phase, count in counted if (part := phase.seen_by(observer, count))]
        return grouped(parts, self.group)

    def to_json(self) -> dict[str, object]:
        """Return the plan as a JSON object."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "split": self.split,
            "cost": {"name": self.cost_name, "value": self.cost},
            "phases": [_phase_json(phase) for phase in self.phases],
            "guarantees": [_guarantee_json(guarantee) for guarantee in self.guarantees.values()],
            "event": self.event.to_json(),
        }


def plan(
    phases: Sequence[Phase],
    *,
    epsilon: float,
    delta: float,
    neighbours: str = "add-remove",
    split: str = "equal-noise",
    cost: str | Cost | None = None,
    group: int = 1,
    unit: str = "record",
) -> Plan:
    """Return the least noise at which every observer's epsilon is at most `epsilon` at `delta`.

    `split` says how noise is divided: `equal-noise` (one noise multiplier for all phases),
    `weights` (`phase.weight` x a common factor), or `cheapest` (the ratios at which `cost` is
    least).  `cost` is `variance` (the default), `deviation`, `average` or `largest` of the noise,
    see `accountant.plan.split_costs`, or a function of the noise multipliers by name.  The common
    factor is certified in every case; that no other ratios cost less is not proven, but the
    cheapest split never costs more than equal noise.  `group` is the number of records of one unit,
    `unit` the name of what `make_event` calls one record.

    Range: `epsilon` above 0, `delta` in (0, 1), `group` 1 or above.  Raises `InvalidInput`,
    `TargetUnreachable` if no noise meets the target, `TargetTrivial` if every noise does,
    `Unsupported` where no engine has sound mathematics for what an observer sees.

    >>> planned = plan(
    ...     [Phase("clip", ev.Gaussian, 1), Phase("train", ev.Gaussian, 100)],
    ...     epsilon=1, delta=1e-5,
    ... )
    >>> round(planned.noise["train"], 1), planned.guarantees["model"].epsilon.upper <= 1.0
    (37.5, True)
    """
    task = _Task(
        checked(phases),
        validate.positive(epsilon=epsilon),
        validate.open_probability(delta=delta),
        as_neighbours(neighbours),
        validate.count(group=group),
    )
    require_single_units(task.phases, task.group)
    validate.choice(SPLITS, split=split)
    price = cost_of(
        "variance" if cost is None else cost, [phase for phase in task.phases if not phase.fixed]
    )
    if split != "weights" and any(phase.weight != 1.0 for phase in task.phases):
        raise InvalidInput(
            f"Weights have no use in the split {split!r}.",
            "They are the noise of each phase, relative to the others.",
            "Give split='weights', or leave the weights out.",
        )
    # Equal noise is always a candidate, so the cheapest split never costs more.
    candidates = [tuple(phase.weight for phase in task.phases)]
    if split == "cheapest":
        target = task.epsilon, task.delta, task.relation, task.group
        candidates.append(cheapest_ratios(task.phases, price, *target))
    certified = [task.certified(ratios) for ratios in candidates]
    costs = [
        price([phase.noise_multiplier for phase in planned if phase.noise_multiplier is not None])
        for planned, _ in certified
    ]
    # The search proves nothing: both candidates are certified, then the cheaper one is taken.
    best = min(range(len(certified)), key=costs.__getitem__)
    planned, guarantees = certified[best]
    # An event may be about a group already; then a guarantee is about that, not about one record.
    whole = grouped([phase.event for phase in planned], task.group)
    return Plan(
        planned,
        of_units(guarantees, unit),
        task.epsilon,
        task.delta,
        task.relation,
        split,
        costs[best],
        name_of("variance" if cost is None else cost),
        task.group,
        unit_named(unit_of(whole), unit),
    )


class _Target(TypedDict):
    epsilon: float
    delta: float
    neighbours: str


_Certified = tuple[tuple[PlannedPhase, ...], dict[str, Guarantee]]


@dataclass(frozen=True)
class _Task:
    """Phases and the target that they have to meet."""

    phases: tuple[Phase, ...]
    epsilon: float
    delta: float
    relation: Neighbours
    group: int

    @property
    def observers(self) -> tuple[str, ...]:
        """All observers, the one that sees most phases first."""
        return observers_of([phase.seen for phase in self.phases])

    def certified(self, ratios: Sequence[float]) -> _Certified:
        """Return the phases at these ratios of noise, with the least certified common factor."""
        factor = self._factor(ratios)
        # Certify all observers at one factor; where one is a hair above the target, more noise.
        for _ in range(_MAX_INCREMENTS):
            planned = self._at(factor, ratios)
            guarantees = {name: self._guarantee(planned, name) for name in self.observers}
            if all(proof.epsilon.upper <= self.epsilon for proof in guarantees.values()):
                return planned, guarantees
            factor *= _NOISE_INCREMENT
        raise Unsupported(
            "The noise that was found does not meet the target for every observer.",
            "An observer's epsilon does not fall as the noise grows.",
            "Check that each `make_event` protects better with more noise.",
        )

    def _factor(self, ratios: Sequence[float]) -> float:
        """Return a factor at which every observer's epsilon is about at most the target."""
        factor: float | None = None
        trivial: TargetTrivial | None = None
        for name in self.observers:
            # The factor so far may suffice for this observer as well.
            if factor is not None:
                planned = self._at(factor, ratios)
                if self._guarantee(planned, name).epsilon.upper <= self.epsilon:
                    continue
            try:
                needed = self._calibrated(name, ratios)
            except TargetTrivial as error:
                trivial = error
                continue
            factor = needed if factor is None else max(factor, needed)
        if factor is None:
            assert trivial is not None
            raise trivial
        return factor

    def _calibrated(self, observer: str, ratios: Sequence[float]) -> float:
        def event_at(factor: float) -> ev.Event:
            return composed(self._at(factor, ratios), observer, self.group)

        target: _Target = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.relation,
        }
        try:
            return calibrate(event_at, **target).value
        except PrivplanError as error:
            if len(self.observers) == 1:
                raise
            raise type(error)(
                f"Before {observer!r}: {error.what}", error.why, error.next_step
            ) from None

    def _at(self, factor: float, ratios: Sequence[float]) -> tuple[PlannedPhase, ...]:
        pairs = zip(self.phases, ratios, strict=True)
        return tuple(phase.at(ratio * factor) for phase, ratio in pairs)

    def _guarantee(self, planned: Sequence[PlannedPhase], observer: str) -> Guarantee:
        return proven(planned, observer, delta=self.delta, relation=self.relation, group=self.group)


def _phase_json(phase: PlannedPhase) -> dict[str, object]:
    others = {name: view for name, view in phase.views.items() if view != phase.event}
    return {
        "name": phase.name,
        "noise_multiplier": phase.noise_multiplier,
        "rounds": phase.rounds,
        **({} if phase.counted is None else {"counted": phase.counted}),
        **({} if phase.blocks is None else {"blocks": phase.blocks}),
        "event": phase.event.to_json(),
        "observers": list(phase.observers),
        "views": {name: view.to_json() for name, view in others.items()},
    }


def _guarantee_json(guarantee: Guarantee) -> dict[str, object]:
    return {
        "observer": guarantee.observer,
        "epsilon": {"lower": guarantee.epsilon.lower, "upper": guarantee.epsilon.upper},
        "delta": guarantee.delta.upper,
        "neighbours": guarantee.neighbours,
        "unit": guarantee.unit,
        "engine": guarantee.engine,
        "derivation": [
            {
                "stage": step.stage,
                "statement": step.statement,
                "source": step.source,
                "conditions": list(step.conditions),
            }
            for step in guarantee.derivation
        ],
        "warnings": list(guarantee.warnings),
    }


def affordable(
    event: ev.Event,
    *,
    epsilon: float,
    delta: float,
    most: int,
    neighbours: str = "add-remove",
    group: int = 1,
    before: Sequence[ev.Event] = (),
) -> int:
    """Return the largest number of rounds, at most `most`, whose epsilon is within the budget.

    `event` is one round, as the observer sees it to whom the budget is promised; `group` the number
    of records of one unit; `before` what that observer sees besides, which is paid first.  The
    answer is certified by the same `account` that proves a plan, and one round more, where that is
    at most `most`, is above the budget; 0 where one round is.  A run cut there is fixed before its
    first release, so every engine may prove it.

    Range: `epsilon` above 0, `delta` in (0, 1), `most` and `group` 1 or above.  Raises
    `InvalidInput`, and `Unsupported` where no engine has sound mathematics for the event.

    >>> affordable(ev.Gaussian(5.0), epsilon=8.0, delta=1e-5, most=1000)
    69
    """
    budget = validate.positive(epsilon=epsilon)
    at_delta = validate.open_probability(delta=delta)
    relation = as_neighbours(neighbours)
    size = validate.count(group=group)
    limit = validate.count(most=most)

    def within(rounds: int) -> bool:
        seen = grouped([*before, ev.Repeat(rounds, event)], size)
        return account(seen, delta=at_delta, neighbours=relation).epsilon.upper <= budget

    if within(limit):
        return limit
    # What is returned was itself certified to be within the budget (0 rounds are).
    return last_integer(within, 0, limit)
