"""Additive shares of a vector: all of them together give it, any fewer say nothing.

In Z_{2^64} a vector x of D words becomes n - 1 seeds and one full share:

    last = x - sum_i expand(seed_i)    (mod 2^64)

so that n - 1 of the n parties receive 32 bytes instead of 8 D.  Whoever lacks one seed, or the
last share, has what cannot be told from uniform words, as long as AES-128 in counter mode cannot
be told from random: computationally hidden, where shares drawn in full would hide perfectly.

`no_guarantee_float_shares` is DISCO's form, for study: it hides nothing that it should.

`WholeRing` puts numbers into Z_{2^64} as they are.  `FixedPoint` refuses one that could make a sum
wrap around, and a refusal tells something of that number.  Where nothing may be told, as of sums of
private records that have a meaning modulo 2^64, every word is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np

from ...accountant import validate
from ...accountant.arrays import Float32Array, IntArray, UInt64Array
from ...accountant.errors import InvalidInput
from ...accountant.randomness import Secret
from . import masks
from .keys import KEY_BYTES, derive, fresh
from .masks import RingWords


@dataclass(frozen=True)
class WholeRing:
    """How `terms` vectors of int64 travel and are summed modulo 2^64; as `FixedPoint`, unbounded.

    >>> ring = WholeRing(terms=2)
    >>> words = ring.to_ring(np.array([2**63 - 1, -5]))
    >>> ring.from_ring(words + words).tolist()
    [-2, -10]
    """

    terms: int
    step: ClassVar[float] = 1.0
    bound: ClassVar[float] = 2.0**63
    modulus: ClassVar[int] = 2**64
    bytes_needed: ClassVar[int] = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", validate.count(terms=self.terms))

    def to_ring(self, steps: IntArray) -> RingWords:
        """Return integers as fresh words, negative ones from the top of the ring.

        Raises `InvalidInput` for what is no vector of int64, whatever its values are.
        """
        if not isinstance(steps, np.ndarray) or steps.dtype != np.int64 or steps.ndim != 1:
            raise InvalidInput("Steps must be a vector of int64.")
        words: RingWords = steps.astype(np.uint64)
        return words

    def from_ring(self, words: RingWords) -> IntArray:
        """Return the integers that words stand for, from -2^63 to 2^63 - 1: shape (D,)."""
        if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 1:
            raise InvalidInput("Words must be a vector of this ring's type.")
        return words.astype(np.int64)


SEED_BYTES: Final = KEY_BYTES

_SESSION: Final = b"additive share"
_LABEL: Final = b"seed"

DISCO_MAGNITUDE: Final = 100.0
"""M of DISCO's shares, uniform in [-M, M)."""

DISCO_SEED_BITS: Final = 47


def share(words: UInt64Array, parties: int) -> tuple[list[Secret], UInt64Array]:
    """Return `parties` - 1 fresh seeds and the last share, (D,) of uint64: see the module.

    `parties` is 2 or above.  Several tensors are one vector, end to end: each call draws new
    seeds, and a seed is never used for two vectors.  Raises `InvalidInput` for other arrays.

    >>> seeds, last = share(np.arange(4, dtype=np.uint64), 3)
    >>> (last + sum(expand(seed, 4) for seed in seeds)).tolist()
    [0, 1, 2, 3]
    """
    if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 1:
        raise InvalidInput("`words` must be a vector of uint64.", "Shares live modulo 2^64.")
    seeds = [fresh(SEED_BYTES) for _ in range(validate.count_from(2, parties=parties) - 1)]
    last = np.array(words, order="C")
    add_expanded(last, seeds, sign=-1)
    return seeds, last


def expand(seed: bytes, count: int) -> UInt64Array:
    """Return the share that a seed stands for: `count` words.  `InvalidInput` for other lengths."""
    out = np.zeros(validate.count_from(0, count=count), np.uint64)
    add_expanded(out, [seed], sign=1)
    return out


def add_expanded(words: UInt64Array, seeds: Sequence[bytes], *, sign: Literal[1, -1]) -> None:
    """Add (`sign` 1) or subtract (-1) the shares of some seeds, in place.

    Raises `InvalidInput` for other arrays than vectors of uint64, other signs and other lengths.
    """
    if not isinstance(words, np.ndarray) or words.dtype != np.uint64:
        raise InvalidInput("`words` must be a vector of uint64.", "Shares live modulo 2^64.")
    if any(len(seed) != SEED_BYTES for seed in seeds):
        raise InvalidInput(f"A seed must have {SEED_BYTES} bytes.")
    masks.masks_into(
        words,
        [masks.Mask(seed, _LABEL, sign) for seed in seeds],
        session=_SESSION,
        round=0,
    )


def no_guarantee_float_shares(
    tensors: Sequence[Float32Array],
    parties: int,
    *,
    seeds: Sequence[int] | None = None,
    magnitude: float = DISCO_MAGNITUDE,
) -> list[list[Float32Array]]:
    """Return DISCO's float shares of some tensors, as published: **no-guarantee**, for study.

    Row i of the result is the share of party i: one float32 tensor for each of `tensors` (1-D).
    The first `parties` - 1 are uniform in [-M, M), the last is the secret minus their sum.  It
    gives away, to who sees one share or partial sum:

    - the difference of any two tensors, exactly: each share starts its generator from *one* seed
      (of 47 bits) for every tensor, so all tensors have the same masks;
    - about every single number: masks are bounded and numbers are not reduced, so a share beyond
      M, or how often it comes near, says what the secret was.

    `seeds` fixes the shares' seeds (47 bits each), for replication.  The generator here is a
    sound one instead of DISCO's `alea`: neither leak is its fault.
    Source: epfml/disco, `discojs/src/privacy.ts` and `aggregator/secure.ts`, 2024.
    """
    others = validate.count_from(2, parties=parties) - 1
    magnitude_bound = validate.positive(magnitude=magnitude)
    if seeds is None:
        seeds = [int.from_bytes(fresh(6), "little") % 2**DISCO_SEED_BITS for _ in range(others)]
    if len(seeds) != others:
        raise InvalidInput("There must be one seed fewer than parties.")
    secrets = [np.asarray(tensor, np.float32) for tensor in tensors]
    drawn = [[_uniform(seed, len(tensor), magnitude_bound) for tensor in secrets] for seed in seeds]
    last = [
        tensor - np.sum([row[index] for row in drawn], axis=0, dtype=np.float32)
        for index, tensor in enumerate(secrets)
    ]
    return [*drawn, last]


def _uniform(seed: int, count: int, magnitude: float) -> Float32Array:
    """Return `count` floats in [-M, M]: a longer draw from one seed begins with a shorter one."""
    key = derive(b"disco float share" + seed.to_bytes(8, "little"), b"seed")
    block = 1 << 12
    words = np.concatenate(
        [
            masks.words(key, block, session=_SESSION, round=number, label=b"floats")
            for number in range(-(-count // block))
        ]
        or [np.empty(0, np.uint64)]
    )[:count]
    # The 53 high bits of each word as a fraction in [0, 1), stretched to [-M, M].
    unit = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (magnitude * (2.0 * unit - 1.0)).astype(np.float32)
