"""Which of two events protects less, where their shapes say so without any accounting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final, Literal

from ...accountant import events as ev
from ...accountant.sensitivity.release import repeated

EVENT_TOLERANCE_RELATIVE: Final = 1e-9
"""Relative difference that rounding explains; it decides what is reported, never a number."""

_UNORDERED: Final = {
    "discrete-gaussian": ("noise_multiplier",),
    "truncated-poisson": ("rate", "batch", "population"),
    "sampled-shuffle": ("users", "dimensions", "chosen", "padded_to"),
}
"""Fields that may protect less where they are smaller, and where they are larger.  At delta 1e-5
and sensitivity 1, discrete Gaussian noise of 0.40 has epsilon 9.4, and of 0.45 it has 12.1; a
higher cap cuts less often, and a higher rate more often; of users who sample coordinates, more hide
better, and leave fewer places for dummies."""

Verdict = Literal["same", "weaker", "stronger", "different"]

_WEAKER_IF_SMALLER: Final = ("noise_multiplier", "population", "users")
"""Fields that protect less where they are smaller."""

_WEAKER_IF_LARGER: Final = ("epsilon", "delta", "rho", "rate", "count", "size", "batch")
"""Fields that protect less where they are larger."""


def compared(stated: ev.Event, supported: ev.Event) -> Verdict:
    """Return whether a stated event protects less than, or more than, what the facts support.

    `weaker` is sound to state, `stronger` is not; `different` shapes are not compared.

    >>> compared(ev.Gaussian(5.0), ev.Repeat(1, ev.Gaussian(4.0)))
    'stronger'
    """
    claimed, proven = simplified(stated), simplified(supported)
    if claimed == proven:
        return "same"
    below, above = (
        covers(claimed, proven, EVENT_TOLERANCE_RELATIVE),
        covers(proven, claimed, EVENT_TOLERANCE_RELATIVE),
    )
    if below and above:
        return "same"
    return "weaker" if below else "stronger" if above else "different"


def weaker_of(stated: ev.Event, supported: ev.Event) -> ev.Event:
    """Return the event that protects less, part by part; the second where shapes do not compare.

    Where each is weaker in a part of its own, the weaker parts are taken together: the higher rate,
    the smaller noise, the more repetitions.

    >>> weaker_of(ev.Poisson(0.5, ev.Gaussian(5.0)), ev.Poisson(0.1, ev.Gaussian(4.0)))
    Poisson(rate=0.5, event=Gaussian(noise_multiplier=4.0))
    """
    claimed, proven = simplified(stated), simplified(supported)
    if covers(claimed, proven, 0.0):
        return stated
    if covers(proven, claimed, 0.0):
        return supported
    # Part by part the weaker; checked, as a joined event must protect no more than either.
    both = _joined(claimed, proven)
    if both is None or not (covers(both, claimed, 0.0) and covers(both, proven, 0.0)):
        return supported
    return both


def weakest(events: Sequence[ev.Event]) -> ev.Event:
    """Return an event that protects no more than any of some: one of them, or all together.

    >>> weakest([ev.Gaussian(5.0), ev.Gaussian(4.0)])
    Gaussian(noise_multiplier=4.0)
    """
    event = events[0]
    for other in events[1:]:
        plain, next_plain = simplified(event), simplified(other)
        if covers(plain, next_plain, 0.0):
            continue
        joined = _joined(plain, next_plain)
        if covers(next_plain, plain, 0.0):
            event = other
        elif joined is not None and covers(joined, plain, 0.0) and covers(joined, next_plain, 0.0):
            event = joined
        else:
            event = ev.Compose((event, other))  # who sees both sees more than who sees either
    return event


def _joined(first: ev.Event, second: ev.Event) -> ev.Event | None:
    """Return the weaker parts of two events together; None where they have no parts in common."""
    match first, second:
        # Epsilon rises with the rate and with repetitions, and falls with the noise, for every
        # delta.
        case ev.Poisson(rate, inner), ev.Poisson(rate_too, inner_too):
            part = _joined(inner, inner_too)
            return None if part is None else ev.Poisson(max(rate, rate_too), part)
        case (ev.Poisson(_, inner), plain) | (plain, ev.Poisson(_, inner)):
            return _joined(inner, plain)  # without a sample there is less to hide in
        case ev.Repeat(count, inner), ev.Repeat(count_too, inner_too):
            part = _joined(inner, inner_too)
            return None if part is None else repeated(max(count, count_too), part)
        case (ev.Repeat(count, inner), plain) | (plain, ev.Repeat(count, inner)):
            part = _joined(inner, plain)
            return None if part is None else repeated(count, part)
        case (ev.Gaussian(noise), ev.Gaussian(less)) | (ev.Laplace(noise), ev.Laplace(less)):
            return first if noise <= less else second
    return first if first == second else None


def covers(weak: ev.Event, strong: ev.Event, tolerance: float) -> bool:
    """Return whether `weak` protects no more than `strong`, for certain, up to a tolerance."""
    # Nothing protects less than no guarantee.
    if isinstance(weak, ev.NoGuarantee):
        return True
    if isinstance(strong, ev.Poisson) and not isinstance(weak, ev.Poisson):
        return covers(weak, strong.event, tolerance)  # without sampling there is less to hide in
    if isinstance(strong, ev.ShuffledBatches) and not isinstance(weak, ev.ShuffledBatches):
        # A unit is in one batch, which may be known; that is so under zero-out and replace-one, and
        # under add-remove facts support no shuffled batches.
        return covers(weak, strong.event, tolerance)
    if type(weak) is not type(strong):
        return _crosses(weak, strong, tolerance)
    for item in fields(strong):
        weak_value, strong_value = getattr(weak, item.name), getattr(strong, item.name)
        if isinstance(strong_value, ev.Event):
            fine = covers(weak_value, strong_value, tolerance)
        elif isinstance(weak, ev.Compose):
            fine = len(weak_value) == len(strong_value) and all(
                covers(*parts, tolerance) for parts in zip(weak_value, strong_value, strict=True)
            )
        elif item.name in _UNORDERED.get(strong.type, ()):
            fine = abs(weak_value - strong_value) <= strong_value * tolerance
        elif item.name in _WEAKER_IF_SMALLER:
            fine = weak_value <= strong_value * (1.0 + tolerance)
        elif item.name in _WEAKER_IF_LARGER:
            fine = weak_value >= strong_value * (1.0 - tolerance)
        else:
            fine = weak_value == strong_value
        if not fine:
            return False
    return True


def _crosses(weak: ev.Event, strong: ev.Event, tolerance: float) -> bool:
    """Return whether `weak` covers `strong` of another type: a repetition, or a coarser promise."""
    if isinstance(weak, ev.Repeat) and not isinstance(strong, ev.Repeat):
        return covers(weak.event, strong, tolerance)
    if isinstance(weak, ev.Pure) and isinstance(strong, (ev.Local, ev.Exponential)):
        return weak.epsilon >= strong.epsilon * (1.0 - tolerance)
    return False


def simplified(event: ev.Event) -> ev.Event:
    """Return an event without repetitions of one, samples at rate 1, and lists of the same."""
    match event:
        case ev.Repeat(count, inner):
            plain = simplified(inner)
            if isinstance(plain, ev.Repeat) and count * plain.count <= 10**18:
                return ev.Repeat(count * plain.count, plain.event)
            return repeated(count, plain)
        case ev.Poisson(rate, inner):
            plain = simplified(inner)
            return plain if rate == 1.0 else ev.Poisson(rate, plain)
        case ev.Compose(parts):
            plains = {simplified(part) for part in parts}
            if len(plains) == 1:
                return simplified(repeated(len(parts), plains.pop()))
        case ev.Group(1, inner):
            return simplified(inner)
    return event
