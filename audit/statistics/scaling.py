"""The family around a claim: the same event with all of its noise multiplied by one factor."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import Unsupported
from ...accountant.event_tree import check_depth

_NOISY = (ev.Gaussian, ev.MatrixGaussian, ev.Laplace, ev.DiscreteGaussian, ev.DiscreteLaplace)
_BARE = (ev.Pure, ev.Local, ev.RandomizedResponse, ev.Exponential, ev.Approximate)

MIN_DISCRETE_DEVIATION: Final = 3.0
"""The least standard deviation, in integers, of discrete Gaussian noise in a family."""


def scaled(event: ev.Event, factor: float) -> ev.Event:
    """Return the event with every noise multiplier times `factor`, and all else as it is.

    A bare epsilon is divided by the factor, and rho by its square.  A larger factor protects
    better: noise of a larger scale is the smaller one with more added (Gaussian, also where rounds
    share it, Laplace, discrete Laplace).  Discrete Gaussian noise is no such sum: of standard
    deviation 0.6 it shows more than of 0.5 where one unit in 200 is a false alarm.  From 3 on,
    calculation finds no error, averaged over both kinds in any way, that falls by more than 1e-12
    as noise grows.  Range: factor above 0.  Raises `Unsupported` where nothing in the event is
    noise, and for discrete Gaussian noise of a standard deviation (`noise_multiplier` x
    `sensitivity`) below 3.

    >>> scaled(ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(1.0))), 0.5)
    Repeat(count=50, event=Poisson(rate=0.1, event=Gaussian(noise_multiplier=0.5)))
    """
    validate.positive(factor=factor)
    check_depth(event)  # before recursion into an event of a stranger's log
    if not _noise_in(event):
        raise Unsupported(
            "The event holds no noise that could be scaled.",
            "A family is the claimed event with more or less noise.",
            "Use the robust tier, which needs no family.",
        )
    return _scaled(event, factor)


def _scaled(event: ev.Event, factor: float) -> ev.Event:
    if isinstance(event, ev.DiscreteGaussian):
        _require_ordered(event.noise_multiplier * factor * event.sensitivity)
    if isinstance(event, _NOISY):
        return replace(event, noise_multiplier=event.noise_multiplier * factor)
    if isinstance(event, _BARE):
        return replace(event, epsilon=event.epsilon / factor)
    if isinstance(event, ev.ZCDP):
        return ev.ZCDP(event.rho / factor / factor)  # rho = 1 / (2 sigma^2)
    if isinstance(event, ev.Compose):
        return ev.Compose(tuple(_scaled(part, factor) for part in event.events))
    # Wrappers (`Repeat`, `Poisson`, `Group`, ...) keep their own numbers.
    inner = getattr(event, "event", None)
    if isinstance(inner, ev.Event):
        changes: dict[str, ev.Event] = {"event": _scaled(inner, factor)}
        return replace(event, **changes)
    return event


def _require_ordered(deviation: float) -> None:
    if deviation < MIN_DISCRETE_DEVIATION * (1.0 - 1e-9):
        raise Unsupported(
            f"Discrete Gaussian noise of standard deviation {deviation:.3g} is in no family here.",
            f"Below {MIN_DISCRETE_DEVIATION:g} more noise does not always protect better.",
            "Use a finer grid for the noise, or `steinke`, which needs no family.",
        )


def _noise_in(event: ev.Event) -> bool:
    if isinstance(event, (*_NOISY, *_BARE, ev.ZCDP)):
        return True
    inner = getattr(event, "event", None)
    parts = getattr(event, "events", () if inner is None else (inner,))
    return any(_noise_in(part) for part in parts)
