"""A sketch of the rounds of `flame_systems`, in floats: what clips and rates are chosen with.

Users have one record each, from a split's training records; the others of them are what a model is
judged on, so no test record is seen.  The noise of a sum is drawn at once, by numpy, and has the
law of a system's but for the grid: n Laplace numbers add up to the difference of two Gamma(n) ones.

    W_(t+1) = W_t + eta_g S / n',    S = sum_i clip(D_i) + noise,    n' = n k / d for `double`
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from flame_systems import CHOSEN, USERS, Case, Chosen, Vector, initial_model, records_of

from privplan.accountant.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Held:
    """Records of the users, a row each with a 1 behind, those that were left out, and a model.

    The model that rounds start from, (features and 1, classes), is that of a run.
    """

    rows: FloatArray
    targets: FloatArray
    left_rows: FloatArray
    left_labels: IntArray
    initial: FloatArray


def held_out(split: int) -> Held:
    """Return a record for each user, at random from the training records, and the rest of them."""
    records = records_of(split)
    rows = np.asarray(records.features, float).reshape(len(records.labels), -1)
    rows = np.hstack([rows, np.ones((len(rows), 1))])
    labels = np.asarray(records.labels, np.int64)
    kept, left = np.split(np.random.default_rng([split, 3]).permutation(len(rows)), [USERS])
    targets = np.eye(int(labels.max()) + 1)[labels]
    # A run has the weights of a class in a row, and all biases behind them.
    weight, bias = np.split(initial_model(split), [-targets.shape[1]])
    model = np.vstack([weight.reshape(targets.shape[1], -1).T, bias])
    return Held(rows[kept], targets[kept], rows[left], labels[left], model)


def accuracy(case: Case, noise: float, chosen: Chosen, held: Held, seed: int) -> float:
    """Return the accuracy on the records that were left out; `noise` is the noise multiplier."""
    weights = held.initial
    for number in range(case.rounds):
        rows = _updates(weights, held, chosen)
        step = _noisy_mean(case, noise, chosen.clip, rows, (seed, number))
        weights = weights + chosen.global_rate * step.reshape(weights.shape)
    return float(np.mean(np.argmax(held.left_rows @ weights, axis=1) == held.left_labels))


def _updates(weights: FloatArray, held: Held, chosen: Chosen) -> FloatArray:
    """Return the update of every user, (users, d).

    All gradients of one record a are a r', so an update is a R'.
    """
    scores, squares = held.rows @ weights, (held.rows**2).sum(axis=1, keepdims=True)
    moved = np.zeros_like(held.targets)
    for _ in range(chosen.local_epochs):
        moved -= chosen.local_rate * (_softmax(scores + squares * moved) - held.targets)
    return (held.rows[:, :, None] * moved[:, None, :]).reshape(len(held.rows), -1)


def _softmax(scores: FloatArray) -> FloatArray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _noisy_mean(
    case: Case, noise: float, clip: float, rows: FloatArray, seed: tuple[int, int]
) -> Vector:
    random = np.random.default_rng([*seed, 4])
    if case.way in ("central", "local-gaussian"):
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * np.minimum(1.0, clip / np.maximum(norms, 1e-12))
        draws = USERS if case.way == "local-gaussian" else 1
        gaussian = random.normal(size=rows.shape[1]) * np.sqrt(draws)
        return np.asarray((rows.sum(axis=0) + noise * clip * gaussian) / USERS)
    rows = np.clip(rows, -clip, clip)
    if case.way == "none":
        return np.asarray(rows.mean(axis=0))
    sums, messages = rows.sum(axis=0), USERS
    if case.way in ("topk", "double"):
        drawn = case.way == "double"
        places = _drawn_places(seed, rows.shape[1]) if drawn else _smallest(-np.abs(rows))
        sums, messages = _sums(places, rows), case.padded_to
    gamma = random.gamma(messages, size=(2, rows.shape[1]))
    part = CHOSEN / rows.shape[1] if case.way == "double" else 1.0
    return np.asarray((sums + noise * clip * (gamma[0] - gamma[1])) / (USERS * part))


@cache
def _drawn_places(seed: tuple[int, int], dimensions: int) -> IntArray:
    """Return coordinates of each user in a round, whatever its update: (users, k)."""
    return _smallest(np.random.default_rng([*seed, 5]).random((USERS, dimensions)))


def _smallest(sizes: FloatArray) -> IntArray:
    return np.asarray(np.argpartition(sizes, CHOSEN, axis=1)[:, :CHOSEN])


def _sums(places: IntArray, rows: FloatArray) -> Vector:
    values = np.take_along_axis(rows, places, axis=1)
    return np.bincount(places.ravel(), values.ravel(), minlength=rows.shape[1])
