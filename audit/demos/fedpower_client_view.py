"""FedPower's Algorithm 2 against another client, whose own noise may be the one that stays.

A client knows the noise N_c that it drew.  With probability 1/n it is the only one left in the
sum, and then Z = orth(sum of Y_i + N_c): whoever knows the other data can compute that for either
value of the datum in question, and compare.  Under that value the two agree with probability at
least 1/n, under another one never (r < d).  So delta >= 1/n in each round, at every epsilon and
every sigma.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray
from ...accountant.claims import fedpower as published
from ...accountant.sensitivity.fedpower_views import revealed_probability
from ..measurement import Measurement
from ..statistics import Counts
from .counting import delta_lower, delta_lower_known
from .demo import Demo, Weakness, shown
from .fedpower import (
    NOISE,
    first_z,
    next_z,
    product_of,
    times,
)

CLIENT_VIEW_ITEMS: Final = 40
ITEM: Final = 0
"""The datum: the one rating of a user who rated nothing else, 5 or none, on the diagonal of M."""

CLIENT_VIEW_SINGLE_ROUNDS: Final = 10_000
"""How often one round is run with the rating, and as often without."""

CLIENT_VIEW_RUNS: Final = 250
"""The same for whole runs of `published.ROUNDS` rounds."""

EQUAL_TOLERANCE: Final = 1e-9
"""Entries of Z this close are equal: rounding moves them by some 1e-13."""

CONFIDENCE: Final = 0.95


def kept_noise(client_noise: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the noise that Algorithm 2 leaves in each sum, given the adversary's own (k, d, r).

    The secure sum adds the noises of all n clients, and the server, which holds n encrypted bits
    of which one hidden one is set, takes out all but one.  What was added and taken out again
    leaves no trace, so it is not drawn here: with probability 1/n the adversary's own noise stays,
    else that of somebody else.
    """
    # A uniform index over the clients: with probability 1 / n the noise that stays is one's own.
    mine = rng.integers(published.CLIENTS, size=len(client_noise)) == 0
    return np.where(mine[:, None, None], client_noise, rng.normal(0.0, NOISE, client_noise.shape))


def recognised(
    actual: FloatArray, assumed: FloatArray, rounds: int, z: FloatArray, seed: int
) -> int:
    """Run Algorithm 2, and return in how many runs the client saw an exact sum.

    `actual` and `assumed` are the sums of M (d, d) over all clients: what is computed with, and
    what the client takes for true.  `z` (k, d, r) is where each of k runs begins.
    """
    rng = np.random.default_rng(seed)
    seen = np.zeros(len(z), dtype=np.bool_)
    for _ in range(rounds):
        client_noise = rng.normal(0.0, NOISE, z.shape)
        # What the client computes if its own noise is the one that stays, and the datum is there.
        expected = next_z(times(assumed, z) + client_noise)
        z = next_z(times(actual, z) + kept_noise(client_noise, rng))
        seen |= _equal(z, expected)
    return int(seen.sum())


def counted(rounds: int, runs: int, rng: np.random.Generator) -> Counts:
    """Return how often the client recognises the rating, with it in the data and without.

    The client assumes the rating; positives are runs in which it is there.
    """
    with_it, without = data()
    z = np.broadcast_to(first_z(CLIENT_VIEW_ITEMS, rng), (runs, CLIENT_VIEW_ITEMS, published.RANK))
    seeds = rng.integers(2**63, size=2)
    hits = recognised(with_it, with_it, rounds, z, int(seeds[0]))
    false = recognised(without, with_it, rounds, z, int(seeds[1]))
    return Counts(false_alarms=false, negatives=runs, misses=runs - hits, positives=runs)


def run(rng: np.random.Generator) -> Weakness:
    """Measure delta of one round, at epsilon 1, and of 92 rounds, at epsilon 92."""
    once = counted(1, CLIENT_VIEW_SINGLE_ROUNDS, rng)
    often = counted(published.ROUNDS, CLIENT_VIEW_RUNS, rng)
    alpha = 1.0 - CONFIDENCE
    epsilon, delta = published.published_total(1.0, published.ROUNDS)
    exact = tuple(
        revealed_probability(published.CLIENTS, rounds) for rounds in (1, published.ROUNDS)
    )
    measurements = (
        _measured(1, 1.0, published.DELTA, delta_lower(once, epsilon=1.0, alpha=alpha), once, ()),
        _measured(
            published.ROUNDS,
            epsilon,
            delta,
            delta_lower_known(often, epsilon=epsilon, log_false_alarm=-math.inf, alpha=alpha),
            often,
            (
                "without the rating the client never sees agreement: continuous noise would have "
                "to meet an equation (none was seen)",
            ),
        ),
    )
    story = (
        f"{published.CLIENTS} clients ran Algorithm 2, and one of them compared each published Z "
        "with what it must be if its own noise is the one that stayed and one user rated an item.",
        f"With the rating in the data they agreed in {once.hits} of {once.positives:,} rounds "
        f"(in theory 1 in {published.CLIENTS}), and at least once in {often.hits} of "
        f"{often.positives} runs of {published.ROUNDS} rounds (in theory {exact[1]:.3f} of them).",
        f"Without the rating they agreed {once.false_alarms + often.false_alarms} times.",
        "So the client learns for certain that the rating is there, and more noise does not help: "
        "when the noise is the client's own, it knows it.",
        f"The text promises that this happens with probability {published.DELTA:g} a round, and "
        "says that a noise of one's own does no harm.",
    )
    return Weakness(measurements, exact, story)


def data() -> tuple[FloatArray, FloatArray]:
    """Return the sum of all M (d, d) with the rating and without it: one diagonal element differs.

    The largest change of an element that the published setting allows is 20; this one is 25/9.
    """
    rng = np.random.default_rng(2)
    rows = np.where(
        rng.random((900, CLIENT_VIEW_ITEMS)) < 0.3,
        rng.integers(1, 6, (900, CLIENT_VIEW_ITEMS)),
        0.0,
    )
    rows[0] = 0.0
    without = product_of(rows)
    rows[0, ITEM] = published.LARGEST_RATING
    return product_of(rows), without


def _equal(first: FloatArray, second: FloatArray) -> BoolArray:
    return np.asarray(np.abs(first - second).max(axis=(1, 2)) < EQUAL_TOLERANCE)


def _measured(
    rounds: int,
    epsilon: float,
    claimed: float,
    value: float,
    counts: Counts,
    assumes: tuple[str, ...],
) -> Measurement:
    counted_in = f"{rounds} round{'s' * (rounds > 1)}"
    return shown(
        f"delta of Algorithm 2 in {counted_in}, at epsilon {epsilon:g}",
        value,
        claimed,
        delta=claimed,
        quantity=f"delta at epsilon {epsilon:g}",
        proves=f"At epsilon {epsilon:g}, delta against another client is at least the value.",
        observer="client",
        unit="element",
        neighbours="replace-one",
        confidence=CONFIDENCE,
        assumes=(
            "the client knows all other data, as differential privacy lets it, and its own noise",
            "the event, equality of two matrices, was fixed before anything was drawn",
            "noises that the secure sum adds and the server takes out again are not drawn",
            *assumes,
        ),
        sample={
            "runs with the rating": counts.positives,
            "recognised": counts.hits,
            "runs without": counts.negatives,
            "recognised wrongly": counts.false_alarms,
            "rounds of a run": rounds,
            "clients": published.CLIENTS,
        },
    )


DEMO: Final = Demo(
    name="fedpower-client-view",
    system="fedpower",
    title="A client whose own noise is the one that stays sees the exact sum.",
    claim="Algorithm 2 is (1, 1e-5)-DP a round, even if the noise that stays is one's own.",
    rows=(
        "Algorithm 2: delta, 1 round",
        f"Algorithm 2: delta, {published.ROUNDS} rounds",
    ),
    run=run,
)
"""Liu, Pejo and Tang 2023, Algorithm 2."""
