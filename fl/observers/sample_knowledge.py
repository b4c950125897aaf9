"""Who knows which units a round sampled: against them nothing is amplified by sampling."""

from __future__ import annotations

from typing import Final

from ...accountant import events as ev
from .names import (
    ANALYZER,
    COLLUDING,
    COORDINATOR,
    MODEL,
    SERVER,
    SHUFFLER,
    SILO_WITH_RECORDS,
    coalition_of,
)
from .route import Route


def knows_sample(observer: str, route: Route) -> bool:
    """Return whether an observer knows who was drawn; False where nobody is drawn.

    A server knows a sample that it draws, or that messages show it; with oblivious transfer under
    private weighting it does not know which slots are real.  Silos know a common sample, except
    one of users of whom they have nothing, under private weighting.
    """
    drawn = route.sampling
    if drawn.method == "none" or observer == MODEL:
        return False
    inside = drawn.of in ("entry", "record")  # of one silo, which may draw by itself
    private = route.aggregation == "private-weighting"
    transferred = drawn.drawn_by == "oblivious-transfer"
    if observer in (SERVER, COORDINATOR, ANALYZER):
        if route.messages and route.aggregation == "plain":
            return True  # who sends no message was not drawn
        if observer == COORDINATOR and route.shuffled:
            return True
        hidden = drawn.drawn_by in ("silos", "shared-secret") or (transferred and private)
        return not hidden
    if observer in (SHUFFLER, COLLUDING):
        return True
    if coalition_of(observer) is None and observer != SILO_WITH_RECORDS and not inside:
        return not (private and drawn.of == "user" and (transferred or drawn.drawn_by == "server"))
    return not (inside and drawn.drawn_by == "silos")


SAMPLING_EVENTS: Final = (
    ev.Poisson,
    ev.FixedSize,
    ev.TruncatedPoisson,
    ev.ShuffledBatches,
    ev.RandomAllocation,
)
"""Events that say that a unit hides in a sample."""


def parts_of(event: ev.Event | None) -> list[ev.Event]:
    """Return an event and everything inside it."""
    parts, waiting = [], [] if event is None else [event]
    while waiting:
        part = waiting.pop()
        parts.append(part)
        waiting += getattr(part, "events", ())
        inner = getattr(part, "event", None)
        if isinstance(inner, ev.Event):
            waiting.append(inner)
    return parts


def is_sampled(event: ev.Event | None) -> bool:
    """Return whether an event counts on a sample anywhere."""
    return any(isinstance(part, SAMPLING_EVENTS) for part in parts_of(event))
