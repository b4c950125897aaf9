"""What is inside an event: the one walk that looks for kinds of events at any depth."""

from __future__ import annotations

from .base import Event


def parts_of(event: Event) -> tuple[Event, ...]:
    """Return the events that an event is directly made of, in order; none for a mechanism.

    >>> from . import definitions as ev
    >>> parts_of(ev.Compose([ev.Pure(1.0), ev.Gaussian(2.0)]))
    (Pure(epsilon=1.0), Gaussian(noise_multiplier=2.0))
    """
    inner = getattr(event, "event", None)
    parts: tuple[Event, ...] = getattr(event, "events", () if inner is None else (inner,))
    return parts


def events_inside(event: Event) -> tuple[Event, ...]:
    """Return an event and all that are inside it, the outermost first, shared ones once.

    A composition may stand at any depth, so a walk along `event` alone misses what it holds.

    >>> from . import definitions as ev
    >>> [each.type for each in events_inside(ev.Repeat(2, ev.Compose([ev.Pure(1.0)])))]
    ['repeat', 'compose', 'pure']
    """
    seen: dict[int, Event] = {}
    waiting = [event]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen[id(each)] = each
            waiting += reversed(parts_of(each))
    return tuple(seen.values())
