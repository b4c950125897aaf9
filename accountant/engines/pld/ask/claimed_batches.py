"""What an epoch of shuffled batches would cost as Poisson samples, which it is not."""

from __future__ import annotations

from functools import lru_cache

from .... import events as ev
from .... import rounding
from ....composition import Composition
from ....errors import PrivplanError
from ....event_tree import rewritten
from ....guarantee import Bounds, Neighbours
from .cap import bounds_or_none


def batch_warnings(
    event: ev.Event,
    neighbours: Neighbours,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    lower: float = 0.0,
) -> tuple[str, ...]:
    """Return a warning for an event that holds shuffled batches, else nothing.

    Batches in random order are often accounted as Poisson samples at rate 1 / batches.  Given the
    question (`delta` or `epsilon`), the warning says what that would claim; given the `lower` end
    of the answer to it, whether that is false.
    """
    poisson = rewritten(event, _as_poisson)
    if poisson is event:
        return ()
    claimed = _claimed(poisson, neighbours, delta, epsilon)
    opening = "Shuffled batches are not Poisson sampling, and no amplification is proven for them."
    if neighbours == "add-remove":
        opening += (
            " Under add-remove they may cost more than releases on all the data, since another "
            "record moves into the place of one that goes."
        )
    if claimed is None:
        return (opening,)
    name = "epsilon" if delta is not None else "delta"
    verdict = "is not proven"
    if lower > claimed.upper:
        verdict = f"is false: {name} is at least {rounding.down(lower)}"
    return (
        f"{opening} With each batch accounted as a Poisson sample, at rate 1 / batches, {name} "
        f"would be {rounding.up(claimed.upper)}; that {verdict}.",
    )


def _as_poisson(event: ev.Event) -> ev.Event:
    """Return an epoch of shuffled batches as Poisson samples; any other event as it is."""
    if not isinstance(event, ev.ShuffledBatches):
        return event
    return ev.Repeat(event.batches, ev.Poisson(1.0 / event.batches, event.event))


@lru_cache(maxsize=64)
def _claimed(
    event: ev.Event, neighbours: Neighbours, delta: float | None, epsilon: float | None
) -> Bounds | None:
    if delta is None and epsilon is None:
        return None
    try:
        poisson = Composition.of(event)
    except PrivplanError:
        return None
    return bounds_or_none(poisson, neighbours, delta, epsilon)
