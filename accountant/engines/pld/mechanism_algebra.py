"""Dominated mechanisms made of others, with all that each of them consists of.

A mechanism may have pairs beside its first, several copies of each, and a form for every delta.
Whatever stands for several releases, or for one of which less is known, is made here, so that none
of that is forgotten.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import Unsupported
from .pair import Pair
from .registry import DominatedMechanism


def repeated(mechanism: DominatedMechanism, count: int) -> DominatedMechanism:
    """Return `count` independent releases, all seen, as one mechanism, from above and below."""
    fitted = mechanism.fitted
    lower_power = mechanism.power if mechanism.lower_power is None else mechanism.lower_power
    return replace(
        mechanism,
        power=mechanism.power * count,
        beside=tuple((pair, copies * count) for pair, copies in mechanism.beside),
        lower_power=lower_power * count,
        fitted=None if fitted is None else lambda delta: repeated(fitted(delta / count), count),
    )


def composed(first: DominatedMechanism, second: DominatedMechanism) -> DominatedMechanism:
    """Return both releases, composed, from above only."""

    def fitted(delta: float) -> DominatedMechanism:
        return composed(_fitted(first, 0.5 * delta), _fitted(second, 0.5 * delta))

    return DominatedMechanism(
        first.pair,
        None,
        first.symmetric and second.symmetric,
        (*first.steps, *second.steps),
        first.power,
        beside=(*first.beside, (second.pair, second.power), *second.beside),
        fitted=None if first.fitted is None and second.fitted is None else fitted,
    )


def from_above(mechanism: DominatedMechanism) -> DominatedMechanism:
    """Return the mechanism with nothing that is attained."""
    fitted = mechanism.fitted
    return replace(
        mechanism,
        lower_pair=None,
        lower_power=None,
        other_lower_pairs=(),
        lower_beside=None,
        class_pair=None,
        fitted=None if fitted is None else lambda delta: from_above(fitted(delta)),
    )


def is_single_pair(mechanism: DominatedMechanism) -> bool:
    """Return whether one copy of `pair` dominates the mechanism, with nothing beside it."""
    return mechanism.power == 1 and not mechanism.beside


def single_pair(mechanism: DominatedMechanism) -> Pair:
    """Return the one pair that dominates the mechanism; raises `Unsupported` for several."""
    if not is_single_pair(mechanism):
        raise Unsupported(
            "The pld engine cannot look at this release through a single pair.",
            "Its pair is one of several, or of many copies, that count together.",
            "Leave the choice of the engine to privplan.",
        )
    return mechanism.pair


def _fitted(mechanism: DominatedMechanism, delta: float) -> DominatedMechanism:
    return mechanism if mechanism.fitted is None else mechanism.fitted(delta)
