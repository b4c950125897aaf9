"""What the keys of a description can say of an event: noise, rate and steps of a composition.

An event says more than keys do, and stands for them; the keys are given where they say the same,
so that a claim can also be held against what common accountants print.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...accountant.events import ZCDP, Compose, Event, Gaussian, Poisson, Repeat
from ..description.run_description import Phase
from .read_values import merged_phases, schedule_values

MAX_PHASES: Final = 10_000

SAMPLING_IS_TOLD: Final = (
    "The event says how its accountant was told that batches were sampled, not how they were: no "
    "file shows which sampler ran."
)

SAMPLED_ZCDP: Final = (
    "The event samples something of which only zCDP is known, and sampling does not amplify that "
    "as such. If it is discrete Gaussian noise, the event is Poisson of DiscreteGaussian."
)


def schedule_of(event: Event) -> dict[str, object]:
    """Return the keys that say what an event does; none where it is no such composition.

    >>> schedule_of(Repeat(3, Poisson(0.1, Gaussian(1.0))))["schedule.steps"]
    3
    """
    phases = _phases(event)
    return schedule_values(list(phases)) if phases else {}


def parts_of(event: Event) -> Iterator[Event]:
    """Yield an event and every event inside it."""
    waiting = [event]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += getattr(current, "events", ())
        inner = getattr(current, "event", None)
        if inner is not None:
            waiting.append(inner)


def event_doubts(event: Event) -> tuple[str, ...]:
    """Return the doubts that an event itself raises."""
    sampled = [part for part in parts_of(event) if isinstance(part, Poisson)]
    doubts = [SAMPLING_IS_TOLD] if sampled else []
    if any(isinstance(part.event, ZCDP) for part in sampled):
        doubts.append(SAMPLED_ZCDP)
    return tuple(doubts)


def _phases(event: Event) -> tuple[Phase, ...]:
    """Return the phases of a composition of (Poisson-sampled) Gaussians; none for any other.

    A phase that is repeated is longer; a repeated series of phases is no schedule.
    """
    if isinstance(event, Gaussian):
        return (Phase(event.noise_multiplier, 1.0, 1),)
    if isinstance(event, Poisson) and isinstance(event.event, Gaussian) and event.rate > 0.0:
        return (Phase(event.event.noise_multiplier, event.rate, 1),)
    if isinstance(event, Repeat):
        inner = _phases(event.event)
        if len(inner) != 1:
            return ()
        (phase,) = inner
        return (Phase(phase.noise_multiplier, phase.rate, phase.steps * event.count),)
    if isinstance(event, Compose):
        phases: list[Phase] = []
        for part in event.events:
            inner = _phases(part)
            phases += inner
            if not inner or len(phases) > MAX_PHASES:
                return ()
        return merged_phases(phases)
    return ()
