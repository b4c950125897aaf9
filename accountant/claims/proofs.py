"""What is proven about an event, as the two numbers of a row: nothing claimed ever enters here."""

from __future__ import annotations

from typing import Final

from .. import events as ev
from ..account import account

_NOISE_NUDGE_RELATIVE: Final = 1e-14
"""More than the relative rounding error of a noise multiplier computed in a few operations."""


def epsilon(event: ev.Event, delta: float, neighbours: str) -> tuple[float, float]:
    """Return (upper, lower) bounds on epsilon of an event at `delta` in (0, 1).

    >>> upper, lower = epsilon(ev.Gaussian(1.0), 1e-5, "add-remove")
    >>> round(upper, 6), round(lower, 6)
    (4.377178, 4.377178)
    """
    bounds = account(event, delta=delta, neighbours=neighbours).epsilon
    return bounds.upper, bounds.lower


def upper_epsilon(event: ev.Event, delta: float, neighbours: str) -> float:
    """Return what is proven about an event that only bounds the mechanism in question.

    Its own lower end says nothing about that mechanism, and is dropped.
    """
    return account(event, delta=delta, neighbours=neighbours).epsilon.upper


def gaussian(
    multiplier: float, rounds: int, delta: float, neighbours: str = "add-remove"
) -> tuple[float, float]:
    """Return (upper, lower) bounds on epsilon of `rounds` Gaussians that attain their bound.

    `multiplier` may carry the rounding error of a few operations.
    """
    # Less noise for the upper end, more for the lower: both hold for the exact multiplier.
    low = ev.Repeat(rounds, ev.Gaussian(multiplier * (1.0 - _NOISE_NUDGE_RELATIVE)))
    high = ev.Repeat(rounds, ev.Gaussian(multiplier * (1.0 + _NOISE_NUDGE_RELATIVE)))
    return (
        account(low, delta=delta, neighbours=neighbours).epsilon.upper,
        account(high, delta=delta, neighbours=neighbours).epsilon.lower,
    )


def nothing_holds(reason: str, delta: float) -> float:
    """Return the epsilon that is proven about what is no guarantee: infinity."""
    return account(ev.NoGuarantee(reason), delta=delta).epsilon.upper
