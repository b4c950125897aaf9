"""A pair whose hockey stick lies below that of two data sets, from a curve that they attain.

Write h(alpha) for the hockey stick of the two outputs.  An attained curve bounds h from below by
chords between its nodes, and h(alpha) >= 1 - alpha, since P and Q are distributions.  A line that
passes below all nodes passes below the chords, so the largest of 1 - alpha, of some such lines, and
of the constant at which the curve ends is a convex function g <= h.  Where one line gives way to
the next, at alpha_k, and the slope rises by q_k, a pair has Q mass q_k and P mass alpha_k q_k of
loss log(alpha_k): its hockey stick is g.  With g(0) = 1 and g >= 1 - alpha it is a pair of
distributions, so both orders of it lie below both orders of h, and so do compositions.

Each node is lowered by more than all that rounding does here: a share of it and a constant for
masses and slopes, which are summed in 64-bit floats.
Source: derived here; Zhu, Dong, Wang 2022, arXiv 2106.08567, for pairs and their profiles.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .atoms import AtomPair
from .attained_curve import AttainedCurve
from .pair import Pair

LINES: Final = 1_000
"""How many lines stand for a curve."""

MASS_ROUNDING: Final = 1e-9
"""Relative error that masses and losses of the pair may have."""

STICK_ROUNDING: Final = 1e-11
"""How much lower than its node a line passes, beside a share of two `MASS_ROUNDING`."""


def pair_below(curve: AttainedCurve) -> Pair | None:
    """Return a pair that the two data sets of the curve dominate, None where it shows nothing."""
    lowest = (1.0 - 2.0 * MASS_ROUNDING) * np.concatenate(
        ([curve.total], curve.deltas[:-1], [curve.beyond])
    )
    sticks = np.maximum(lowest - STICK_ROUNDING, 0.0)
    orders = np.concatenate(([0.0], np.exp(curve.epsilons)))
    last = float(sticks[-1])
    # Beyond the last node with more than the last value, lines would only pass lower.
    shown = np.flatnonzero(sticks > np.maximum(1.0 - orders, last))
    if shown.size == 0:
        return None
    at = np.unique(np.linspace(shown[0], shown[-1], LINES).astype(np.intp))
    steps = np.diff(sticks)[at - 1] / np.diff(orders)[at - 1]
    slopes = np.unique(steps[(steps > -1.0) & (steps < 0.0)])
    if slopes.size == 0:
        return None
    # The highest line of each slope below all nodes.
    heights = np.array([float((sticks - slope * orders).min()) for slope in slopes])
    # Those that lie above 1 - alpha and above the last value somewhere.
    first = int(np.argmin((1.0 - heights) / (1.0 + slopes)))
    end = int(np.argmax((heights - last) / -slopes)) + 1
    slopes = np.concatenate(([-1.0], slopes[first:end], [0.0]))
    heights = np.concatenate(([1.0], heights[first:end], [last]))
    p, q = -np.diff(heights), np.diff(slopes)
    seen = (p > 0.0) & (q > 0.0)
    infinite = math.log(last) if last > 0.0 else -math.inf
    return Pair.of_outcomes(
        AtomPair(
            np.append(np.log(p[seen]), infinite),
            np.append(np.log(q[seen]), -math.inf),
            has_heavy_atoms=False,
            rounding=MASS_ROUNDING,
        )
    )
