"""Events in words: on one line, and why one of them has no guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from ...accountant import rounding
from ..terminal.output import plain

if TYPE_CHECKING:
    from ...accountant.events import Event


def phrase(event: Event) -> str:
    """Return an event on one short line.

    >>> from privplan.accountant import events as ev
    >>> phrase(ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))))
    '1,000 x Gaussian noise 1, Poisson sampling at rate 0.01'
    """
    text = plain(_phrase(event))
    return text if len(text) <= 160 else text[:156] + " ..."


def no_guarantee(event: Event) -> str | None:
    """Return why an event has no guarantee, at any delta or at a small one; None where it has.

    >>> from privplan.accountant import events as ev
    >>> no_guarantee(ev.Repeat(2, ev.Approximate(0.0, 0.25)))
    'there is none at a delta below 0.4375'
    """
    from ...accountant.events import NoGuarantee

    reason = next(
        (part.reason for part, _ in parts_of(event) if isinstance(part, NoGuarantee)), None
    )
    least = _least_delta(event)
    if reason is None and least > 0.0:
        return f"there is none at a delta below {rounding.down(least)}"
    return reason


def _least_delta(event: Event) -> float:
    """Return a delta below which an event has no guarantee, whatever epsilon; 0 if none is known.

    Each part of delta gives everything away with that probability, by itself.
    """
    from ...accountant import events as ev

    if isinstance(event, ev.Approximate):
        return event.delta
    if isinstance(event, ev.Repeat):
        return 1.0 - (1.0 - _least_delta(event.event)) ** event.count
    if isinstance(event, ev.Compose):
        return 1.0 - math.prod(1.0 - _least_delta(part) for part in event.events)
    return 0.0


def _children(event: Event) -> list[Event]:
    """Return the events directly inside `event`."""
    from ...accountant.events import Event as Base

    values = [getattr(event, item.name) for item in fields(event)]
    return [
        part
        for value in values
        for part in (value if isinstance(value, tuple) else (value,))
        if isinstance(part, Base)
    ]


def parts_of(event: Event) -> Iterator[tuple[Event, bool]]:
    """Yield `event` and everything inside it, and whether it stands inside a group."""
    waiting = [(event, False)]
    while waiting:
        part, grouped = waiting.pop()
        yield part, grouped
        inside = grouped or part.type == "group"
        waiting += [(child, inside) for child in _children(part)]


def _phrase(event: Event) -> str:
    from ...accountant import events as ev

    match event:
        case ev.Gaussian(noise):
            return f"Gaussian noise {noise:g}"
        case ev.Laplace(noise):
            return f"Laplace noise {noise:g}"
        case ev.Renyi(orders, _):
            if len(orders) == 1:
                return f"a Renyi divergence at order {orders[0]:g}"
            return f"a Renyi curve at {len(orders)} orders up to {orders[-1]:g}"
        case ev.NoGuarantee(reason):
            return f"a release without protection ({reason.rstrip('.')})"
        case ev.Poisson(rate, inner):
            return f"{_phrase(inner)}, Poisson sampling at rate {rounding.rate_shown(rate)}"
        case ev.Repeat(count, inner):
            return f"{count:,} x {_phrase(inner)}"
        case ev.Group(size, inner):
            return f"a unit of {size:,} records in {_phrase(inner)}"
        case ev.FixedSize(batch, population, inner):
            return f"{_phrase(inner)}, {batch:,} of {population:,} records drawn"
        case ev.WithReplacement(batch, population, inner):
            return f"{_phrase(inner)}, {batch:,} draws of {population:,} records, put back"
        case ev.ClientSampled(rate, inner):
            return (
                f"{_phrase(inner)}, in a client that takes part at rate {rounding.rate_shown(rate)}"
            )
        case ev.GaussianMixture(noise, contributions, _):
            return f"Gaussian noise {noise:g} on contributions of up to {max(contributions):g}"
        case ev.ShuffledBatches(batches, inner):
            return f"{_phrase(inner)}, an epoch of {batches:,} shuffled batches"
        case ev.RandomAllocation(steps, chosen, inner):
            return f"{_phrase(inner)}, in {chosen:,} of {steps:,} steps"
        case ev.MatrixGaussian(noise, strategy, participation):
            rounds = f"{strategy.type} strategy, {participation.type} participation"
            return f"correlated Gaussian noise {noise:g} over all rounds ({rounds})"
        case ev.Shuffle(users, inner):
            return f"{_phrase(inner)} by each of {users:,} users, shuffled"
        case ev.BestOf(distribution, mean, inner, shape):
            law = distribution if shape is None else f"{distribution}, shape {shape:g}"
            return f"the best of {mean:g} ({law}) runs of {_phrase(inner)}"
        case ev.Compose(()):
            return "nothing"
        case ev.Compose(parts):
            # A long plan is told by its ends: the line has to stay one line.
            if len(parts) > 3:
                ends = _phrase(parts[0]), _phrase(parts[-1])
                return f"{len(parts):,} releases, from ({ends[0]}) to ({ends[1]})"
            return "; ".join(f"({_phrase(part)})" for part in parts)
    values = [
        f"{item.name} {value:g}" if isinstance(value, float) else f"{item.name} {value}"
        for item in fields(event)
        if not isinstance(value := getattr(event, item.name), ev.Event)
    ]
    inside = "".join(f" of {_phrase(part)}" for part in _children(event))
    return f"{event.type} ({', '.join(values)}){inside}"
