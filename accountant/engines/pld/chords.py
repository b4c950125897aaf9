"""Chords of a hockey stick between points of a loss grid, in P masses; see loss_pmfs.py.

Intervals lie along the last axis: of one pair, or of one row for each of many.
"""

from __future__ import annotations

import numpy as np

from ...arrays import FloatArray


def upward_share(
    log_p: FloatArray, log_q: FloatArray, left: FloatArray, length: float | FloatArray
) -> FloatArray:
    """Return which share of an interval's P mass a chord puts on its right end, in [0, 1].

    From p = u + v and q = u e^-l + v e^-(l + length), where l is the loss at the `left` end.
    """
    with np.errstate(invalid="ignore"):
        # 1 - q e^l / p is 0 if all mass has the loss of the left end, 1 - e^-length if of the
        # right one.
        fall = -np.expm1(np.minimum(log_q + left - log_p, 0.0))
    share = np.where(np.isneginf(log_p), 0.0, fall / -np.expm1(-length))
    return np.clip(share, 0.0, 1.0)


def chord_excess(
    log_p: FloatArray,
    log_q: FloatArray,
    edges: FloatArray,
    to_left: FloatArray,
    to_right: FloatArray,
) -> FloatArray:
    """Return by how much each chord exceeds the tangents of h at the interval's ends and middle.

    `log_p` and `log_q` are masses of the halves of the intervals between `edges`.  The three
    tangents meet at the likelihood ratios of the two halves, so the largest excess is at one of
    them: `to_left` (r_left / alpha_left - 1) or `to_right` (1 - r_right / alpha_right).
    """
    with np.errstate(invalid="ignore", over="ignore"):
        # r / alpha - 1 of the left half at the left end, 1 - r / alpha of the right half at the
        # right one; an empty half has no ratio and exceeds nothing.
        left = np.expm1(log_p[..., ::2] - log_q[..., ::2] - edges[..., :-1])
        right = -np.expm1(log_p[..., 1::2] - log_q[..., 1::2] - edges[..., 1:])
    at_left = np.where(np.isfinite(left), to_left * np.maximum(left, 0.0), 0.0)
    at_right = np.where(np.isfinite(right), to_right * np.maximum(right, 0.0), 0.0)
    excess: FloatArray = np.maximum(at_left, at_right)
    return excess
