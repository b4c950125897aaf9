"""FedPower's noise against the removal of a user, who moves Y far more than one element of M.

Theorem 1 bounds how far Y = M Z moves when one element of M changes.  A user is a row a of a
node's matrix: removing it moves Y by a (Z^T a)^T / s, in Frobenius norm |a| |Z^T a| / s.  The
server of Algorithm 1 sees Y of that node with Gaussian noise sigma on each entry.  Knowing the
rest, it projects what it sees on the direction in which the user moves Y: N(0, 1) without the
user, N(mu, 1) with, mu = distance / sigma.  That is all there is to see, so epsilon is exactly
that of a Gaussian with multiplier 1 / mu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from ...accountant.arrays import FloatArray
from ...accountant.claims import fedpower as published
from ...accountant.claims import proofs
from ..measurement import Measurement
from ..statistics import Counts, epsilon_lower
from .counting import batches, epsilon_lower_known
from .demo import Demo, Weakness, shown
from .fedpower import (
    NOISE,
    first_z,
    next_z,
    product_of,
    ratings,
    times,
)

REMOVAL_ITEMS: Final = 560
SINGLE_ROUND_RUNS: Final = 5_000
"""How often a round is seen with the user, and as often without."""

REMOVAL_RUNS: Final = 20
"""The same for runs of `published.ROUNDS` rounds."""

PILOT_RUNS: Final = 5
"""Runs with the user whose lowest score is the threshold for those; they are not counted."""

THRESHOLD_ABOVE_MU: Final = 2.0
"""The second threshold of one round lies this far above mu: fewer hits, far fewer alarms."""

CONFIDENCE: Final = 0.95

ROUNDS_AT_ONCE: Final = 1000


@dataclass(frozen=True)
class RemovedUser:
    """One user of one node, and all that the adversary knows besides.

    `row` (d,) holds the user's ratings, `node` (d, d) is M of the node without them, `others`
    (d, d) the sum of M over the other nodes.
    """

    row: FloatArray
    node: FloatArray
    others: FloatArray

    def direction(self, z: FloatArray) -> FloatArray:
        """Return what the user adds to the node's Y, for Z (..., d, r)."""
        seen = np.einsum("...dr,d->...r", z, self.row)
        return np.asarray(self.row[:, None] * seen[..., None, :] / published.ROWS_OF_NODE)

    def distance(self, z: FloatArray) -> FloatArray:
        """Return how far the user's removal moves Y: |a| |Z^T a| / s."""
        return np.asarray(np.linalg.norm(self.direction(z), axis=(-2, -1)))


def removed_user() -> RemovedUser:
    """Return the user of the synthetic ratings whose row is longest."""
    rows = ratings(REMOVAL_ITEMS)
    user = int((rows**2).sum(axis=1).argmax())
    first = user - user % published.ROWS_OF_NODE
    node = np.arange(first, first + published.ROWS_OF_NODE)
    others = np.setdiff1d(np.arange(len(rows)), node)
    return RemovedUser(
        row=rows[user],
        node=product_of(rows[node[node != user]]),
        others=product_of(rows[others]),
    )


def converged(removed: RemovedUser) -> FloatArray:
    """Return the Z (d, r) at which the noiseless iteration ends, computed without the user."""
    vectors = np.linalg.eigh(removed.node + removed.others)[1]
    return next_z(vectors[:, -published.RANK :][:, ::-1])


def typical(z: FloatArray) -> float:
    """Return how far the removal of the median user moves Y, for Z (d, r)."""
    rows = ratings(REMOVAL_ITEMS)
    moved = np.linalg.norm(rows, axis=1) * np.linalg.norm(rows @ z, axis=1)
    return float(np.median(moved)) / published.ROWS_OF_NODE


def one_round(
    removed: RemovedUser, z: FloatArray, present: bool, runs: int, rng: np.random.Generator
) -> FloatArray:
    """Return the server's score in each of `runs` rounds: the projection, in units of sigma."""
    # Neyman-Pearson: project on the direction a (Z^T a)^T / s in which the user moves Y.
    direction = removed.direction(z)
    unit = direction / np.linalg.norm(direction)
    expected = removed.node @ z
    truth = expected + direction if present else expected
    scores = [
        np.einsum("kdr,dr->k", truth + rng.normal(0.0, NOISE, (size, *z.shape)) - expected, unit)
        for size in batches(runs, ROUNDS_AT_ONCE)
    ]
    return np.concatenate(scores) / NOISE


def all_rounds(
    removed: RemovedUser, present: bool, runs: int, rng: np.random.Generator
) -> FloatArray:
    """Return the server's score in each of `runs` runs: the projections' sum, over sqrt(T).

    Each round's Z follows from the noisy sum of the round before, so what the user moves differs
    from run to run.  Without the user every projection is N(0, 1) given the past, and so is the
    score; with it, it is larger by about sqrt(T) mu.  The server's own noise is left out: it knows
    that one.
    """
    z = np.stack([first_z(REMOVAL_ITEMS, rng) for _ in range(runs)])
    scores = np.zeros(runs)
    # The noises of the other nodes are seen in the sum only, where they are one Gaussian.
    spread = NOISE * math.sqrt(published.CLIENTS - 1)
    for _ in range(published.ROUNDS):
        direction = removed.direction(z)
        expected = times(removed.node, z)
        noise = rng.normal(0.0, NOISE, z.shape)
        sent = expected + noise + (direction if present else 0.0)
        # <Y - M Z, direction> / (sigma |direction|): N(0, 1) without the user, (runs,).
        along = ((sent - expected) * direction).sum(axis=(1, 2))
        scores += along / (NOISE * np.linalg.norm(direction, axis=(1, 2)))
        z = next_z(times(removed.others, z) + rng.normal(0.0, spread, z.shape) + sent)
    return np.asarray(scores / math.sqrt(published.ROUNDS))


def run(rng: np.random.Generator) -> Weakness:
    """Measure epsilon of removing a user, in one round and in 92."""
    removed = removed_user()
    z = converged(removed)
    distance = float(removed.distance(z))
    mu = distance / NOISE
    exact = proofs.gaussian(1.0 / mu, 1, published.DELTA)[1]
    present = one_round(removed, z, True, SINGLE_ROUND_RUNS, rng)
    absent = one_round(removed, z, False, SINGLE_ROUND_RUNS, rng)
    # Runs of their own fix the threshold, so the counted ones cannot have chosen it.
    pilot = all_rounds(removed, True, PILOT_RUNS, rng)
    threshold = float(pilot.min())
    long = _counts_at(
        all_rounds(removed, True, REMOVAL_RUNS, rng),
        all_rounds(removed, False, REMOVAL_RUNS, rng),
        threshold,
    )
    halfway, far = (
        _counts_at(present, absent, mu / 2.0),
        _counts_at(present, absent, mu + THRESHOLD_ABOVE_MU),
    )
    measurements = (
        _by_counts(halfway),
        _over_rounds(long, threshold),
        _by_tail(far, mu + THRESHOLD_ABOVE_MU),
    )
    moved = published.PUBLISHED_SENSITIVITY
    story = (
        f"A synthetic table of {published.CLIENTS * published.ROWS_OF_NODE} users and "
        f"{REMOVAL_ITEMS} "
        f"items is shared out over {published.CLIENTS} nodes; Theorems 1 and 2 say that noise "
        f"{NOISE:.3g} gives epsilon 1, since one element of M moves Y by at most {moved:.4g}.",
        f"Removing the user with the longest row moves its node's Y by {distance:.4g}, "
        f"{mu:.3g} times the noise, so epsilon of a round is exactly {exact:.4g}; the median user "
        f"moves it by {typical(z):.3g}.",
        f"A server that knows the rest recognised {halfway.hits:,} of "
        f"{halfway.positives:,} rounds with the user, and took {halfway.false_alarms} of "
        f"{halfway.negatives:,} without for one.",
        f"In runs of {published.ROUNDS} rounds its score, N(0, 1) without the user, was above "
        f"{threshold:.4g} in {long.hits} of {long.positives}.",
        "The theorem counts one element of M, which never changes alone off the "
        "diagonal: a user who rated k items moves k^2 of them.",
    )
    return Weakness(measurements, (exact, None, exact), story)


def _by_counts(counts: Counts) -> Measurement:
    value = epsilon_lower(counts, delta=published.DELTA, alpha=1.0 - CONFIDENCE)
    return _measured(
        "epsilon of removing a user, 1 round, by counting alone",
        value,
        1.0,
        published.DELTA,
        counts,
        "Epsilon for one user is at least the value; counting more rounds would show more.",
        ("the threshold, half of mu, was fixed before anything was drawn",),
    )


def _by_tail(counts: Counts, threshold: float) -> Measurement:
    value = _with_known_alarms(counts, threshold, published.DELTA)
    return _measured(
        "epsilon of removing a user, 1 round, false alarms by the noise's own law",
        value,
        1.0,
        published.DELTA,
        counts,
        "Epsilon for one user is at least the value.",
        (
            f"the threshold, mu + {THRESHOLD_ABOVE_MU:g}, was fixed before anything was drawn",
            "without the user the score is N(0, 1), as the mechanism says",
        ),
    )


def _over_rounds(counts: Counts, threshold: float) -> Measurement:
    claimed, delta = published.published_total(1.0, published.ROUNDS)
    return _measured(
        f"epsilon of removing a user, {published.ROUNDS} rounds",
        _with_known_alarms(counts, threshold, delta),
        claimed,
        delta,
        counts,
        "Epsilon for one user is at least the value.",
        (
            f"the threshold was set on {PILOT_RUNS} other runs",
            "without the user the score is N(0, 1), as the mechanism says",
        ),
    )


def _with_known_alarms(counts: Counts, threshold: float, delta: float) -> float:
    # ln Phi(-threshold): the law of the score without the user, stated by the mechanism.
    tail = float(log_ndtr(-threshold))
    return epsilon_lower_known(counts, delta=delta, log_false_alarm=tail, alpha=1.0 - CONFIDENCE)


def _measured(
    what: str,
    value: float,
    claimed: float,
    delta: float,
    counts: Counts,
    proves: str,
    assumes: tuple[str, ...],
) -> Measurement:
    return shown(
        what,
        value,
        claimed,
        delta=delta,
        proves=proves,
        observer="server",
        unit="record",
        neighbours="add-remove",
        confidence=CONFIDENCE,
        assumes=(
            "the server knows all other users, as differential privacy lets it",
            *assumes,
        ),
        sample={
            "runs with the user": counts.positives,
            "recognised": counts.hits,
            "runs without": counts.negatives,
            "recognised wrongly": counts.false_alarms,
        },
    )


def _counts_at(present: FloatArray, absent: FloatArray, threshold: float) -> Counts:
    return Counts(
        false_alarms=int((absent > threshold).sum()),
        negatives=len(absent),
        misses=int((present <= threshold).sum()),
        positives=len(present),
    )


DEMO: Final = Demo(
    name="fedpower-removal",
    system="fedpower",
    title="Removing one user moves the product far beyond the sensitivity that was claimed.",
    claim="Theorems 1 and 2: with this noise a round is (1, 1e-5)-DP, and 92 rounds (92, 9.2e-4).",
    rows=("one user removed, 1 round", f"one user removed, {published.ROUNDS} rounds"),
    run=run,
)
"""Liu, Pejo and Tang 2023, Theorems 1 and 2 and Algorithm 1."""
