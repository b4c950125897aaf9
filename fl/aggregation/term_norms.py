"""Norms of terms before the clip: facts from before the noise, for a trusted auditor alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.mechanisms.clip import Sparse


def norms_of(rows: FloatArray | Sparse) -> FloatArray:
    """Return the norm of each row, (rows,); infinite where a square is too large for a float.

    Without numpy's warning about that: on the standard error stream it would tell, before any
    noise, that somebody's update was so large.
    """
    if isinstance(rows, Sparse):
        rows = rows.values
    with np.errstate(over="ignore", invalid="ignore"):
        squares: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return np.sqrt(squares)


def about_norms(by_silo: Sequence[FloatArray], bound: float) -> dict[str, object]:
    """Return how many terms each silo had, their norms, and how many were clipped or not finite.

    `by_silo` holds the norms of each silo's terms before clipping: (terms,).  For the sealed
    sidecar only.
    """
    norms = np.concatenate(by_silo)
    finite = norms[np.isfinite(norms)]
    return {
        "terms": [len(silo) for silo in by_silo],
        "norm_median": float(np.median(finite)) if finite.size else 0.0,
        "norm_largest": float(finite.max(initial=0.0)),
        "clipped": int((finite > bound).sum()),
        "not_finite": int(norms.size - finite.size),
    }
