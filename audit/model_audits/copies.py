"""Which records are copies of each other, or nearly so, by their features.

A copy of a record that is out of a model may be in it, and a coin that copies share is one coin.
Records count as one where they are equal, or where their distance is at most

    min(r sqrt(d), f D),   r = 1/1000, f = min(1/100, (100 n)^(-1/d)),

in d columns that vary, each over the spread of its middle half; D is the usual distance to the
nearest other of n records.  So distances that records of few columns have anyway make no copies
(with n independent records about one in 50 tables has such a pair).  Crops, flips and paraphrases
are farther than that: whoever knows of them says so by `group`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ...accountant.arrays import FloatArray, IntArray

NEARLY_EQUAL_RECORDS: Final = 1e-3
"""Most root mean square difference of copies, in units of the columns' spread."""

OF_USUAL_DISTANCE: Final = 1e-2
"""Copies are at most this share of the usual distance to the nearest other record apart."""

PROJECTED_ON: Final = 8
"""Directions that records are projected on, where near ones are looked for."""

THINNED: Final = 16
"""The usual distance is that among one in so many records, or copies themselves would be it."""

ASKED: Final = 128
"""Records whose nearest other is looked up."""

COPIES_SEED: Final = 43
"""Of directions and of who is asked, which protect nobody."""


def copies(features: FloatArray) -> IntArray:
    """Return a number for each record, (n,), the same for copies: features are (n, d)."""
    if not np.ptp(features, axis=0).any():
        return np.zeros(len(features), np.int64)
    scaled = _scaled(features)
    distinct, first = np.unique(scaled, axis=0, return_inverse=True)
    exact = np.asarray(first).reshape(len(features)).astype(np.int64)
    if len(distinct) < 2:
        return exact
    rng = np.random.default_rng(COPIES_SEED)
    near = _tolerance(distinct, rng)
    # No distance grows by an orthogonal projection, so all near pairs are near there.
    directions = np.linalg.qr(rng.normal(size=(distinct.shape[1], PROJECTED_ON)))[0]
    pairs = cKDTree(distinct @ directions).query_pairs(near, output_type="ndarray")
    apart = np.linalg.norm(distinct[pairs[:, 0]] - distinct[pairs[:, 1]], axis=1)
    pairs = pairs[apart <= near]
    linked = coo_array((np.ones(len(pairs), bool), pairs.T), shape=(len(distinct),) * 2)
    return np.asarray(connected_components(linked, directed=False)[1])[exact].astype(np.int64)


def _scaled(features: FloatArray) -> FloatArray:
    """Return the columns that vary, over the spread of their middle half, or their deviation."""
    kept = features[:, np.ptp(features, axis=0) > 0.0]
    low, high = np.quantile(kept, (0.25, 0.75), axis=0)
    spread = np.where(high > low, high - low, kept.std(0))
    return np.asarray((kept - np.median(kept, axis=0)) / spread)


def _tolerance(distinct: FloatArray, rng: np.random.Generator) -> float:
    """Return the largest distance of copies among distinct records: (n, d)."""
    n, d = distinct.shape
    others = distinct[rng.permutation(n)[: max(n // THINNED, min(n, 2))]]
    asked = distinct[rng.permutation(n)[:ASKED]]
    squares = (asked**2).sum(1)[:, None] + (others**2).sum(1) - 2.0 * asked @ others.T
    # Of those that are among the others themselves the second nearest counts.
    squares[(asked[:, None, 0] == others[None, :, 0]) & (squares < 1e-9)] = np.inf
    nearest = float(np.sqrt(max(np.median(squares.min(1)), 0.0)))
    usual = nearest * float((len(others) / n) ** (1.0 / d))
    share = min(OF_USUAL_DISTANCE, float((100.0 * n) ** (-1.0 / d)))
    return min(NEARLY_EQUAL_RECORDS * float(np.sqrt(d)), share * usual)
