"""Gram matrices and label sums written out number by number, and a climb to worse neighbours."""

from __future__ import annotations

import math

import numpy as np

from privplan.accountant.sensitivity.gram import GramBound


def label_vectors(classes: int, y: np.ndarray) -> np.ndarray:
    """Return the label vectors of y (...,): (..., c), none for no classes."""
    if classes == 0:
        return np.zeros((*y.shape, 0))
    if classes == 1:
        return y[..., None]
    return np.eye(classes)[y.astype(int)] - 1.0 / classes


def released(bound: GramBound, x: np.ndarray, y: np.ndarray, layout: str) -> np.ndarray:
    """Return what n units with rows x (n, k, d) and labels y (n, k) add: (n, values).

    Every number is a sum of its own, in the order of the definition.
    """
    root = math.sqrt(2.0) if layout == "isometric" else 1.0
    groups = range(bound.classes) if bound.by_class else (None,)
    columns = []
    for group in groups:
        members = np.ones(y.shape) if group is None else (y == group).astype(float)
        for i in range(bound.dimension):
            for j in range(i, bound.dimension):
                number = (members * x[:, :, i] * x[:, :, j]).sum(axis=1)
                columns.append(number if i == j else root * number)
    labels = label_vectors(bound.classes, y)
    for i in range(bound.dimension):
        for j in range(bound.classes):
            columns.append(bound.label_weight * (x[:, :, i] * labels[:, :, j]).sum(axis=1))
    return np.stack(columns, axis=1)


def within(bound: GramBound, x: np.ndarray) -> np.ndarray:
    """Return units shrunk until their square norms sum to the trace at most."""
    sizes = np.sqrt((x**2).sum(axis=(1, 2), keepdims=True) / bound.trace)
    return x / np.maximum(sizes, 1.0)


def some_labels(classes: int, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    if classes == 1:
        return rng.choice([-1.0, 1.0, 0.4, 0.0], shape)
    return rng.integers(0, max(classes, 1), shape).astype(float)


def climbed(
    bound: GramBound, norm: int, *, replaced: bool, units: int = 60, steps: int = 150, seed: int = 7
) -> float:
    """Return the worst neighbours found: random and structured starts, then hill climbing."""
    rng = np.random.default_rng(seed)
    k, d, layout = bound.rows, bound.dimension, "isometric" if norm == 2 else "triangle"
    shape = (units, k, d)

    def moved(x: np.ndarray, y: np.ndarray, other: np.ndarray, y_other: np.ndarray) -> np.ndarray:
        gap = released(bound, x, y, layout)
        if replaced:
            gap = gap - released(bound, other, y_other, layout)
        return np.linalg.norm(gap, norm, axis=1)

    x, other = math.sqrt(bound.trace) * rng.normal(size=(2, *shape))
    y, y_other = some_labels(bound.classes, (units, k), rng), np.zeros((units, k))
    third = units // 3
    x[:third], other[:third] = x[:third, :1], other[:third, :1]  # k equal rows
    other[: third // 2] = -x[: third // 2]
    x[third : third + 5, 1:] = 0.0  # one row alone
    x[-5:] = math.sqrt(bound.trace / (k * d))  # equal coordinates
    other[-5:] = -x[-5:]
    y[: 2 * third] = y[: 2 * third, :1]
    y_other[:] = some_labels(bound.classes, (units, k), rng)
    y_other[::2] = y[::2]
    y_other[1 : 2 * third : 2] = y_other[1 : 2 * third : 2, :1]
    x, other = within(bound, x), within(bound, other)
    x[third : third + 3] *= 0.8  # inside of the bound
    best = moved(x, y, other, y_other)
    for step in range(steps):
        spread = 0.6 * math.sqrt(bound.trace / k) * 0.96**step
        new = within(bound, x + rng.normal(scale=spread, size=shape))
        new_other = within(bound, other + rng.normal(scale=spread, size=shape))
        new_y, new_y_other = y.copy(), y_other.copy()
        if step % 5 == 0:  # now and then one label changes
            at = (np.arange(units), rng.integers(0, k, units))
            new_y[at] = some_labels(bound.classes, (units, 1), rng)[:, 0]
            new_y_other[at] = some_labels(bound.classes, (units, 1), rng)[:, 0]
        reached = moved(new, new_y, new_other, new_y_other)
        better = reached > best
        x[better], other[better], best[better] = new[better], new_other[better], reached[better]
        y[better], y_other[better] = new_y[better], new_y_other[better]
    return float(best.max())
