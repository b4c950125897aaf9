"""The radius of DISCO's noise as published: of each tensor, from a peer's own last updates.

    r_il = max(1e-12, min(C, mean of |D_il| over the last three rounds))       this one included

What a tensor is clipped to, and what its noise is scaled by, is so a function of the very update
that noise is to hide.  Norms and radii are private: they never leave the peer.

Source: epfml/disco, `discojs/src/privacy.ts`, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.claims.disco import FLOOR

WINDOW: Final = 3
"""Rounds whose norms are averaged, this one included; fewer at the start of a run."""


def radii(norms: Sequence[FloatArray], clip: float) -> FloatArray:
    """Return r_il (peers, tensors), of the norms (peers, tensors) of the rounds so far.

    The last of `norms` are this round's, before any clip.  A norm that is no number counts as
    infinite, so that the radius is the clip.  Range: `clip` at least 1e-12.

    >>> radii([np.array([[0.5, 0.0]]), np.array([[0.25, 9.0]])], 1.0).tolist()
    [[0.375, 1.0]]
    >>> radii([np.array([[0.0]])], 1.0).tolist()
    [[1e-12]]
    """
    window = np.array(norms[-WINDOW:])
    means = np.where(np.isfinite(window), window, np.inf).mean(axis=0)
    return np.asarray(np.maximum(FLOOR, np.minimum(clip, means)))
