"""Small data and small releases that the tests of statistics share."""

from __future__ import annotations

from typing import Any

import numpy as np

import privplan as pp
from privplan.accountant.arrays import FloatArray, IntArray
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.sensitivity.gram import GramBound
from privplan.fl.statistics.statistics import ReleasedStatistics


def classified(rows: int = 400, features: int = 4, classes: int = 3) -> tuple[FloatArray, IntArray]:
    """Return rows about a centre for each class, and their classes."""
    rng = np.random.default_rng([rows, features, classes])
    labels = rng.integers(0, classes, rows)
    centres = 2.0 * rng.normal(size=(classes, features))
    return centres[labels] + rng.normal(size=(rows, features)), labels


def statistics(**terms: Any) -> pp.PrivateStatistics:
    """Return statistics of three classes under a seed, with other terms where they are given."""
    usual: dict[str, Any] = {"row_norm": 6.0, "epsilon": 1.0, "seed": 1}
    if "label_range" not in terms and "classes" not in terms:
        usual["classes"] = 3
    return pp.PrivateStatistics(**{**usual, **terms})


def exact(
    features: FloatArray, labels: FloatArray | IntArray, *, std: float = 1.0, **shape: Any
) -> ReleasedStatistics:
    """Return statistics as if released without noise, of rows of norm at most 1, intercept .2."""
    classes = shape.pop("classes", 3)
    share = shape.pop("intercept", 0.2)
    bound = GramBound(dimension=features.shape[1] + (share > 0), classes=classes, **shape)
    mechanism = NoisyGram(gram=bound, std=std, bits=18)
    norms = np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    rows = np.hstack(
        [np.sqrt(1 - share) * features / norms, np.full((len(features), 1), share**0.5)]
    )
    rows = rows[:, : bound.dimension]
    sums = (
        np.asarray(labels, float)[:, None]
        if classes == 1
        else np.eye(classes)[labels] - 1 / classes
    )
    upper = np.triu_indices(bound.dimension)
    groups = [labels == each for each in range(classes)] if bound.by_class else [slice(None)]
    matrices = [(rows[group].T @ rows[group])[upper] for group in groups]
    return ReleasedStatistics.of_vector(
        np.concatenate([*matrices, (rows.T @ sums).ravel()]),
        mechanism,
        event=mechanism.event("add-remove"),
        delta=1e-5,
        neighbours="add-remove",
        intercept=share,
    )
