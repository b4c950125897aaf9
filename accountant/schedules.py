"""Schedules: many leaves that differ only in their noise or rate.

What is said of them, and where a bound is expected to lie, need not look at every one.  Bounds do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from . import events as ev
from .composition import Leaf
from .guarantee import Step

MOST_SKETCHED: Final = 48
"""About how many leaves of one kind a sketch holds."""

MOST_SHOWN: Final = 8
"""More different leaves of one kind than this are summed up in one step of a derivation."""


def kind(event: ev.Event) -> tuple[str, ...]:
    """Return the types of an event and of what is inside it, outermost first.

    >>> kind(ev.Poisson(0.1, ev.Gaussian(1.0)))
    ('poisson', 'gaussian')
    """
    inner = getattr(event, "event", None)
    return (event.type, *(kind(inner) if isinstance(inner, ev.Event) else ()))


def sketched(leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
    """Return few leaves that stand for all, for estimates: their counts have the same sum.

    Of each kind they are taken evenly along how much one release tells.
    """
    if len(leaves) <= MOST_SKETCHED:
        return tuple(leaves)
    sketch: list[Leaf] = []
    for alike in _by_kind(leaves):
        ordered = sorted(alike, key=lambda leaf: _telling(leaf.event))
        blocks = min(MOST_SKETCHED, len(ordered))
        for index in range(blocks):
            block = ordered[index * len(ordered) // blocks : (index + 1) * len(ordered) // blocks]
            count = sum(leaf.count for leaf in block)
            sketch.append(replace(block[len(block) // 2], count=count))
    return tuple(sketch)


def shown(leaves: Sequence[Leaf]) -> tuple[tuple[Leaf, ...], tuple[Step, ...]]:
    """Return the leaves whose own steps a derivation shows, and a step that sums up the others.

    Of many leaves of one kind the most telling one is shown.
    """
    kept: list[Leaf] = []
    said: list[Step] = []
    for alike in _by_kind(leaves):
        if len(alike) <= MOST_SHOWN:
            kept += alike
            continue
        kept.append(max(alike, key=lambda leaf: _telling(leaf.event)))
        ranges = [
            f"{word} {min(values):g} to {max(values):g}"
            for word, values in (
                ("noise multipliers", [_field(leaf.event, "noise_multiplier") for leaf in alike]),
                ("sampling rates", [_field(leaf.event, "rate") for leaf in alike]),
            )
            if not any(map(math.isnan, values))
        ]
        over = f", {' and '.join(ranges)}" if ranges else ""
        said.append(
            Step(
                "mechanism",
                f"{len(alike):,} different releases of this kind{over}. The steps shown are those "
                "of the one that tells most; each was bounded by its own numbers.",
                "by definition",
            )
        )
    return tuple(kept), tuple(said)


def _by_kind(leaves: Sequence[Leaf]) -> list[list[Leaf]]:
    kinds: dict[tuple[str, ...], list[Leaf]] = {}
    for leaf in leaves:
        kinds.setdefault(kind(leaf.event), []).append(leaf)
    return list(kinds.values())


def _field(event: ev.Event, name: str) -> float:
    """Return a number that an event, or the outermost one inside it, has; nan where none has."""
    inner: ev.Event | None = event
    while inner is not None:
        value = getattr(inner, name, None)
        if value is not None:
            return float(value)
        inner = getattr(inner, "event", None)
    return math.nan


def _telling(event: ev.Event) -> float:
    """Return about how much one release tells, as a log: q^2 (e^(1/s^2) - 1) for noisy sums."""
    noise, rate = _field(event, "noise_multiplier"), _field(event, "rate")
    bare = _field(event, "epsilon")
    telling = 0.0
    if not math.isnan(rate):
        telling += 2.0 * math.log(max(rate, 1e-300))
    if not math.isnan(noise):
        inverse = min(max(1.0 / noise, 1e-150), 1e150) ** 2
        telling += inverse + math.log(-math.expm1(-inverse))
    elif not math.isnan(bare):
        telling += math.log(max(bare, 1e-300))
    return telling
