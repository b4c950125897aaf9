"""Coefficients of objectives written out one by one, and a climb to worse neighbours."""

from __future__ import annotations

import numpy as np

from privplan.accountant.sensitivity.functional import Objective

CLASSES = 3


def labels(model: str, count: int, rng: np.random.Generator, classes: int = CLASSES) -> np.ndarray:
    if model == "linear":
        return rng.choice([-1.0, 1.0, 0.3], count)
    return rng.integers(0, 2 if model == "logistic" else classes, count).astype(float)


def parts(model: str, y: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """l_y, one row per label, and K: what one record adds, as the docstring of the module says."""
    if model == "linear":
        return -2.0 * y[:, None], np.eye(1)
    if model == "logistic":
        return 0.5 - y[:, None], np.eye(1) / 8.0
    one_hot = np.eye(classes)[y.astype(int)]
    if model == "statistics":
        return one_hot, np.eye(1)
    if model == "centred-statistics":
        return one_hot - 1.0 / classes, np.eye(1)
    centre = (np.eye(classes) - 1.0 / classes) / classes
    return 1.0 / classes - one_hot, centre / 2.0


def coefficients(
    model: str, form: str, x: np.ndarray, y: np.ndarray, classes: int = CLASSES, weight: float = 1.0
) -> np.ndarray:
    """All released coefficients of the records (x, y), one row each."""
    linear, tensor = parts(model, y, classes)
    n, d = x.shape
    first = weight * (linear[:, :, None] * x[:, None, :]).reshape(n, -1)
    square = np.einsum("kl,ni,nj->nkilj", tensor, x, x)
    size = len(tensor) * d
    square = square.reshape(n, size, size)
    if form == "full":
        second = square.reshape(n, -1)
    else:
        upper = np.triu_indices(size)
        second = square[:, upper[0], upper[1]]
        twice = {"monomials": 2.0, "isometric": np.sqrt(2.0)}.get(form, 1.0)
        second = second * np.where(upper[0] == upper[1], 1.0, twice)
    return np.concatenate([first, second], axis=1)


def project(x: np.ndarray, data: str) -> np.ndarray:
    if data == "coordinate":
        return np.clip(x, -1.0, 1.0)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)


def search(
    objective: Objective, norm: int, *, replaced: bool, count: int = 60, steps: int = 150
) -> float:
    """The worst neighbours found: random, extreme and mirrored starts, then hill climbing."""
    rng = np.random.default_rng(7)
    model, d = objective.model, objective.dimension

    def released(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        form, weight = objective.quadratic, objective.label_weight
        return coefficients(model, form, x, y, objective.classes, weight)

    def moved(x: np.ndarray, other: np.ndarray) -> np.ndarray:
        gap = released(x, y)
        if replaced:
            gap = gap - released(other, y_other)
        return np.linalg.norm(gap, norm, axis=1)

    x, other = rng.normal(size=(2, count, d))
    x[: count // 3], other[: count // 3] = np.sign(x[: count // 3]), np.sign(other[: count // 3])
    other[count // 3 : count // 2] = -x[count // 3 : count // 2]
    x, other = project(x, objective.data), project(other, objective.data)
    y, y_other = (labels(model, count, rng, objective.classes) for _ in range(2))
    y_other[::2] = y[::2]
    best = moved(x, other)
    for step in range(steps):
        spread = 0.6 * 0.96**step
        new = project(x + rng.normal(scale=spread, size=x.shape), objective.data)
        new_other = project(other + rng.normal(scale=spread, size=x.shape), objective.data)
        reached = moved(new, new_other)
        better = reached > best
        x[better], other[better], best[better] = new[better], new_other[better], reached[better]
    return float(best.max())
