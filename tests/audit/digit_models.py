"""Models of digits, many at once: networks 64-128-10 with every record in or out by a coin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privplan.accountant.arrays import BoolArray, FloatArray, IntArray

RECORDS = 1400
TARGETS = 16
SHADOWS = 64


@dataclass(frozen=True, eq=False)
class DigitModels:
    """Logits of 1,400 records and of 397 others under all models, targets first; who was in."""

    logits: FloatArray
    others: FloatArray
    labels: IntArray
    labels_of_others: IntArray
    inside: BoolArray


@lru_cache(maxsize=1)
def digit_models(epochs: int = 40) -> DigitModels:
    """Return 16 targets by coins and 64 shadows in opposite pairs, over-fitted."""
    features, labels = digits()
    rng = np.random.default_rng(0)
    half = rng.random((SHADOWS // 2, RECORDS)) < 0.5
    paired = np.stack([half, ~half], axis=1).reshape(SHADOWS, RECORDS)
    inside = np.concatenate([rng.random((TARGETS, RECORDS)) < 0.5, paired])
    weights = trained(features[:RECORDS], labels[:RECORDS], inside, epochs)
    logits, others = (logits_of(weights, part) for part in (features[:RECORDS], features[RECORDS:]))
    return DigitModels(logits, others, labels[:RECORDS], labels[RECORDS:], inside)


def digits() -> tuple[NDArray[np.float32], IntArray]:
    """Return pixels in [0, 1] and classes of all 1,797 digits, in a seeded order."""
    from sklearn.datasets import load_digits

    held = load_digits()
    order = np.random.default_rng(0).permutation(len(held.target))
    return (held.data[order] / 16.0).astype(np.float32), held.target[order].astype(np.int64)


Weights = list[NDArray[np.float32]]


def trained(
    features: NDArray[np.float32],
    labels: IntArray,
    inside: BoolArray,
    epochs: int,
    *,
    rate: float = 0.1,
    batch: int = 64,
    momentum: float = 0.9,
    hidden: int = 128,
    seed: int = 0,
) -> Weights:
    """Return the weights of one network for each row of `inside`, from one start, by SGD."""
    rng = np.random.default_rng(seed)
    models, width = len(inside), features.shape[1]
    shapes = ((width, hidden), (1, hidden), (hidden, 10), (1, 10))
    reach = (width, width, hidden, hidden)
    weights: Weights = [
        np.repeat(rng.uniform(-1, 1, (1, *shape)) / np.sqrt(fan), models, 0).astype(np.float32)
        for shape, fan in zip(shapes, reach, strict=True)
    ]
    moved = [np.zeros_like(each) for each in weights]
    one_hot = np.eye(10, dtype=np.float32)[labels]
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        for first in range(0, len(order) - batch + 1, batch):
            rows = order[first : first + batch]
            mask = inside[:, rows].astype(np.float32)
            share = (mask / np.maximum(mask.sum(1, keepdims=True), 1.0))[..., None]
            x = features[rows]
            active = np.maximum(x @ weights[0] + weights[1], 0.0)
            error = (_softmax(active @ weights[2] + weights[3]) - one_hot[rows]) * share
            back = (error @ weights[2].transpose(0, 2, 1)) * (active > 0.0)
            slopes = (
                x.T @ back,
                back.sum(1, keepdims=True),
                active.transpose(0, 2, 1) @ error,
                error.sum(1, keepdims=True),
            )
            for weight, motion, slope in zip(weights, moved, slopes, strict=True):
                motion *= momentum
                motion += slope
                weight -= rate * motion
    return weights


def logits_of(weights: Weights, features: NDArray[np.float32]) -> FloatArray:
    """Return the logits of all records under all models: (models, records, 10)."""
    active = np.maximum(features @ weights[0] + weights[1], 0.0)
    return np.asarray(active @ weights[2] + weights[3], np.float64)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    raised = np.exp(logits - logits.max(2, keepdims=True))
    return np.asarray(raised / raised.sum(2, keepdims=True))
