"""FedPower as published, in the parts that its demonstrations need, and ratings to run it on.

n nodes hold A_i (rows are users) and multiply a public Z (d, r) by M_i = A_i^T A_i / s, one step a
round (p = 1).  In Algorithm 1 each node adds N(0, sigma^2) to every entry of what it sends, and
the server orthonormalises the sum.  In Algorithm 2 all noises but one are taken out of a secure
sum again; whose noise stays is a hidden, uniform index.  Entries of Z are clipped to eta, as
Theorem 1 needs it.

The constants are those of `accountant.claims.fedpower`, where the text claims epsilon 1 a round.
The ratings are synthetic: the usual data sets may not be passed on.

Source: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value Decomposition*,
Applied Sciences, Algorithms 1 and 2.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.claims import fedpower as published

NOISE: Final = published.published_noise(1.0)
"""sigma, at which Theorems 1 and 2 say epsilon 1 at delta 1e-5 for a round."""

_DATA_SEED: Final = 1
"""The ratings are part of the demonstration, and always the same."""


def ratings(items: int) -> FloatArray:
    """Return synthetic ratings (users, items), 0 where there is none, in the published ranges.

    `CLIENTS` x `ROWS_OF_NODE` users; ratings are 1 to 5; some items are popular, and a few users
    rate nearly everything.  Tastes have a few directions, so that there is something to find.
    """
    rng = np.random.default_rng(_DATA_SEED)
    users = published.CLIENTS * published.ROWS_OF_NODE
    popular = (1.0 + np.arange(items)) ** -0.5
    active = np.clip(0.15 * items * rng.lognormal(0.0, 0.8, users), 0.03 * items, 0.95 * items)
    # Each user rates the items that come first in a race; popular items are faster.
    race = rng.exponential(size=(users, items)) / popular
    rated = race.argsort(axis=1).argsort(axis=1) < active[:, None]
    tastes = rng.normal(size=(users, 4)) @ rng.normal(size=(4, items))
    # Ratings around 3.5 with four latent directions and noise, rounded to 1..5.
    scores = np.rint(3.5 + 0.4 * tastes + rng.normal(0.0, 0.7, (users, items)))
    return np.asarray(np.where(rated, np.clip(scores, 1.0, published.LARGEST_RATING), 0.0))


def product_of(rows: FloatArray) -> FloatArray:
    """Return M = A^T A / s (d, d) of rows (m, d), with the public s."""
    return np.asarray(rows.T @ rows / published.ROWS_OF_NODE)


def times(m: FloatArray, z: FloatArray) -> FloatArray:
    """Return M Z for many Z (k, d, r) at once: one product of matrices, not k thin ones."""
    return np.asarray(np.tensordot(z, m, axes=(1, 1)).transpose(0, 2, 1))


def next_z(sums: FloatArray) -> FloatArray:
    """Return the public Z that follows from sums (..., d, r): orthonormal, entries clipped."""
    q, _ = np.linalg.qr(sums)
    return np.asarray(np.clip(q, -published.ENTRY_CLIP, published.ENTRY_CLIP))


def first_z(items: int, rng: np.random.Generator) -> FloatArray:
    """Return the random Z (d, r) with which the iteration begins."""
    return next_z(rng.normal(size=(items, published.RANK)))
