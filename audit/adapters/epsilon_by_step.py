"""Epsilon after each step of a training, certified from both sides, at little cost for each.

Steps only add: what T steps prove lies between what fewer and what more of them do.  So where
epsilon is asked for after every step, it is computed for some numbers of steps only, each ahead of
the last question by so many that the two ends stay within `GAP` of each other:

    lower(T_i) <= epsilon(T) <= upper(T_{i+1}),   T_i <= T <= T_{i+1}.

Asked for by itself, it is as tight as `account` makes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ...accountant import events as ev
from ...accountant.account import bounds_on_epsilon
from ...accountant.composition import Composition
from ...accountant.engines.pld.ask.engine import PldEngine
from ...accountant.errors import PrivplanError
from ...accountant.guarantee import Bounds
from ...accountant.neighbours import Neighbours

History: TypeAlias = Sequence[tuple[float, float, int]]
"""Noise multiplier, sampling rate, steps: of each phase, in order."""

GAP: Final = 0.01
"""Relative distance of the two ends where epsilon is asked for after every step."""

_AHEAD: Final = 0.7
"""The share of the gap that steps ahead may take up; the rest is for the ends themselves."""

_QUICK_ACCURACY: Final = 5e-4
_QUICK_TOLERANCE: Final = 2e-3


def event_of(history: History) -> ev.Event:
    """Return the event of Gaussian noise on Poisson samples, phase by phase.

    Range: noise 0 or above (0 is no guarantee), rates in [0, 1], steps 0 or above.  Raises
    `InvalidInput` outside of it.
    """
    parts: list[ev.Event] = []
    for noise_multiplier, rate, steps in history:
        if steps == 0 or rate == 0.0:
            continue
        noisy: ev.Event = ev.NoGuarantee("no noise is added")
        if noise_multiplier != 0.0:
            noisy = ev.Gaussian(float(noise_multiplier))
            noisy = noisy if rate == 1.0 else ev.Poisson(float(rate), noisy)
        parts.append(ev.Repeat(int(steps), noisy))
    return ev.Compose(tuple(parts))


def epsilon_of(history: History, delta: float, neighbours: Neighbours) -> Bounds:
    """Return both ends of epsilon at `delta` in (0, 1), as tight as `account` makes them."""
    if any(noise == 0.0 and rate > 0.0 and steps > 0 for noise, rate, steps in history):
        return Bounds.exactly(math.inf)
    return bounds_on_epsilon(event_of(history), delta=delta, neighbours=neighbours)


@dataclass(frozen=True)
class SpentEpsilon:
    """What so many steps have spent: epsilon lies between `lower` and `upper`, at the plan's delta.

    `left` is how much of the promised epsilon `upper` leaves, 0 where it leaves none.  That is a
    difference of numbers to show, and no budget for other releases: what composes is the events.
    """

    step: int
    lower: float
    upper: float
    left: float


@dataclass
class EpsilonBySteps:
    """Answers for a history that grows by a step at a time, at one delta.

    >>> asked = EpsilonBySteps(1e-5)
    >>> [round(asked.bounds([(1.0, 0.01, steps)]).upper, 2) for steps in (998, 999, 1000)]
    [1.83, 1.84, 1.84]
    """

    delta: float
    neighbours: Neighbours = "add-remove"
    _phases: tuple[tuple[float, float], ...] = ()
    _before: int = 0
    """The number of steps of the phases before the last one, by which they are known."""
    _points: list[tuple[int, Bounds]] = field(default_factory=list)

    def bounds(self, history: History) -> Bounds:
        """Return both ends of epsilon, within `GAP` of each other where steps follow each other."""
        if not history:
            return Bounds.exactly(0.0)
        *settled, (noise, rate, steps) = history
        phases = tuple((each[0], each[1]) for each in history)
        before = sum(each[2] for each in settled)
        if (phases, before) != (self._phases, self._before):
            self._phases, self._before, self._points = phases, before, []
        known = self._known(steps)
        if known is not None:
            return known
        follows = self._points and steps == self._points[-1][0] + 1
        if not follows:
            # Asked for by itself: nothing says that the next question is about one step more.
            exact = epsilon_of(history, self.delta, self.neighbours)
            self._points = [(steps, exact)]
            return exact
        ahead = steps + self._stride(steps)
        while True:
            near = self._quick([*settled, (noise, rate, ahead)])
            last = self._points[-1][1].lower
            # Too far ahead, or too little is known from below: nearer, down to this very step.
            if ahead == steps or near.upper <= last * (1.0 + GAP):
                break
            ahead = steps + (ahead - steps) // 2
        self._points = [*self._points[-2:], (ahead, near)]
        return self._known(steps) or near

    def _known(self, steps: int) -> Bounds | None:
        """Return the ends that the points around a number of steps give, if they are around it."""
        upper = next((each for at, each in self._points if at >= steps), None)
        lower = [each.lower for at, each in self._points if at <= steps]
        if upper is None or not lower:
            return None
        return Bounds(min(max(lower), upper.upper), upper.upper)

    def _stride(self, steps: int) -> int:
        """Return how many steps ahead epsilon has grown by about `_AHEAD` of the gap."""
        growth = 0.5
        if len(self._points) > 1:
            (first, least), (second, most) = self._points[-2:]
            if least.upper > 0.0 and second > first:
                growth = math.log(most.upper / least.upper) / math.log(second / first)
        return int(steps * math.expm1(GAP * _AHEAD / min(max(growth, 0.05), 2.0)))

    def _quick(self, history: History) -> Bounds:
        """Return both ends by a coarser grid where that has an answer, by `account` otherwise."""
        try:
            engine = PldEngine(_QUICK_ACCURACY, _QUICK_TOLERANCE)
            parts = Composition.of(event_of(history))
            return engine.epsilon(parts, self.delta, self.neighbours).bounds
        except PrivplanError:
            return epsilon_of(history, self.delta, self.neighbours)
