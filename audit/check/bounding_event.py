"""Events that bound a run, from above and from below, and the noise that they are made of."""

from __future__ import annotations

from dataclasses import dataclass

from ...accountant import events as ev
from ...accountant.guarantee import Neighbours
from ..description.run_description import Phase


@dataclass(frozen=True)
class BoundingEvent:
    """An event under a relation; `delta_spent` of the claim's delta is spent besides it.

    `present` is the probability with which a lower event shows the unit at all; in the other case
    nothing of it is released.  `alone` says that it is about a single record, also where the unit
    has several, and `once` that nothing else of the run shows it independently: it is not composed
    with other phases, and not repeated.
    """

    event: ev.Event
    neighbours: Neighbours
    delta_spent: float = 0.0
    present: float = 1.0
    alone: bool = False
    once: bool = False


LowerEnd = tuple[BoundingEvent, ...]
"""Events that all bound a run from below in one reading; the first that shows something counts."""


@dataclass(frozen=True)
class RunEvents:
    """The events that bound a run, one for each reading that its description leaves open.

    The largest `upper` end counts, and the smallest `lower` end.  `conditions` are sentences, and
    `lacking` the keys without which there is no upper end.
    """

    upper: tuple[BoundingEvent, ...]
    lower: tuple[LowerEnd, ...]
    conditions: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True)
class PhaseDraws:
    """The noise of one phase: at the upper and at the lower end, with its rate and steps.

    A noise draw takes `batches` samples of the phase's rate, independently.  `lower_rate` is the
    rate at which a record is certainly there.  `delta` is the phase's share of the claim's delta.
    """

    upper: ev.Event
    lower: ev.Event
    phase: Phase
    lower_rate: float
    delta: float
    batches: int = 1

    @property
    def rate(self) -> float:
        """Return the rate of one sample."""
        return min(1.0, self.phase.rate)
