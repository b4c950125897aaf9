"""ULDP-NAIVE: the missing factor 2 of Theorem 3.

    silo s:  D_s = clip_C(x_s - x) + N(0, sigma^2 C^2 |S|)
    server:  x + eta / |S| sum_s D_s

For a linear loss -z.x a silo's update is the sum of its users' pulls.  Let the others in each silo
pull by -M and the user by +2M, M far above C: every silo's clipped update is +C with the user and
-C without, in every round.  The sum moves by 2C |S|, the noise is made for C |S|.  Whoever sees the
models adds up their steps, over sigma C sqrt(T): N(+sqrt(T)/sigma, 1) against N(-sqrt(T)/sigma, 1).
So mu = 2 sqrt(T) / sigma, twice what the theorem counts.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Algorithm 1 and
Theorem 3.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ...accountant import rounding
from ...accountant.arrays import FloatArray
from ...accountant.claims.uldp_fl import DELTA, NOISE, published_user_epsilon
from ...accountant.sensitivity import uldp
from ..statistics import Counts, epsilon_lower, gdp_epsilon, mu_lower
from .demo import Demo, Weakness, shown

NAIVE_SILOS: Final = 5
NAIVE_CLIP: Final = 0.1
LOCAL_RATE: Final = 0.01
LOCAL_EPOCHS: Final = 50
"""Of local training, full batch."""
PULL: Final = 10.0
"""M: a silo that nobody clips would move by rate x epochs x M, 50 clips."""

NAIVE_ROUNDS: Final = 100
NAIVE_RUNS: Final = 20_000
SHORT_ROUNDS: Final = 20
SHORT_RUNS: Final = 200_000
"""Runs of 20 rounds, with as many more of them: enough to count without assuming a distribution."""

RUNS_AT_ONCE: Final = 20_000


def local_updates(pulls: FloatArray) -> FloatArray:
    """Return x_s - x of a silo whose users' losses are -z.x, from the sum of the z (.., d)."""
    return np.asarray(LOCAL_RATE * LOCAL_EPOCHS * pulls)


def published_naive_round(
    updates: FloatArray,
    rng: np.random.Generator,
    *,
    noise_multiplier: float,
    clip: float = NAIVE_CLIP,
    factor: float = 1.0,
) -> FloatArray:
    """Return the step of the model, sum_s D_s / |S|, as published: **no-guarantee**, for study.

    `updates` is (.., silos, d), before the clip; the result (.., d).  `factor` multiplies the
    noise: 2 is what a user's removal needs.  `rng` is a simulation's: it protects nobody.
    """
    silos = updates.shape[-2]
    norms = np.linalg.norm(updates, axis=-1, keepdims=True)
    clipped = updates * (clip / np.maximum(norms, clip))
    # Each silo adds 1 / |S| of the total variance, as the theorem sizes it for one clip.
    total = factor * noise_multiplier * uldp.naive_sensitivity_as_published(clip, silos)
    noise = rng.standard_normal(updates.shape) * (total / math.sqrt(silos))
    return np.asarray((clipped + noise).sum(axis=-2) / silos)


def scores(
    present: bool, runs: int, rounds: int, rng: np.random.Generator, *, factor: float = 1.0
) -> FloatArray:
    """Return sum_t (x_{t+1} - x_t) / (sigma C sqrt(T)) of whole runs, with the user or without."""
    # The others pull by -M, the user by +2M: clipped, the silo moves by +C or -C.
    pulls = -PULL + (2.0 * PULL if present else 0.0)
    parts = []
    for first in range(0, runs, RUNS_AT_ONCE):
        size = min(RUNS_AT_ONCE, runs - first)
        updates = np.broadcast_to(local_updates(np.array([pulls])), (size, NAIVE_SILOS, 1))
        total = np.zeros((size, 1))
        for _ in range(rounds):
            total += published_naive_round(updates, rng, noise_multiplier=NOISE, factor=factor)
        parts.append(total[:, 0] / (NOISE * NAIVE_CLIP * math.sqrt(rounds)))
    return np.concatenate(parts)


def counted(runs: int, rounds: int, threshold: float, rng: np.random.Generator) -> Counts:
    """Return how often the score exceeds a threshold, with the user and without."""
    hits = int((scores(True, runs, rounds, rng) > threshold).sum())
    alarms = int((scores(False, runs, rounds, rng) > threshold).sum())
    return Counts(alarms, runs, runs - hits, runs)


def exact_mu(rounds: int) -> float:
    """Return mu of the published run, 2 sqrt(T) / sigma."""
    return 2.0 * math.sqrt(rounds) / NOISE


def short_threshold() -> float:
    """Return where 200,000 runs of 20 rounds are expected to show most: about two false alarms."""
    from scipy.special import ndtri

    return -float(ndtri(2.0 / SHORT_RUNS)) - exact_mu(SHORT_ROUNDS) / 2.0


def _sample(counts: Counts) -> dict[str, int]:
    return {
        "runs with the user": counts.positives,
        "runs without": counts.negatives,
        "above the threshold, with": counts.hits,
        "above the threshold, without": counts.false_alarms,
    }


def _run(rng: np.random.Generator) -> Weakness:
    full = counted(NAIVE_RUNS, NAIVE_ROUNDS, 0.0, rng)
    threshold = short_threshold()
    short = counted(SHORT_RUNS, SHORT_ROUNDS, threshold, rng)
    mu = mu_lower(full)
    about: dict[str, Any] = {
        "observer": "model",
        "unit": "user",
        "neighbours": "add-remove",
        "delta": DELTA,
    }
    claimed = published_user_epsilon(NAIVE_ROUNDS)
    epsilon = shown(
        "steps of the model over 100 rounds, a user present or absent in all five silos",
        gdp_epsilon(mu, DELTA),
        claimed,
        proves="A user's presence is told with more certainty than the claimed noise allows.",
        assumes=("the noise is Gaussian, as the published algorithm draws it",),
        sample={**_sample(full), "mu at least": float(rounding.down(mu))},
        **about,
    )
    by_counts = shown(
        "the same over 20 rounds, by counts alone",
        epsilon_lower(short, delta=DELTA),
        published_user_epsilon(SHORT_ROUNDS),
        proves="The published epsilon for 20 rounds is exceeded, whatever the noise's law is.",
        sample=_sample(short),
        **about,
    )
    p, q = _rates(threshold)
    return Weakness(
        (epsilon, by_counts),
        (gdp_epsilon(exact_mu(NAIVE_ROUNDS), DELTA), math.log((p - DELTA) / q)),
        (
            "In each of five silos the other users pull the model one way and one user pulls it "
            "twice as far the other way: with that user every silo's clipped update is +C, without "
            "-C.",
            f"{NAIVE_RUNS:,} runs of {NAIVE_ROUNDS} rounds were made of each, with the published "
            "noise, and "
            "told apart by the sum of the model's steps.",
            f"The theorem lets the update move by C, so mu = {exact_mu(NAIVE_ROUNDS) / 2:g}; it "
            "moves by "
            f"2C, mu = {exact_mu(NAIVE_ROUNDS):g}, and at least "
            f"{rounding.down(mu)} was measured.",
            "Noise made for 2C would be twice as large, and the claim would hold.",
        ),
    )


def _rates(threshold: float) -> tuple[float, float]:
    from scipy.special import ndtr

    half = exact_mu(SHORT_ROUNDS) / 2.0
    return float(ndtr(half - threshold)), float(ndtr(-half - threshold))


DEMO: Final = Demo(
    name="naive-factor",
    system="uldp-fl",
    title="ULDP-NAIVE's noise is made for half of what a user can move.",
    claim="100 rounds with noise multiplier 5 are (10.73, 1e-5)-differentially private by user.",
    rows=("Theorem 3: NAIVE, 100 rounds",),
    run=_run,
)
"""Theorem 3 of Uldp-FL misses a factor of 2."""
