"""Events that are steps on Poisson samples, as phases of a schedule or as draws with a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ...accountant import events as ev
from ..description.run_description import Phase

Steps = TypeVar("Steps", "Phase", "StatedDraw")

_NOISE: Final = (
    ev.Gaussian,
    ev.Laplace,
    ev.DiscreteGaussian,
    ev.DiscreteLaplace,
    ev.Pure,
    ev.ZCDP,
    ev.NoGuarantee,
)


@dataclass(frozen=True)
class StatedDraw:
    """A draw of noise that an event states, at a rate, in `steps` steps."""

    draw: ev.Event
    rate: float
    steps: int


def as_phases(event: ev.Event) -> tuple[Phase, ...] | None:
    """Return the phases that say the same as an event; None where no phases do.

    >>> as_phases(ev.Repeat(9, ev.Poisson(0.01, ev.Gaussian(2.0))))
    (Phase(noise_multiplier=2.0, rate=0.01, steps=9),)
    """
    return _flat(event, _phase)


def as_stated_draws(event: ev.Event) -> tuple[StatedDraw, ...] | None:
    """Return the draws of noise, on Poisson samples, that say the same as an event, or None.

    >>> as_stated_draws(ev.Repeat(9, ev.Poisson(0.01, ev.Laplace(2.0))))
    (StatedDraw(draw=Laplace(noise_multiplier=2.0), rate=0.01, steps=9),)
    """
    return _flat(event, _stated_draw)


def _phase(event: ev.Event) -> Phase | None:
    match event:
        case ev.Gaussian(noise):
            return Phase(noise, 1.0, 1)
        case ev.Poisson(rate, ev.Gaussian(noise)) if rate > 0.0:
            return Phase(noise, rate, 1)
    return None


def _stated_draw(event: ev.Event) -> StatedDraw | None:
    match event:
        case ev.Poisson(rate, inner) if rate > 0.0 and _is_noise(inner):
            return StatedDraw(inner, rate, 1)
    return StatedDraw(event, 1.0, 1) if isinstance(event, _NOISE) else None


def _is_noise(event: ev.Event) -> bool:
    if isinstance(event, ev.Compose):
        return all(_is_noise(part) for part in event.events)
    if isinstance(event, ev.Repeat):
        return _is_noise(event.event)
    return isinstance(event, _NOISE)


def _flat(event: ev.Event, single: Callable[[ev.Event], Steps | None]) -> tuple[Steps, ...] | None:
    """Return the single steps of an event with their counts; None where some part is none."""
    step = single(event)
    if step is not None:
        return (step,)
    match event:
        case ev.Repeat(count, inner):
            steps = _flat(inner, single)
            if steps is None or len(steps) != 1:
                return None
            return (replace(steps[0], steps=steps[0].steps * count),)
        case ev.Compose(parts) if parts:
            each = [_flat(part, single) for part in parts]
            if any(steps is None for steps in each):
                return None
            return tuple(step for steps in each for step in steps or ())
    return None
