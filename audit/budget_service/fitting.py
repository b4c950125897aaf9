"""What would fit where a claim does not: the largest count, the highest rate, the least noise.

Each is found by prices alone, inside of what is left, and each changes one thing of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.odometer import BudgetCurrency, price
from .balances import Vector, plus, price_vector, within

Rooms = Sequence[tuple[Vector, Vector]]
"""What is spent and the cap, of each block and project that limits a claim."""

_STEPS: Final = 24
"""Halvings of a search: three digits, rounded to the side that fits."""

_NOISIEST: Final = 1e6


def what_fits(event: ev.Event, currency: BudgetCurrency, rooms: Rooms) -> dict[str, object]:
    """Return the largest count of releases, the highest rate and the least noise that fit.

    What the event has none of is left out; None where nothing fits however it is changed.
    """

    def fits(candidate: ev.Event) -> bool:
        try:
            units = price_vector(price(candidate, currency, currency.neighbours))
        except PrivplanError:
            return False
        return all(within(plus(spent, units), cap) for spent, cap in rooms)

    answer: dict[str, object] = {"count": _count(event, fits)}
    rates, noises = set(_numbers(event, "rate")), set(_numbers(event, "noise_multiplier"))
    if len(rates) == 1:
        (rate,) = rates
        answer["rate"] = _largest(lambda part: fits(_with(event, "rate", rate * part)), rate)
    if len(noises) == 1:
        (noise,) = noises
        answer["noise_multiplier"] = _least_noise(
            lambda value: fits(_with(event, "noise_multiplier", value)), noise
        )
    return answer


def _count(event: ev.Event, fits: Callable[[ev.Event], bool]) -> int:
    """Return how many of the repeated event fit, at most as many as were asked for."""
    if not isinstance(event, ev.Repeat):
        return 0
    low, high = 0, event.count
    while high - low > 1:
        middle = (low + high) // 2
        if fits(ev.Repeat(middle, event.event)):
            low = middle
        else:
            high = middle
    return low


def _largest(fits: Callable[[float], bool], rate: float) -> float | None:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _down(rate * low) if low > 0.0 and fits(_down(rate * low) / rate) else None


def _least_noise(fits: Callable[[float], bool], noise: float) -> float | None:
    if not fits(_NOISIEST):
        return None
    low, high = noise, noise
    while not fits(high):
        low, high = high, min(high * 2.0, _NOISIEST)
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if fits(middle) else (middle, high)
    rounded = float(f"{high * 1.0005:.4g}")
    return rounded if fits(rounded) else high


def _down(value: float) -> float:
    return float(f"{value * 0.9995:.4g}")


def _numbers(event: ev.Event, name: str) -> Iterator[float]:
    """Yield a field of an event and of all events inside."""
    for each in _inside(event):
        value = getattr(each, name, None)
        if isinstance(value, (int, float)):
            yield float(value)


def _inside(event: ev.Event) -> Iterator[ev.Event]:
    yield event
    for field in fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, ev.Event):
                yield from _inside(part)


def _with(event: ev.Event, name: str, value: float) -> ev.Event:
    """Return the event with a field set to a value wherever it has one."""
    changed: dict[str, Any] = {}
    for field in fields(event):  # type: ignore[arg-type]
        part = getattr(event, field.name)
        if field.name == name:
            changed[field.name] = value
        elif isinstance(part, ev.Event):
            changed[field.name] = _with(part, name, value)
        elif isinstance(part, tuple) and part and all(isinstance(p, ev.Event) for p in part):
            changed[field.name] = tuple(_with(p, name, value) for p in part)
    return replace(event, **changed)  # type: ignore[type-var]
