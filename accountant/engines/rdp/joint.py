"""Renyi curves of several releases that share a sample: what one change of a batch costs in all.

Whatever a sampler makes of one change of a batch, it makes of the composition of all releases on
that batch: a curve of the composition, the sum of theirs, goes into the bounds of the sampler as
that of a single release does.  Bounds that need more than a curve need a pair for all releases
together; binary randomized response at the sum of their largest losses is one, where they have one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...composition import Composition, Leaf
from ...guarantee import Neighbours, unique_steps
from .curves import NOTHING, Curve, curve, set_aside
from .moments import RENYI_OUTWARD_FACTOR


def joint(event: ev.Event, neighbours: Neighbours) -> Curve:
    """Return the curve of all releases of an event, composed: at each order the sum of theirs.

    Raises `Unsupported` where one of them has no curve.
    Source: Mironov 2017, Proposition 1, arXiv 1702.07476v3.
    """
    return joint_of_leaves(Composition.of(event), neighbours)


def joint_of_leaves(parts: Composition, neighbours: Neighbours) -> Curve:
    """Return the curve of leaves, composed, with their counts."""
    return added_up([(curve(leaf.event, neighbours), leaf) for leaf in parts])


def added_up(curves: Sequence[tuple[Curve, Leaf]]) -> Curve:
    """Return the sum of the curves of leaves; what each sets aside adds up, too."""
    if len(curves) == 1 and curves[0][1].count == 1:
        ((single, leaf),) = curves
        return single if leaf.fully_observed and not leaf.by_lemma else replace(single, lower=None)
    taking_part = [
        (each, leaf.count) for each, leaf in curves if each.limit > 0.0 or each.slack > 0.0
    ]
    if not taking_part:
        return NOTHING

    def at(orders: FloatArray) -> FloatArray:
        total = np.zeros_like(orders)
        for each, count in taking_part:
            if each.limit > 0.0:
                total += count * each.at(orders)
        return total * RENYI_OUTWARD_FACTOR

    limit = math.fsum(count * each.limit for each, count in taking_part if each.limit > 0.0)
    slack = math.fsum(count * each.slack for each, count in taking_part)
    slack = set_aside(slack * (1.0 + 1e-15)) if slack > 0.0 else 0.0
    steps = unique_steps([step for each, _ in taking_part for step in each.steps])
    listed = tuple(sorted({order for each, _ in taking_part for order in each.listed}))
    return Curve(at, limit * (1.0 + 1e-15), steps, slack, listed=listed)
