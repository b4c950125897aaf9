"""Events that bound a run, from above and from below, and the noise that they are made of."""

from __future__ import annotations

from dataclasses import dataclass

from ...accountant import events as ev
from ...accountant.guarantee import Neighbours
from ..description.run_description import Phase


@dataclass(frozen=True)
class BoundingEvent:
    """An event under a relation; `delta_spent` of the claim's delta is spent beside it."""

    event: ev.Event
    neighbours: Neighbours
    delta_spent: float = 0.0


@dataclass(frozen=True)
class RunEvents:
    """The event that bounds a run from above, and those that bound it from below.

    The first lower event that can be accounted counts.  `conditions` are sentences.
    """

    upper: BoundingEvent
    lower: tuple[BoundingEvent, ...]
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class PhaseDraws:
    """The noise of one phase: at the upper and at the lower end, with rates and steps.

    `delta` is the phase's share of the claim's delta.
    """

    upper: ev.Event
    lower: ev.Event
    phase: Phase
    upper_rate: float
    lower_rate: float
    delta: float
