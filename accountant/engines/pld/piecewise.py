"""Dominating pairs that are put together: two sides of loss 0, a choice between pairs, measures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .atoms import AtomPair
from .noise import Array
from .pair import Pair
from .smooth import Blend, Piecewise, Weighed

_TAIL = 1e-30
"""Tail at which errors of masses near loss 0 are read off."""


def two_sided(negative: Pair, positive: Pair) -> Pair:
    """Return the pair whose hockey stick is that of `positive` at orders 1 and above, and that of
    `negative` below 1.

    The two must agree at order 1 and meet there in a convex way.  With h(1) the common total
    variation, the P mass at positive losses is P+(loss > 0), at negative losses P-(loss < 0), and
    the rest of the P mass, which equals the rest of the Q mass, has loss 0.
    """
    outcomes = np.concatenate((_outcomes(negative, -1.0), _outcomes(positive, 1.0)), axis=1)
    masses = float(np.exp(outcomes[0]).sum())
    smooth = None
    error = max(negative.mass_error(_TAIL), positive.mass_error(_TAIL))
    if positive.smooth is not None and negative.smooth is not None:
        smooth = Piecewise(negative.smooth, positive.smooth)
        masses += float(np.exp(smooth.negative.log_masses(np.zeros(1))[0][0]))
        masses += float(np.exp(smooth.positive.log_masses(np.zeros(1))[0][-1]))
    # Too much mass at loss 0 keeps an upper bound one.
    rest = max(1.0 - masses, 0.0) + (2.0 + masses) * error
    middle = np.full((2, 1), math.log(min(rest, 1.0)))
    log_p, log_q = np.concatenate((outcomes, middle), axis=1)
    exact = AtomPair(
        log_p,
        log_q,
        max(negative.unseen, positive.unseen),
        rounding=max(_rounding(negative), _rounding(positive)),
    )
    return Pair(smooth, exact, (0.0,))


def _outcomes(pair: Pair, sign: float) -> Array:
    """Return log P and log Q, as rows, of the outcomes whose loss has this sign."""
    if pair.exact is None:
        return np.empty((2, 0))
    log_p, log_q = pair.exact.log_p, pair.exact.log_q
    kept = log_p > log_q if sign > 0.0 else log_p < log_q
    return np.stack((log_p[kept], log_q[kept]))


def _rounding(pair: Pair) -> float:
    return pair.exact.rounding if pair.exact is not None else 0.0


def one_of(weighted: Sequence[tuple[float, Pair]]) -> Pair:
    """Return the pair that draws one of several pairs and tells which.

    `weighted` holds probabilities and pairs.  Its hockey stick is the weighted sum of
    theirs; probabilities that add up to more than 1 give an upper bound.
    """
    pairs = [pair for weight, pair in weighted if weight > 0.0]
    logs = [math.log(weight) for weight, _ in weighted if weight > 0.0]
    smooth = [
        (log, pair.smooth) for log, pair in zip(logs, pairs, strict=True) if pair.smooth is not None
    ]
    exact = [
        (log, pair.exact) for log, pair in zip(logs, pairs, strict=True) if pair.exact is not None
    ]
    ends = [pair.end for pair in pairs if pair.end is not None]
    blend = Blend(tuple(log for log, _ in smooth), tuple(part for _, part in smooth))
    outcomes = None
    if exact:
        outcomes = AtomPair(
            np.concatenate([log + part.log_p for log, part in exact]),
            np.concatenate([log + part.log_q for log, part in exact]),
            sum(math.exp(log) * part.unseen for log, part in exact),
            rounding=max(part.rounding for _, part in exact),
        )
    end = min(ends) if len(ends) == len(pairs) else None
    anchors = tuple(anchor for pair in pairs for anchor in pair.anchors) if end is None else end[:1]
    return Pair(blend if smooth else None, outcomes, anchors, end)


def measures(pair: Pair, p_weight: float, q_weight: float, error: float) -> Pair:
    """Return the measures `p_weight` P and `q_weight` Q of a pair, as one part of a choice.

    `error` bounds the relative errors of both weights, and of the weights inside the pair.  The
    hockey stick of a sum of measures is at most the sum of theirs.
    """
    log_p, log_q = math.log(p_weight), math.log(q_weight)
    offset = log_p - log_q
    exact = None
    if pair.exact is not None:
        exact = AtomPair(
            pair.exact.log_p + log_p,
            pair.exact.log_q + log_q,
            pair.exact.unseen * max(p_weight, q_weight),
            pair.exact.few,
            # The losses are off by both weights.
            pair.exact.rounding + 2.0 * error,
        )
    return Pair(
        Weighed(pair.smooth, log_p, log_q, error) if pair.smooth is not None else None,
        exact,
        tuple(anchor + offset for anchor in pair.anchors),
        (pair.end[0] + offset, pair.end[1]) if pair.end is not None else None,
    )
