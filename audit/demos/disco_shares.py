"""DISCO's float shares: bounded, never reduced, and alike for every tensor.

A client splits a tensor s into n - 1 shares U, uniform in [-M, M), and a last one, s - sum U.  The
text says that s is independent of any strict subset of the shares (and, further down, that somebody
may find an interval of width 2M around it).  It is not:

    n = 2    the last share leaves [s - M, s + M] for no other secret: total variation distance
             1 - (1 - D / 2M)^d of two secrets that are D apart in each of d places
    n > 2    a sum of uniform numbers has a density, and its logarithm tells secrets apart

Each client adds up what it received and broadcasts that partial sum.  Its own last share is in it,
under the n - 1 shares of others; a peer takes off what it sent and what it received, and 2 (n - 2)
masks are left, or none for n = 2.  And a share starts its generator from one seed for every tensor,
so the difference of two tensors of a partial sum has no mask at all.

Source: epfml/disco, `discojs/src/privacy.ts`, `aggregator/secure.ts` and docs/PRIVACY.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.arrays import FloatArray
from ..measurement import Measurement
from ..statistics import Counts
from .counting import delta_lower
from .demo import Demo, Weakness, shown

if TYPE_CHECKING:
    from ...accountant.arrays import Float32Array

DISCO_MAGNITUDE: Final = 100.0
"""M."""
DISCO_SEED_BITS: Final = 47

TENSOR_SIZE: Final = 4096
"""Numbers in a tensor: 64 x 64."""

DISTANCE: Final = 100.0
"""Norm of the difference of two updates, for three parties and more."""

LARGE_TENSOR_SIZE: Final = 2**16
TWO_PARTY_DISTANCE: Final = 4.0
"""For two parties: the numbers in a tensor, and the norm of the difference, evenly spread."""

SHARE_RUNS: Final = 400
CERTAIN_SHARE_RUNS: Final = 200
"""With each of two updates: where they are told apart by chance, and nearly always."""

SHARE_ROUNDING: Final = 1e-4
"""More than float32 loses of a sum of shares, and less than what is told apart."""


def published_shares(
    tensors: Sequence[Float32Array], parties: int, rng: np.random.Generator
) -> list[list[Float32Array]]:
    """Return one party's shares, the last one last: **no-guarantee**, for study.

    Raises `MissingExtra` without cryptography.
    """
    from ...fl.crypto.additive import no_guarantee_float_shares

    seeds = [int(seed) for seed in rng.integers(2**DISCO_SEED_BITS, size=parties - 1)]
    return no_guarantee_float_shares(tensors, parties, seeds=seeds, magnitude=DISCO_MAGNITUDE)


def published_partial_sums(
    secrets: Sequence[Sequence[Float32Array]], rng: np.random.Generator
) -> tuple[list[list[Float32Array]], list[list[list[Float32Array]]]]:
    """Return what every party of DISCO broadcasts, and the shares: **no-guarantee**, for study.

    `secrets[i]` are party i's tensors.  `shares[i][j]` is what i sent to j; i keeps the last of its
    shares, secret minus masks, for itself, as the program does in groups of at most 8.
    """
    parties = len(secrets)
    shares = []
    for party, tensors in enumerate(secrets):
        rows = published_shares(tensors, parties, rng)
        # The party keeps the last share, secret minus masks, in its own position.
        shares.append([*rows[:party], rows[-1], *rows[party:-1]])
    sums = [
        [
            _added([shares[sender][to][index] for sender in range(parties)])
            for index in range(len(secrets[to]))
        ]
        for to in range(parties)
    ]
    return sums, shares


def seen_by_peer(
    sums: Sequence[Sequence[Float32Array]],
    shares: Sequence[Sequence[Sequence[Float32Array]]],
    *,
    target: int,
    peer: int,
) -> list[Float32Array]:
    """Return the target's tensors under the 2 (n - 2) masks that this peer does not know."""
    received, sent = shares[target][peer], shares[peer][target]
    return [
        total + kept - known
        for total, kept, known in zip(sums[target], received, sent, strict=True)
    ]


def log_ratio(
    seen: FloatArray, shift: float, masks: int, magnitude: float = DISCO_MAGNITUDE
) -> float:
    """Return the log-likelihood ratio of "all shifted by `shift`" and "not shifted".

    `seen` is a secret, minus the secret it might be, under the sum of `masks` uniform masks.
    """
    # -inf where a hypothesis has density 0: one number outside the range settles it.
    with np.errstate(divide="ignore"):
        on = np.log(_density(seen - shift, masks, magnitude))
        off = np.log(_density(seen, masks, magnitude))
    both = np.isneginf(on) & np.isneginf(off)  # rounding: says nothing
    return float(np.where(both, 0.0, on - np.where(both, 0.0, off)).sum())


def exact_advantage(
    masks: int, shift: float, size: int, magnitude: float = DISCO_MAGNITUDE
) -> float:
    """Return P[ratio > 1 | shifted] - P[ratio > 1 | not], of `size` numbers: the best of all tests.

    One mask: 1 - (1 - shift / 2M)^size.  More: by numerical inversion of the characteristic
    function (Gil-Pelaez 1951) of the ratio where it is finite, to about 1e-3.
    """
    if masks == 1:
        return -math.expm1(size * math.log1p(-shift / (2.0 * magnitude)))
    # A grid over the sum of `masks` uniform numbers, whose densities are B-splines.
    edge = masks * magnitude
    step = 2.0 * edge / 8_000
    places = np.arange(shift - edge + step / 2.0, edge, step)
    on, off = _density(places - shift, masks, magnitude), _density(places, masks, magnitude)
    ratio = np.log(on) - np.log(off)
    spread = math.sqrt(size * float((on * ratio**2).sum()) * step)
    times = (np.arange(160) + 0.5) * (8.0 / spread / 160)
    above = []
    for density in (on, off):
        # Gil-Pelaez: P[sum > 0] = mass / 2 + (1 / pi) int Im(phi(t)^size) / t dt.
        waves = np.exp(1j * np.outer(times, ratio)) @ density * step
        whole = (density.sum() * step) ** size
        inner = float((np.imag(waves**size) / times).sum() * (times[1] - times[0]))
        above.append(whole / 2.0 + inner / math.pi)
    # Where a number falls outside the other hypothesis' support the two are told for certain.
    outside = 1.0 - (on.sum() * step) ** size
    return float(outside + above[0] - above[1])


def _density(x: FloatArray, masks: int, magnitude: float) -> FloatArray:
    """Return the density of a sum of uniform numbers in [-M, M): a B-spline."""
    from scipy.interpolate import BSpline

    spline = BSpline.basis_element(np.arange(masks + 1.0) - masks / 2.0, extrapolate=False)
    # A rounding error may leave a trifle below 0 at the ends.
    return np.maximum(np.nan_to_num(spline(x / (2.0 * magnitude))), 0.0) / (2.0 * magnitude)


def _added(parts: Sequence[Float32Array]) -> Float32Array:
    return np.asarray(np.sum(parts, axis=0, dtype=np.float32))


def _weights(size: int, rng: np.random.Generator) -> Float32Array:
    return rng.normal(0.0, 0.05, size).astype(np.float32)


# --- one run of each, and whether the attacker calls the secret shifted ---------------------------


def _two_parties(shift: float, rng: np.random.Generator) -> bool:
    known = _weights(LARGE_TENSOR_SIZE, rng)
    secret = known + np.float32(shift)
    last = published_shares([secret], 2, rng)[-1][0]
    far = np.abs(last.astype(np.float64) - known).max()
    return bool(far > DISCO_MAGNITUDE + SHARE_ROUNDING)


def _last_share(parties: int, shift: float, truth: float, rng: np.random.Generator) -> bool:
    known = _weights(TENSOR_SIZE, rng)
    secret = known + np.float32(truth)
    last = published_shares([secret], parties, rng)[-1][0]
    return log_ratio(last.astype(np.float64) - known, shift, parties - 1) > 0.0


def _as_coded(parties: int, shift: float, truth: float, rng: np.random.Generator) -> bool:
    secrets = [[_weights(TENSOR_SIZE, rng)] for _ in range(parties)]
    known = secrets[0][0]
    secrets[0] = [known + np.float32(truth)]
    seen = seen_by_peer(*published_partial_sums(secrets, rng), target=0, peer=1)[0]
    return log_ratio(seen.astype(np.float64) - known, shift, 2 * (parties - 2)) > 0.0


def _two_tensors(parties: int, shift: float, truth: float, rng: np.random.Generator) -> bool:
    """Only broadcast sums are looked at; one number of one tensor moved by `truth`."""
    secrets = [[_weights(64, rng), _weights(32, rng)] for _ in range(parties)]
    known = float(secrets[0][0][0]) - float(secrets[0][1][0])
    secrets[0][0][0] += np.float32(truth)
    first, second = published_partial_sums(secrets, rng)[0][0]
    return float(first[0]) - float(second[0]) - known > shift / 2.0


def _measured(what: str, hits: int, alarms: int, runs: int, proves: str) -> Measurement:
    return shown(
        what,
        delta_lower(Counts(alarms, runs, runs - hits, runs), epsilon=0.0),
        0.0,
        quantity="advantage",
        proves=proves,
        observer="peer",
        unit="user",
        neighbours="replace-one",
        assumes=("the masks come from a sound generator",),
        sample={
            "runs of one update": runs,
            "runs of the other": runs,
            "called the one, and was": hits,
            "called the one, and was the other": alarms,
        },
    )


PROVES_OF_SHARES: Final = "A strict subset of the shares depends on the update that was shared."
PROVES_OF_BROADCASTS: Final = (
    "What every peer of a group is sent depends on more than the sum of the updates."
)


def _run(rng: np.random.Generator) -> Weakness:
    spread, shift, tiny = (
        TWO_PARTY_DISTANCE / math.sqrt(LARGE_TENSOR_SIZE),
        DISTANCE / math.sqrt(TENSOR_SIZE),
        0.01,
    )
    measured: list[Measurement] = []
    exact: list[float] = []

    hits = sum(_two_parties(spread, rng) for _ in range(CERTAIN_SHARE_RUNS))
    alarms = sum(_two_parties(0.0, rng) for _ in range(CERTAIN_SHARE_RUNS))
    what = (
        f"2 parties, the last share, updates {TWO_PARTY_DISTANCE:g} apart in "
        f"{LARGE_TENSOR_SIZE:,} numbers"
    )
    measured.append(_measured(what, hits, alarms, CERTAIN_SHARE_RUNS, PROVES_OF_SHARES))
    exact.append(exact_advantage(1, spread - SHARE_ROUNDING, LARGE_TENSOR_SIZE))

    for parties in (3, 4, 5):
        hits = sum(_last_share(parties, shift, shift, rng) for _ in range(SHARE_RUNS))
        alarms = sum(_last_share(parties, shift, 0.0, rng) for _ in range(SHARE_RUNS))
        what = (
            f"{parties} parties, the last share, updates {DISTANCE:g} apart in {TENSOR_SIZE:,} "
            "numbers"
        )
        measured.append(_measured(what, hits, alarms, SHARE_RUNS, PROVES_OF_SHARES))
        exact.append(exact_advantage(parties - 1, shift, TENSOR_SIZE))

    hits = sum(_as_coded(5, shift, shift, rng) for _ in range(SHARE_RUNS))
    alarms = sum(_as_coded(5, shift, 0.0, rng) for _ in range(SHARE_RUNS))
    what = f"5 parties, what a peer is sent, updates {DISTANCE:g} apart in {TENSOR_SIZE:,} numbers"
    measured.append(_measured(what, hits, alarms, SHARE_RUNS, PROVES_OF_BROADCASTS))
    exact.append(exact_advantage(6, shift, TENSOR_SIZE))

    hits = sum(_two_tensors(5, tiny, tiny, rng) for _ in range(CERTAIN_SHARE_RUNS))
    alarms = sum(_two_tensors(5, tiny, 0.0, rng) for _ in range(CERTAIN_SHARE_RUNS))
    what = f"5 parties, two tensors of a partial sum, one number {tiny:g} larger"
    measured.append(_measured(what, hits, alarms, CERTAIN_SHARE_RUNS, PROVES_OF_BROADCASTS))
    exact.append(1.0)
    return Weakness(
        tuple(measured),
        tuple(exact),
        (
            "Parties split two updates that the attacker knows as candidates, and it said which "
            "one was shared; an advantage of 0 is a coin, and 1 is certainty.",
            "Shares are floats in [-100, 100): between two parties the last share leaves that "
            "range around one candidate; among more it has a density, and its logarithm tells.",
            "All masks of a party start from one seed for every tensor, so the difference of two "
            "tensors of a broadcast sum is unmasked; in groups of at most 8 every peer reads it.",
            "Independence would be an advantage of 0, whatever the update.",
        ),
    )


DEMO: Final = Demo(
    name="disco-shares",
    system="disco",
    title="DISCO's float shares depend on the secret, and all tensors have the same masks.",
    claim="A client's update is independent of any strict subset of its additive shares.",
    rows=(),
    run=_run,
)
"""DISCO's shares do not hide what they share."""
