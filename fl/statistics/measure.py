"""How a run of private statistics is measured: the configured fit, on public test data.

A fit is a function of the release alone, so it costs nothing; measuring it looks at test data,
which must be public for that (`[evaluation]`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from ...accountant.arrays import FloatArray
from ..frame.model import Parameters
from ..training.metrics import measured
from .run_terms import RunTerms
from .settings import StatisticsSettings

if TYPE_CHECKING:
    from ..running.prepared_run import PreparedRun
    from .system import Statistics

_NO_LOSS = "loss"
"""Scores of a fit by least squares are no log-odds, so a cross-entropy of them means nothing."""


def measure(prepared: PreparedRun, released: Parameters) -> Mapping[str, float]:
    """Return the metrics of the configured fit on the test data; none with fit = "none"."""
    table = prepared.settings.of(StatisticsSettings)
    if table.fit == "none":
        return {}
    system, federation = cast("Statistics", prepared.system), prepared.federation
    std = system.mechanism(system.promise.noise_multiplier).std
    weights = fitted(system.terms, released, std)
    features = federation.test_features.reshape(len(federation.test_features), -1)
    scores = rows_of(system.terms, features.astype(np.float64)) @ weights
    metrics = measured(scores, federation.test_labels)
    return {name: value for name, value in metrics.items() if name != _NO_LOSS}


def fitted(terms: RunTerms, released: Parameters, std: float) -> FloatArray:
    """Return the weights (d, c) of the configured fit, from a release (values,)."""
    dimension, classes = terms.parts["labels"]
    upper = np.triu_indices(dimension)
    start = released.size - dimension * classes
    triangle = released[:start].reshape(-1, len(upper[0])).sum(axis=0)
    gram: FloatArray = np.zeros((dimension, dimension))
    gram[upper] = triangle
    gram = gram + np.triu(gram, 1).T
    values, vectors = np.linalg.eigh(gram)
    floor = terms.settings.ridge * std * math.sqrt(2.0 * dimension)
    solved = vectors @ np.diag(1.0 / (np.maximum(values, 0.0) + floor)) @ vectors.T
    return np.asarray(solved @ released[start:].reshape(dimension, classes))


def rows_of(terms: RunTerms, features: FloatArray) -> FloatArray:
    """Return rows (n, d) as the release has them: clipped to R, divided by it, with intercept."""
    table = terms.settings
    norms = np.sqrt(np.einsum("ij,ij->i", features, features))
    scale = math.sqrt((1.0 - table.intercept) * float(terms.gram.row_square))
    rows: FloatArray = features * (scale / np.maximum(norms, table.row_norm))[:, None]
    if not table.intercept:
        return rows
    constant = math.sqrt(table.intercept * float(terms.gram.row_square))
    return np.hstack([rows, np.full((len(rows), 1), constant)])
