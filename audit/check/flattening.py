"""Events that are steps of Gaussian noise on Poisson samples, as the phases of a schedule."""

from __future__ import annotations

from ...accountant import events as ev
from ..description.run_description import Phase


def as_phases(event: ev.Event) -> tuple[Phase, ...] | None:
    """Return the phases that say the same as an event; None where no phases do.

    >>> as_phases(ev.Repeat(9, ev.Poisson(0.01, ev.Gaussian(2.0))))
    (Phase(noise_multiplier=2.0, rate=0.01, steps=9),)
    """
    match event:
        case ev.Gaussian(noise):
            return (Phase(noise, 1.0, 1),)
        case ev.Poisson(rate, ev.Gaussian(noise)) if rate > 0.0:
            return (Phase(noise, rate, 1),)
        case ev.Repeat(count, inner):
            phases = as_phases(inner)
            if phases is None or len(phases) != 1:
                return None
            (phase,) = phases
            return (Phase(phase.noise_multiplier, phase.rate, phase.steps * count),)
        case ev.Compose(parts) if parts:
            each = [as_phases(part) for part in parts]
            if any(phases is None for phases in each):
                return None
            return tuple(phase for phases in each for phase in phases or ())
    return None
