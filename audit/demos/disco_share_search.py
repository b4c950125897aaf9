"""The searches that break DISCO's float shares, made to run on shares in a ring as well.

    differences   of two tensors of a broadcast partial sum: unmasked where masks are alike
    last share    the likelihood of a secret under the last share: not flat where masks are bounded

Float shares are the control that gives the searches their power: a search that finds nothing in the
ring says something only where it finds everything in floats.  Shares in a ring are those of
`fl.crypto.additive`, drawn by the operating system, of all tensors end to end as one vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ...accountant.arrays import FloatArray, UInt64Array
from ..statistics import Counts
from .disco_shares import (
    DISCO_MAGNITUDE,
    SHARE_ROUNDING,
    published_partial_sums,
    published_shares,
)

if TYPE_CHECKING:
    from ...accountant.arrays import Float32Array

ShareKind = Literal["floats", "ring"]

RING_STEPS_PER_UNIT: Final = 2.0**27
"""Steps of the grid in a unit: a number in the ring is this many times itself, rounded."""


@dataclass(frozen=True)
class Differences:
    """Of all differences of two tensors in all broadcast sums: how many were those of secrets.

    `equal` of `numbers` lay within `SHARE_ROUNDING` of the difference of the two secrets, and
    `largest_error` is how far the worst was.
    """

    equal: int
    numbers: int
    largest_error: float


def ring_partial_sums(secrets: Sequence[Sequence[Float32Array]]) -> list[list[UInt64Array]]:
    """Return what every party would broadcast of its tensors' shares in Z_{2^64}, as words.

    `secrets[i]` are party i's tensors, which are one vector end to end.  Raises `MissingExtra`
    without cryptography.
    """
    from ...fl.crypto import additive

    parties = len(secrets)
    words = [_words(np.concatenate(list(tensors))) for tensors in secrets]
    sums, sent = [], []
    for vector in words:
        seeds, last = additive.share(vector, parties)
        sums.append(last)
        sent.append(seeds)
    # Seed j of party i goes to the j-th of the others; the last share stays.
    for to, total in enumerate(sums):
        seeds = [sent[i][to - (i < to)] for i in range(parties) if i != to]
        additive.add_expanded(total, seeds, sign=1)
    cuts = np.cumsum([len(tensor) for tensor in secrets[0]])[:-1]
    return [np.split(total, cuts) for total in sums]


def search_differences(
    kind: ShareKind, secrets: Sequence[Sequence[Float32Array]], rng: np.random.Generator
) -> Differences:
    """Look for differences of the first two tensors of each party in what it broadcasts.

    A party's partial sum is its secret under masks, its last share's and those it received.
    Where every tensor has the same masks, they cancel in a difference.  The second tensor is no
    longer than the first.
    """
    errors = []
    for shown, (first, second) in zip(_differences(kind, secrets, rng), secrets, strict=True):
        known = first[: len(second)].astype(np.float64) - second
        errors.append(np.abs(shown - known))
    error = np.concatenate(errors)
    return Differences(int((error < SHARE_ROUNDING).sum()), error.size, float(error.max()))


def _differences(
    kind: ShareKind, secrets: Sequence[Sequence[Float32Array]], rng: np.random.Generator
) -> list[FloatArray]:
    if kind == "floats":
        broadcast = published_partial_sums(secrets, rng)[0]
        return [first[: len(second)].astype(np.float64) - second for first, second in broadcast]
    # Words are subtracted modulo 2^64, where masks that were alike would cancel.
    return [_numbers(first[: len(second)] - second) for first, second in ring_partial_sums(secrets)]


def search_last_shares(
    kind: ShareKind, size: int, distance: float, runs: int, rng: np.random.Generator
) -> Counts:
    """Return how often the last of three shares tells two secrets of `size` numbers apart.

    The secrets are `distance` apart in norm, evenly spread; `runs` with each.  The score is the
    log-likelihood ratio of DISCO's two masks, whose sum has the density (2 M - |x|) / (2 M)^2, with
    all numbers folded into [-2 M, 2 M): of uniform words both secrets have the same law of scores,
    symmetric about 0, and half are called either.
    """
    shift = distance / math.sqrt(size)
    hits, alarms = (
        sum(_score(_last_share(kind, size, truth, rng), shift) > 0.0 for _ in range(runs))
        for truth in (shift, 0.0)
    )
    return Counts(alarms, runs, runs - hits, runs)


def _score(seen: FloatArray, shift: float) -> float:
    # Beyond rounding of the edge, where the density is 0, a logarithm says nothing.
    on, off = (
        np.log(np.maximum(2.0 * DISCO_MAGNITUDE - np.abs(_folded(seen - by)), SHARE_ROUNDING))
        for by in (shift, 0.0)
    )
    return float((on - off).sum())


def _folded(numbers: FloatArray) -> FloatArray:
    edge = 2.0 * DISCO_MAGNITUDE
    return np.asarray((numbers + edge) % (2.0 * edge) - edge)


def _last_share(kind: ShareKind, size: int, truth: float, rng: np.random.Generator) -> FloatArray:
    secret = np.full(size, truth, np.float32)
    if kind == "floats":
        return published_shares([secret], 3, rng)[-1][0].astype(np.float64)
    from ...fl.crypto import additive

    return _numbers(additive.share(_words(secret), 3)[1])


def _words(tensor: Float32Array) -> UInt64Array:
    steps = np.rint(tensor.astype(np.float64) * RING_STEPS_PER_UNIT)
    return steps.astype(np.int64).view(np.uint64)


def _numbers(words: UInt64Array) -> FloatArray:
    return np.asarray(words.view(np.int64) / RING_STEPS_PER_UNIT)
