"""DISCO's adaptive local differential privacy: the size of the noise tells the size of the update.

    r      max(1e-12, min(C, mean of the last three norms of this tensor's updates, this one's too))
    sent   clip_r(update) + N(0, (z r)^2),   z = 2 sqrt(2 ln(1.25 R / delta)) R / epsilon

z is a public constant, so the root mean square of what is sent, over z, is r: and r follows the
client's own update.  A tensor that did not move has noise z 1e-12, and one that moved by C has
noise z C.

Source: epfml/disco, `discojs/src/privacy.ts`.

The control of DISCO's radius: the same noise, with radii that are public constants.

Replacing a client moves each tensor of each round from -r to r along one direction, so the best
test of all R L releases is the score

    (sum of the coordinates along it + R L) / (z sqrt(R L senders)),

a standard Gaussian for one update, and one shifted by mu = 2 sqrt(R L / senders) / z for the other.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp, ndtr

from ...accountant.arrays import FloatArray
from ...accountant.claims.disco import (
    DELTA,
    FLOOR,
    SUMMED_PEERS,
    published_classical_multiplier,
)
from ..measurement import Measurement
from ..statistics import Counts, epsilon_lower
from .counting import delta_lower
from .demo import Demo, Weakness, shown

RADIUS_ROUNDS: Final = 20
PUBLIC_TENSORS: Final = 6
PUBLIC_RUNS: Final = 100_000
PUBLIC_SUM_RUNS: Final = 20_000
PUBLIC_THRESHOLD: Final = 3.5
PUBLIC_SUM_THRESHOLD: Final = 1.5
"""Of radii that are public: the threshold in deviations of the score, fixed before it is drawn."""


def exact_public_epsilon(multiplier: float, senders: int, threshold: float, delta: float) -> float:
    """Return ln((p - delta) / q) of the score of `public_score` above a threshold.

    p = Phi(mu - threshold), q = Phi(-threshold), mu = 2 sqrt(R L / senders) / z.
    """
    shift = 2.0 * math.sqrt(RADIUS_ROUNDS * PUBLIC_TENSORS / senders) / multiplier
    return math.log((float(ndtr(shift - threshold)) - delta) / float(ndtr(-threshold)))


def public_score(
    sign: int, senders: int, multiplier: float, runs: int, rng: np.random.Generator
) -> FloatArray:
    """Return the score (runs,) of all releases of a client that moved by `sign` times its radii.

    Every radius is 1, and `sign` 1 or -1; of what is sent only the coordinate along the direction
    says anything, and only that is drawn.  The noise of `senders` messages is in it.
    """
    releases, spread = RADIUS_ROUNDS * PUBLIC_TENSORS, multiplier * math.sqrt(senders)
    scores = np.zeros(runs)
    for _ in range(releases):
        # One release: the client's movement, and the noise of every sender.
        scores += float(sign)
        for _ in range(senders):
            scores += multiplier * rng.standard_normal(runs)
    return np.asarray((scores + releases) / (spread * math.sqrt(releases)))


def counts_of_public_radii(
    senders: int, runs: int, threshold: float, multiplier: float, rng: np.random.Generator
) -> Counts:
    """Return how often the score exceeds a threshold that was fixed before, for either update."""
    hits, alarms = (
        int((public_score(sign, senders, multiplier, runs, rng) > threshold).sum())
        for sign in (1, -1)
    )
    return Counts(alarms, runs, runs - hits, runs)


RADIUS_EPSILON: Final = 10.0
RADIUS_CLIP: Final = 1.0
SMALL_TENSOR_SIZE: Final = 10
"""Numbers in the tensor: the biases of ten classes."""

RADIUS_RUNS: Final = 2_000_000
"""With each of the two updates; an epsilon of 10 cannot be shown with fewer than 100,000."""

RADIUS_THRESHOLD: Final = math.sqrt(FLOOR * RADIUS_CLIP)
"""Halfway, in the logarithm, between the two radii."""

SUM_RUNS: Final = 100_000
"""With each of two updates, where the messages of all peers are summed."""

UPDATES_AT_ONCE: Final = 50_000


def published_radius(norms: FloatArray, *, clip: float = RADIUS_CLIP) -> FloatArray:
    """Return the radius of a tensor's noise, from the norms (.., rounds) of its updates so far.

    The last of them is this round's: the radius is a function of what it is to hide.
    """
    return np.asarray(np.clip(norms[..., -3:].mean(axis=-1), FLOOR, clip))


def published_noisy_update(
    updates: ArrayLike,
    rng: np.random.Generator,
    *,
    multiplier: float,
    clip: float = RADIUS_CLIP,
    earlier: ArrayLike = (),
) -> FloatArray:
    """Return what DISCO sends of the updates (.., D) of one tensor: **no-guarantee**, for study.

    `earlier` holds the norms of its updates in earlier rounds, oldest first, (rounds,) or
    (.., rounds).  `rng` is a simulation's: it protects nobody.
    """
    moved = np.asarray(updates, np.float64)
    norms = np.linalg.norm(moved, axis=-1)
    past = np.asarray(earlier, np.float64)
    past = np.broadcast_to(past, (*norms.shape, past.shape[-1]))
    radius = published_radius(np.concatenate((past, norms[..., None]), axis=-1), clip=clip)
    # clip_r(update) + N(0, (z r)^2): the deviation scales with the private radius.
    shrink = np.minimum(1.0, radius / np.maximum(norms, FLOOR))
    noise = rng.standard_normal(moved.shape)
    return np.asarray(moved * shrink[..., None] + (multiplier * radius)[..., None] * noise)


def read_radius(sent: FloatArray, multiplier: float) -> FloatArray:
    """Return what a peer takes for the radius: the root mean square of a tensor (.., D), over z.

    Its relative error is about 1 / sqrt(2 D).
    """
    return np.asarray(np.sqrt(np.mean(sent**2, axis=-1)) / multiplier)


def exact_epsilon(delta: float, senders: int = 1) -> float:
    """Return ln((p - delta) / q) of the test of the demonstration; `SMALL_TENSOR_SIZE` is even.

    q: chi-square with D degrees of freedom above D (threshold / 1e-12)^2 / senders, the messages
    of all `senders` summed.  p is 1 but for the chance (about 1e-60) that all coordinates are a
    million times smaller than their noise.
    """
    # P[chi2_D > x] = e^(-x/2) sum over i < D/2 of (x/2)^i / i!, in logarithms: it underflows.
    half = SMALL_TENSOR_SIZE * (RADIUS_THRESHOLD / FLOOR) ** 2 / (2.0 * senders)
    orders = np.arange(SMALL_TENSOR_SIZE // 2)
    log_q = float(logsumexp(orders * math.log(half) - gammaln(orders + 1.0))) - half
    return math.log1p(-delta) - log_q


def _times_above(
    update: FloatArray, senders: int, runs: int, multiplier: float, rng: np.random.Generator
) -> int:
    """Return how often the sum's noise is large; the other senders' tensors did not move."""
    above = 0
    for _ in range(runs // UPDATES_AT_ONCE):
        moved = np.broadcast_to(update, (UPDATES_AT_ONCE, SMALL_TENSOR_SIZE))
        sent = published_noisy_update(moved, rng, multiplier=multiplier)
        for _ in range(senders - 1):
            sent += published_noisy_update(np.zeros_like(moved), rng, multiplier=multiplier)
        above += int((read_radius(sent, multiplier) > RADIUS_THRESHOLD).sum())
    return above


def _counts_as_coded(
    senders: int, runs: int, multiplier: float, rng: np.random.Generator
) -> Counts:
    moved = np.full(SMALL_TENSOR_SIZE, RADIUS_CLIP / math.sqrt(SMALL_TENSOR_SIZE))
    hits = _times_above(moved, senders, runs, multiplier, rng)
    alarms = _times_above(np.zeros(SMALL_TENSOR_SIZE), senders, runs, multiplier, rng)
    return Counts(alarms, runs, runs - hits, runs)


def _shown(what: str, value: float, claimed: float, counts: Counts, **fields: Any) -> Measurement:
    runs = counts.positives
    return shown(
        what,
        value,
        claimed,
        unit="user",
        neighbours="replace-one",
        sample={
            "runs of one update": runs,
            "runs of the other": counts.negatives,
            "called the one, and was": runs - counts.misses,
            "called the one, and was the other": counts.false_alarms,
        },
        **fields,
    )


TOLD: Final = "Updates that the claim says are alike are told apart by the size of their noise."
CONTROL: Final = "Nothing: with public radii the best test stays below what is proven, as it must."
DOUBLES: Final = "floats of 64 bits; in 32 the noise of a tensor that did not move is rounded away"
READ_ALONE: Final = "a peer sees the client's noisy update, not only a sum of several"


def _run(rng: np.random.Generator) -> Weakness:
    multiplier = published_classical_multiplier(RADIUS_EPSILON, RADIUS_ROUNDS)
    alone = _counts_as_coded(1, RADIUS_RUNS, multiplier, rng)
    summed = _counts_as_coded(SUMMED_PEERS, SUM_RUNS, multiplier, rng)
    # The controls: a peer knows its own noise in a sum, so the others' hides the client.
    others = SUMMED_PEERS - 1
    public = counts_of_public_radii(1, PUBLIC_RUNS, PUBLIC_THRESHOLD, multiplier, rng)
    public_sum = counts_of_public_radii(
        others, PUBLIC_SUM_RUNS, PUBLIC_SUM_THRESHOLD, multiplier, rng
    )
    epsilons = [
        _shown(
            what,
            epsilon_lower(counts, delta=DELTA),
            RADIUS_EPSILON,
            counts,
            delta=DELTA,
            observer=observer,
            proves=proves,
            assumes=assumes,
        )
        for what, counts, observer, proves, assumes in (
            (
                "adaptive noise of one tensor in one round of 20, moved by the clip or not at all",
                alone,
                "peer",
                TOLD,
                (READ_ALONE, DOUBLES),
            ),
            (
                f"the same in the sum of {SUMMED_PEERS} messages, no other tensor moved",
                summed,
                "model",
                TOLD,
                (DOUBLES,),
            ),
            (
                f"{RADIUS_ROUNDS} rounds of {PUBLIC_TENSORS} tensors, radii public",
                public,
                "peer",
                CONTROL,
                (READ_ALONE,),
            ),
            (
                f"the same in sums of {SUMMED_PEERS} messages, less the peer's own",
                public_sum,
                "peer",
                CONTROL,
                (),
            ),
        )
    ]
    delta = _shown(
        "adaptive noise of one tensor, at the claimed epsilon",
        delta_lower(alone, epsilon=RADIUS_EPSILON),
        DELTA,
        alone,
        quantity=f"delta at epsilon {RADIUS_EPSILON:g}",
        observer="peer",
        proves="At the claimed epsilon the claim fails nearly always, not once in 100,000 times.",
        assumes=(READ_ALONE, DOUBLES),
    )
    return Weakness(
        (*epsilons, delta),
        (
            exact_epsilon(DELTA),
            exact_epsilon(DELTA, SUMMED_PEERS),
            exact_public_epsilon(multiplier, 1, PUBLIC_THRESHOLD, DELTA),
            exact_public_epsilon(multiplier, others, PUBLIC_SUM_THRESHOLD, DELTA),
            1.0,
        ),
        (
            f"A client sent one tensor of {SMALL_TENSOR_SIZE} numbers, {RADIUS_RUNS:,} times as "
            f"it had moved by the clip and {RADIUS_RUNS:,} times as it had not moved, with DISCO's "
            f"noise for epsilon 10 over {RADIUS_ROUNDS} rounds.",
            f"A peer called the tensor moved where its noise, over the public {multiplier:.1f}, "
            f"exceeded {RADIUS_THRESHOLD:g}: {RADIUS_RUNS - alone.misses:,} and "
            f"{alone.false_alarms:,} times; of sums of {SUMMED_PEERS} messages, "
            f"{SUM_RUNS - summed.misses:,} and {summed.false_alarms:,} of {SUM_RUNS:,} times each.",
            "The radius is computed from the update that it is to hide, and scales the noise.",
            "Counting shows no more than the logarithm of the number of runs; by its formula the "
            "test's epsilon is beyond ten thousand million.",
            "Where all radii are public the best test shows less than what is proven, as it must: "
            "only the size of the noise gives the update away.",
        ),
    )


DEMO: Final = Demo(
    name="disco-radius",
    system="disco",
    title="DISCO's noise is scaled by the client's own update, so its size tells the update's.",
    claim="Every client's updates are (10, 1e-5)-differentially private against its peers.",
    rows=(
        "as coded: radii follow the updates",
        f"as coded, the sum of {SUMMED_PEERS} alone: radii follow the updates",
        "20 rounds, 6 tensors, public radii",
        f"20 rounds, 6 tensors, public radii, if only sums of {SUMMED_PEERS} are seen",
    ),
    run=_run,
)
"""The radius of DISCO's noise is private."""
