"""FLAME's protocols as functions: randomize, choose coordinates, pad, shuffle.  No guarantee.

A user's update in [-C, C]^d is mapped to [0, 1]; k coordinates of it are sent, each with Laplace
noise of scale 1 / eps_l; shufflers add dummies, randomized values 1/2, so that every coordinate has
n_p messages.  SS-Double draws the k coordinates, SS-Topk takes those that moved most.  The analysis
assumes one shuffler for each coordinate; as Algorithms 2 and 3 are printed, a user's k messages
travel, and are shuffled, together.

The generators given are a simulation's: they protect nobody.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, *FLAME: Differentially Private Federated Learning in
the Shuffle Model*, AAAI, arXiv 2009.08063v4.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.claims.flame_formulas import DIMENSIONS, FIFTIETH, FLAME_DELTA, MESSAGE_EPSILON
from ...accountant.claims.flame_published import published_theorem_4_with_double_counting
from ...accountant.errors import InvalidInput

MIDDLE: Final = 0.5
"""The value of a dummy, and of a coordinate that did not move."""


def published_epsilon() -> float:
    """Return what Theorem 4 says of k = 157 of 7,850 coordinates, n_p = 333: 0.238."""
    return published_theorem_4_with_double_counting(
        MESSAGE_EPSILON,
        dimensions=DIMENSIONS,
        chosen=FIFTIETH.chosen,
        padded_to=FIFTIETH.padded_to,
        delta=FLAME_DELTA,
    )


def to_unit(updates: ArrayLike, clip: float) -> FloatArray:
    """Return updates, clipped to [-`clip`, `clip`], as numbers in [0, 1]."""
    return np.asarray((np.clip(updates, -clip, clip) / clip + 1.0) / 2.0)


def randomized(values: ArrayLike, local_epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Return values in [0, 1] plus Laplace noise of scale 1 / `local_epsilon`."""
    given = np.asarray(values, np.float64)
    return given + rng.laplace(0.0, 1.0 / local_epsilon, given.shape)


def largest(updates: ArrayLike, chosen: int) -> IntArray:
    """Return which `chosen` coordinates of each update (users, d) moved most: SS-Topk.

    By size, as the authors' program does; Algorithm 4 as printed takes sizes after the mapping to
    [0, 1], where the most positive are largest.
    """
    # argpartition: the `chosen` largest sizes of each row, in any order, (users, chosen).
    sizes = -np.abs(np.asarray(updates))
    return np.asarray(np.argpartition(sizes, chosen - 1, axis=1)[:, :chosen])


def drawn(users: int, dimensions: int, chosen: int, rng: np.random.Generator) -> IntArray:
    """Return `chosen` coordinates for each user, a uniform subset: SS-Double."""
    return largest(rng.random((users, dimensions)), chosen)


def by_coordinate(
    indices: IntArray,
    messages: FloatArray,
    *,
    dimensions: int,
    padded_to: int,
    local_epsilon: float,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Return the messages of every coordinate, dummies among them, in random order.

    `indices` and `messages` are (users, k).  A coordinate that gets more than `padded_to` messages
    keeps them all: the text does not say what else should happen.
    """
    loads = np.bincount(indices.ravel(), minlength=dimensions)
    missing = np.maximum(padded_to - loads, 0)
    places = np.concatenate((indices.ravel(), np.repeat(np.arange(dimensions), missing)))
    dummies = randomized(np.full(int(missing.sum()), MIDDLE), local_epsilon, rng)
    values = np.concatenate((messages.ravel(), dummies))
    # A uniform permutation of all messages, then stably sorted by coordinate.
    mixed = rng.permutation(places.size)
    order = mixed[np.argsort(places[mixed], kind="stable")]
    return np.split(values[order], np.cumsum(loads + missing)[:-1])


def in_tuples(
    indices: IntArray,
    messages: FloatArray,
    *,
    dimensions: int,
    padded_to: int,
    local_epsilon: float,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Return the tuples (indices, messages), (d n_p / k, k) each, dummies among them, shuffled.

    The literal reading: one permutation of whole tuples.  Dummies fill every coordinate up to
    `padded_to`, and no tuple of them holds a coordinate twice.  Raises `InvalidInput` where a
    coordinate has more messages, or they do not make whole tuples.
    """
    chosen = indices.shape[1]
    missing = padded_to - np.bincount(indices.ravel(), minlength=dimensions)
    if missing.min() < 0 or dimensions * padded_to % chosen:
        raise InvalidInput("The messages of a coordinate do not fit, or do not make whole tuples.")
    # Copies of a coordinate stand next to each other, so they go to different rows.
    spare = np.repeat(np.arange(dimensions), missing).reshape(chosen, -1).T
    dummies = randomized(np.full(spare.shape, MIDDLE), local_epsilon, rng)
    order = rng.permutation(len(indices) + len(spare))
    return (
        np.concatenate((indices, spare))[order],
        np.concatenate((messages, dummies))[order],
    )
