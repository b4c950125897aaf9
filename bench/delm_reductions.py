"""Fewer features, in four ways: what DELM's PCA is measured against.

    joint     components of all rows, as if somebody saw them: no privacy
    local     each client its own components: it tells nobody, and no two clients mean the same
    ldp       components of the sum of the clients' covariances, each with Gaussian noise
    wishart   the same with Wishart noise, as DELM prints it, which proves nothing
    none      all features

Noise is NumPy's, from a seed, so it protects nobody: the records are anybody's to read.  With the
noise multiplier of `ldp` a client's covariance would be (epsilon, delta)-private for a record of
norm R that comes or goes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privplan.accountant import events as ev
from privplan.accountant.calibrate import calibrate
from privplan.fl.data.federation import Federation

Matrix = NDArray[np.float64]
Reduction = Literal["none", "joint", "local", "ldp", "wishart"]


def clipped(features: NDArray[np.float32], row_norm: float) -> Matrix:
    """Return rows (n, d) of norm at most 1: clipped to R, and divided by it."""
    rows = features.reshape(len(features), -1).astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, row_norm))


def components(covariance: Matrix, count: int) -> Matrix:
    """Return the leading eigenvectors of a symmetric matrix (d, d) as columns: (d, count)."""
    return np.asarray(np.linalg.eigh(covariance)[1][:, ::-1][:, :count])


def joint(federation: Federation, count: int, row_norm: float) -> Federation:
    """Return a federation on the components of all its rows."""
    rows = clipped(federation.features, row_norm)
    return on(federation, components(rows.T @ rows, count), row_norm)


def with_noise(
    federation: Federation,
    count: int,
    row_norm: float,
    epsilon: float,
    delta: float,
    rng: Generator,
) -> Federation:
    """Return a federation on the components of noisy covariances, each client's for (eps, delta).

    A record of norm R that comes or goes moves x x^T by 1 in the Frobenius norm, so an upper
    triangle that counts what is off the diagonal sqrt(2) times moves by 1 in L2.
    """
    rows = clipped(federation.features, row_norm)
    d = rows.shape[1]
    std = calibrate(ev.Gaussian, epsilon=epsilon, delta=delta, neighbours="add-remove").value
    # The sum of n symmetric noises is one of sqrt(n) times the deviation.
    raw = rng.normal(scale=std * np.sqrt(federation.silos), size=(d, d))
    upper = np.triu(raw, 1) / np.sqrt(2.0)
    return on(
        federation,
        components(rows.T @ rows + upper + upper.T + np.diag(np.diag(raw)), count),
        row_norm,
    )


def wishart(
    federation: Federation, count: int, row_norm: float, epsilon: float, rng: Generator
) -> Federation:
    """Return a federation on the components of covariances with Wishart noise, as printed.

    Each client adds Z Z^T, Z of shape (d, d + 1) with variance 1 / (2 epsilon); side by side the Z
    of all clients are one of n (d + 1) columns.
    """
    rows = clipped(federation.features, row_norm)
    d = rows.shape[1]
    size = (d, federation.silos * (d + 1))
    noise = rng.normal(scale=np.sqrt(0.5 / epsilon), size=size)
    return on(federation, components(rows.T @ rows + noise @ noise.T, count), row_norm)


def on(federation: Federation, directions: Matrix, row_norm: float) -> Federation:
    """Return a federation with all its records projected on directions (d, k)."""
    return replace(
        federation,
        features=projected(federation.features, directions, row_norm),
        test_features=projected(federation.test_features, directions, row_norm),
    )


def projected(
    features: NDArray[np.float32], directions: Matrix, row_norm: float
) -> NDArray[np.float32]:
    """Return rows, clipped to R, on directions (d, k): (n, k)."""
    return (row_norm * clipped(features, row_norm) @ directions).astype(np.float32)


def on_local_components(
    federation: Federation, count: int, row_norm: float
) -> tuple[Federation, list[Matrix]]:
    """Return a federation of clients on their own components, and the directions of each."""
    rows = clipped(federation.features, row_norm)
    features = np.empty((len(rows), count), np.float32)
    directions = []
    groups = federation.by_silo()
    for silo in range(federation.silos):
        here = groups.records(silo)
        directions.append(components(rows[here].T @ rows[here], count))
        features[here] = projected(federation.features[here], directions[-1], row_norm)
    test = np.zeros((len(federation.test_features), count), np.float32)
    return replace(federation, features=features, test_features=test), directions
