"""What a trusted auditor may know of a round, and nobody else: facts from before the noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def about_norms(by_silo: Sequence[NDArray[np.float64]], bound: float) -> dict[str, object]:
    """Return how many terms each silo had, their norms, and how many were clipped or no numbers.

    `by_silo` holds the norms of each silo's terms before clipping: (terms,).  For the sealed
    sidecar only.
    """
    norms = np.concatenate(by_silo)
    finite = norms[np.isfinite(norms)]
    return {
        "terms": [len(one) for one in by_silo],
        "norm_median": float(np.median(finite)) if finite.size else 0.0,
        "norm_largest": float(finite.max(initial=0.0)),
        "clipped": int((finite > bound).sum()),
        "not_finite": int(norms.size - finite.size),
    }
