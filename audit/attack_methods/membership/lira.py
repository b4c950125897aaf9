"""LiRA: is a target as sure of a record as shadows with it are, or as those without it?

With phi = log p_y - log(1 - p_y), normal under shadows that have the record and under those that
have not:

    online    log N(phi; mean_in, s_in) - log N(phi; mean_out, s_out)
    offline   (phi - mean_out) / s_out

The offline score is Phi^-1 of the published Phi((phi - mean_out) / s_out), which ranks alike, and
whose sum over a user's records is one of normal scores.  With few shadows a deviation per record is
noise itself, and the pooled one is better: s^2 is then the mean over all records.

Source: Carlini, Chien, Nasr, Song, Terzis and Tramer 2022, *Membership Inference Attacks From First
Principles*, arXiv 2112.03570, Algorithm 1 and what it says of few shadows, and the code published
with it (medians).  There the pooled deviation is taken over all values, differences between records
included; here it is within records.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ....accountant.arrays import BoolArray, FloatArray
from ....accountant.errors import InvalidInput
from .evidence import (
    Evidence,
)

POOLED_BELOW_SHADOWS: Final = 32
"""Shadows with a record, or without it, below which deviations are pooled by default."""

MIN_DEVIATION: Final = 1e-9
"""A deviation is at least so much: shadows may agree to the last bit."""


def online(evidence: Evidence, *, pooled: bool | None = None) -> FloatArray:
    """Return the log likelihood ratio of every record under every target: (T, records)."""
    inside = evidence.in_shadow
    alike = [_normal(evidence.shadows, chosen, pooled) for chosen in (inside, ~inside)]
    (mean_in, s_in), (mean_out, s_out) = alike
    phi = evidence.targets
    return _log_normal(phi, mean_in, s_in) - _log_normal(phi, mean_out, s_out)


def offline(evidence: Evidence, *, pooled: bool | None = None) -> FloatArray:
    """Return how far a target is from the shadows without a record: (T, records)."""
    mean, deviation = _normal(evidence.shadows, ~evidence.in_shadow, pooled)
    return np.asarray((evidence.targets - mean) / deviation)


def _normal(
    phi: FloatArray, chosen: BoolArray, pooled: bool | None
) -> tuple[FloatArray, FloatArray]:
    """Return median and deviation of each record under the chosen shadows: (records,) each."""
    counts = chosen.sum(0)
    together = bool(counts.min() < POOLED_BELOW_SHADOWS) if pooled is None else pooled
    if counts.min() < (1 if together else 2) or counts.sum() <= len(counts):
        raise InvalidInput(
            f"A record is in or out of only {counts.min()} shadows.",
            "A normal distribution per record needs two, and a pooled one more than one of each.",
            "Train more shadows.",
        )
    # (S, records) with NaN where a shadow is on the other side.
    held = np.where(chosen, phi, np.nan)
    middle = np.nanmedian(held, axis=0)
    squares = np.nansum((held - np.nanmean(held, axis=0)) ** 2, axis=0)
    if together:
        # Pooled within records: squares about each record's own mean, over sum (count - 1).
        variance = np.full(len(counts), squares.sum() / (counts - 1).sum())
    else:
        variance = squares / (counts - 1)
    return middle, np.maximum(np.sqrt(variance), MIN_DEVIATION)


def _log_normal(x: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return the log density, without the constant that cancels."""
    return np.asarray(-np.log(deviation) - 0.5 * ((x - mean) / deviation) ** 2)
