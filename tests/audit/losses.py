"""Composed privacy losses on a grid of this package's own tests."""

from __future__ import annotations

import numpy as np

from privplan.accountant.arrays import FloatArray

STEP, SIZE = 1e-3, 2**18
"""Width and number of the bins of a privacy loss, from -131 to 131."""


def composed_epsilon(loss: FloatArray, mass: FloatArray, steps: int, delta: float) -> float:
    """Epsilon of so many independent losses; each goes to two bins, which keeps its mean."""
    low = np.floor(loss / STEP).astype(int)
    share = loss / STEP - low
    masses = np.bincount(low + SIZE // 2, mass * (1.0 - share), SIZE)
    masses += np.bincount(low + 1 + SIZE // 2, mass * share, SIZE)
    total = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(masses)) ** steps, SIZE)
    total = np.maximum(np.fft.fftshift(total), 0.0)
    at = (np.arange(SIZE) - SIZE // 2) * STEP
    above = np.cumsum(total[::-1])[::-1]
    weighted = np.cumsum((total * np.exp(-np.maximum(at, 0.0)))[::-1])[::-1]
    excess = above - np.exp(np.maximum(at, 0.0)) * weighted
    beyond = (excess > delta) & (at >= 0.0)
    if not beyond.any():
        return 0.0
    last = int(np.flatnonzero(beyond)[-1])
    return float(at[last] + STEP * (excess[last] - delta) / (excess[last] - excess[last + 1]))
