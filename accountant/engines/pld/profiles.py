"""A pair from its hockey sticks: the chords between bounds at some orders."""

from __future__ import annotations

import numpy as np

from ...arrays import BoolArray, FloatArray
from .atoms import AtomPair
from .pair import Pair

PROFILE_ROUNDING = 1e-12
"""Relative error of the masses that are read off a profile."""


MIN_SPACING = 1e-9
"""Orders that are closer together than this share of them are one."""


def pair_of_profile(losses: FloatArray, sticks: FloatArray) -> Pair:
    """Return a pair whose hockey stick at orders of at least 1 lies above a convex profile.

    `losses` ascend from 0, and `sticks` are bounds on the profile at the orders e^losses, from
    above.  Between them the pair has chords, which lie above a convex function, and what is left
    at the last order has an infinite loss.  Only positive losses of the pair mean anything.
    """
    kept = _apart(losses)
    losses, sticks = losses[kept], sticks[kept]
    orders = np.exp(losses)
    # From the last order down: a slope that falls short of the one behind it is raised to it, so
    # that rounded values still make a convex profile, which is nowhere below them.
    slopes = np.zeros(losses.size)
    value, slope = float(sticks[-1]), 0.0
    for k in range(losses.size - 2, -1, -1):
        width = float(orders[k + 1] - orders[k])
        slope = max(slope, (float(sticks[k]) - value) / width)
        value += slope * width
        slopes[k] = slope
    # Q has the mass at order k by which the profile bends there.
    q = np.concatenate((slopes[:1], slopes[:-1])) - slopes
    p = orders * q
    seen = q > 0.0
    with np.errstate(divide="ignore"):
        log_p = np.log(np.concatenate((p[seen], sticks[-1:])))
        log_q = np.log(np.concatenate((q[seen], [0.0])))
    return Pair.of_outcomes(
        AtomPair(log_p, log_q, has_heavy_atoms=False, rounding=PROFILE_ROUNDING)
    )


def _apart(losses: FloatArray) -> BoolArray:
    """Return which losses to keep, the first and the last among them, so that none are close."""
    cells = np.floor(losses / MIN_SPACING)
    kept = np.append(True, np.diff(cells) > 1.0)
    kept[-1] = True
    if kept.size > 2 and losses[-1] - losses[-2] < MIN_SPACING:
        kept[1:-1] &= losses[-1] - losses[1:-1] >= MIN_SPACING
    return kept
