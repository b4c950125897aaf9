"""Schedules: many leaves that differ only in their noise or rate.

Estimates and the text of a derivation look at a sample of the leaves; bounds look at every one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from . import events as ev
from .composition import Composition, Leaf
from .event_tree import events_inside
from .guarantee import Step

SKETCH_LEAVES: Final = 48
"""About how many leaves of one kind a sketch holds."""

MAX_LEAVES_SHOWN: Final = 8
"""More different leaves of one kind than this are summed up in one step of a derivation."""


def kind(event: ev.Event) -> tuple[str, ...]:
    """Return the types of an event and of what is inside it, outermost first.

    >>> kind(ev.Poisson(0.1, ev.Gaussian(1.0)))
    ('poisson', 'gaussian')
    """
    return tuple(each.type for each in events_inside(event))


def sketched(composition: Composition) -> Composition:
    """Return few leaves that stand for all, for estimates: their counts have the same sum.

    Of each kind they are taken evenly in the order of their leakage.
    """
    if len(composition) <= SKETCH_LEAVES:
        return composition
    sketch: list[Leaf] = []
    for alike in _by_kind(composition):
        ordered = sorted(alike, key=lambda leaf: _log_leakage(leaf.event))
        blocks = min(SKETCH_LEAVES, len(ordered))
        for index in range(blocks):
            # The median leaf of each block stands for it, with the counts of all.
            block = ordered[index * len(ordered) // blocks : (index + 1) * len(ordered) // blocks]
            count = sum(leaf.count for leaf in block)
            sketch.append(replace(block[len(block) // 2], count=count))
    return Composition(sketch)


def shown(composition: Composition) -> tuple[Composition, tuple[Step, ...]]:
    """Return the leaves whose own steps a derivation shows, and a step that sums up the others.

    Of many leaves of one kind the one with the largest leakage is shown.
    """
    shown_leaves: list[Leaf] = []
    summaries: list[Step] = []
    for alike in _by_kind(composition):
        if len(alike) <= MAX_LEAVES_SHOWN:
            shown_leaves += alike
            continue
        shown_leaves.append(max(alike, key=lambda leaf: _log_leakage(leaf.event)))
        ranges = [
            f"{word} {min(values):g} to {max(values):g}"
            for word, values in (
                ("noise multipliers", [_field(leaf.event, "noise_multiplier") for leaf in alike]),
                ("sampling rates", [_field(leaf.event, "rate") for leaf in alike]),
            )
            if not any(map(math.isnan, values))
        ]
        over = f", {' and '.join(ranges)}" if ranges else ""
        summaries.append(
            Step(
                "mechanism",
                f"{len(alike):,} different releases of this kind{over}. The steps shown are those "
                "of the one that tells most; each was bounded by its own numbers.",
                "by definition",
            )
        )
    return Composition(shown_leaves), tuple(summaries)


def _by_kind(composition: Composition) -> list[list[Leaf]]:
    kinds: dict[tuple[str, ...], list[Leaf]] = {}
    for leaf in composition:
        kinds.setdefault(kind(leaf.event), []).append(leaf)
    return list(kinds.values())


def _field(event: ev.Event, name: str) -> float:
    """Return a number that an event, or the outermost one inside it, has; nan where none has."""
    values = (getattr(each, name, None) for each in events_inside(event))
    return next((float(value) for value in values if value is not None), math.nan)


def _log_leakage(event: ev.Event) -> float:
    """Return about how much one release leaks, as a log: q^2 (e^(1/s^2) - 1) for noisy sums."""
    noise, rate = _field(event, "noise_multiplier"), _field(event, "rate")
    stated = _field(event, "epsilon")
    leakage = 0.0
    if not math.isnan(rate):
        leakage += 2.0 * math.log(max(rate, 1e-300))
    if not math.isnan(noise):
        inverse = min(max(1.0 / noise, 1e-150), 1e150) ** 2
        leakage += inverse + math.log(-math.expm1(-inverse))
    elif not math.isnan(stated):
        leakage += math.log(max(stated, 1e-300))
    return leakage
