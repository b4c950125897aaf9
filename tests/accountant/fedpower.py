"""What the tests of FedPower share."""

from __future__ import annotations

import numpy as np

D, R = 4, 3.0
"""Columns of the data, and the norm of a row, in every search."""


def orthonormal(theta: np.ndarray, rank: int) -> np.ndarray:
    return np.linalg.qr(theta.reshape(D, rank))[0]
