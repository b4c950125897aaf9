"""What holds of a whole tree of events, the one walk through it, and rules applied to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Final

from . import events as ev
from .errors import InvalidInput
from .events.base import Event


def parts_of(event: Event) -> tuple[Event, ...]:
    """Return the events that an event is directly made of, in order; none for a mechanism.

    >>> from privplan.accountant import events as ev
    >>> parts_of(ev.Compose([ev.Pure(1.0), ev.Gaussian(2.0)]))
    (Pure(epsilon=1.0), Gaussian(noise_multiplier=2.0))
    """
    inner = getattr(event, "event", None)
    parts: tuple[Event, ...] = getattr(event, "events", () if inner is None else (inner,))
    return parts


def events_inside(event: Event) -> tuple[Event, ...]:
    """Return an event and all that are inside it, the outermost first, shared ones once.

    A composition may stand at any depth, so a walk along `event` alone misses what it holds.

    >>> from privplan.accountant import events as ev
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


_SHUFFLES: Final = (ev.Shuffle, ev.SampledShuffle)


def unit_of(event: ev.Event) -> str:
    """Return what one unit of an event is: a record, or a group of so many records.

    >>> unit_of(ev.Repeat(3, ev.Group(8, ev.Gaussian(1.0))))
    'group of 8 records'
    """
    sizes = group_sizes(event)
    if len(sizes) > 1:
        return "unit"
    size = max(sizes, default=1)
    return "record" if size == 1 else f"group of {size:,} records"


def observer_of(event: ev.Event) -> str:
    """Return from whom an event hides a unit: whoever sees the model, or the shuffled messages.

    >>> observer_of(ev.Repeat(3, ev.Shuffle(100, ev.Laplace(2.0))))
    'analyzer'
    """
    check_depth(event)
    is_shuffled = any(isinstance(each, _SHUFFLES) for each in events_inside(event))
    return "analyzer" if is_shuffled else "model"


def rewritten(event: ev.Event, rule: Callable[[ev.Event], ev.Event]) -> ev.Event:
    """Return an event with every sub-event, the innermost first, as a rule has it.

    The event itself where the rule changes nothing.
    """
    check_depth(event)
    return _rewritten(event, rule, {})


def _rewritten(
    event: ev.Event, rule: Callable[[ev.Event], ev.Event], results: dict[int, ev.Event]
) -> ev.Event:
    """Return it; `results` holds those of shared sub-events, by identity."""
    if id(event) in results:
        return results[id(event)]
    result = event
    if isinstance(event, ev.Compose):
        parts = tuple(_rewritten(part, rule, results) for part in event.events)
        if any(new is not old for new, old in zip(parts, event.events, strict=True)):
            result = ev.Compose(parts)
    elif isinstance(inner := getattr(event, "event", None), ev.Event):
        new = _rewritten(inner, rule, results)
        result = event if new is inner else replace(event, event=new)  # type: ignore[call-arg]
    results[id(event)] = rule(result)
    return results[id(event)]


def group_sizes(event: ev.Event) -> tuple[int, ...]:
    """Return, ascending, how many records a unit has in the releases of an event."""
    check_depth(event)
    return tuple(sorted(_sizes(event, {})))


def _sizes(event: ev.Event, results: dict[int, frozenset[int]]) -> frozenset[int]:
    """Return how many records a unit has in each release of an event."""
    if id(event) not in results:
        parts = parts_of(event)
        below = frozenset().union(*(_sizes(part, results) for part in parts))
        if isinstance(event, ev.Group):
            below = frozenset(event.size * size for size in below)
        results[id(event)] = below if parts or isinstance(event, ev.Compose) else frozenset({1})
    return results[id(event)]


def check_depth(event: ev.Event) -> None:
    """Raise `InvalidInput` for nesting deeper than `MAX_DEPTH`, before anything walks down it."""
    _descend(event, 0, {})


def _descend(event: ev.Event, depth: int, seen: dict[int, int]) -> None:
    if depth > ev.MAX_DEPTH:
        raise InvalidInput(
            f"The event is nested more than {ev.MAX_DEPTH} levels deep.",
            next_step="Flatten it.",
        )
    if seen.get(id(event), -1) >= depth:
        return
    seen[id(event)] = depth
    for part in parts_of(event):
        _descend(part, depth + 1, seen)


def with_less_noise(event: ev.Event, factor: float) -> ev.Event:
    """Return an event of which every noise is divided by `factor`, 1 or above.

    So are noise multipliers; a stated epsilon or rho is multiplied by it.  Rates, counts and deltas
    stay.

    >>> from privplan.accountant import events as ev
    >>> with_less_noise(ev.Repeat(3, ev.Poisson(0.5, ev.Gaussian(2.0))), 2.0)
    Repeat(count=3, event=Poisson(rate=0.5, event=Gaussian(noise_multiplier=1.0)))
    """
    changes: dict[str, object] = {}
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, ev.Event):
            changes[field.name] = with_less_noise(value, factor)
        elif isinstance(value, tuple):
            changes[field.name] = tuple(
                with_less_noise(each, factor) if isinstance(each, ev.Event) else each
                for each in value
            )
        elif field.name == "noise_multiplier":
            changes[field.name] = value / factor
        elif field.name in ("epsilon", "rho"):
            changes[field.name] = value * factor
    return replace(event, **changes) if changes else event
