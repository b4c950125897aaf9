"""Masked vectors as the server receives them: are they uniform, and does a mask come twice?

A masked vector is uniform in its ring, and so is the difference of two that were masked afresh.
Plain updates are small against the ring: where a vector, or a difference, is near zero far too
often, the mask is missing, or was the same in both.  The share of what is near zero has an exact
distribution; the chi-square tests next to it are asymptotic, with at least 20 expected in each cell
(by simulation, their false alarms are within about 15% of what is stated at 1e-4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant.arrays import BoolArray, IntArray, UInt64Array
from ...accountant.errors import InvalidInput
from .finding import FALSE_ALARM, Finding, Vector, finding_from, top_words

NEAR_ZERO_BITS: Final = (4, 10, 20, 30)
"""Near zero: within 2^-bits of the ring's size."""

MAX_LAGGED_VALUES: Final = 4096


def unmasked(
    vectors: Mapping[str, Vector], modulus: int, *, false_alarm: float = FALSE_ALARM
) -> Finding:
    """Look for values that are not uniform in [0, `modulus`), each vector and all together.

    `vectors` holds what one party received, by a label.  Tested: how many are near zero (exact),
    and chi-square of the highest and the lowest bits.
    """
    # The top 64 bits of each residue, scaled so that every ring looks like Z_{2^64}.
    tops = {label: top_words(vector, modulus) for label, vector in vectors.items()}
    lows = {label: _low_bits(vector) for label, vector in vectors.items()}
    if len(vectors) > 1:
        tops["all"] = np.concatenate(list(tops.values()))
        lows["all"] = np.concatenate(list(lows.values()))
    p_values = {
        label: _bonferroni(
            _near_zero_p(top),
            _chi_square_p(top >> np.uint64(56)),
            _chi_square_p(lows[label], modulus),
        )
        for label, top in tops.items()
    }
    # Null: all values are uniform.  Bonferroni over vectors: the p-value errs upwards.
    worst = len(p_values) * min(p_values.values(), default=1.0)
    return finding_from(
        "unmasked",
        worst,
        false_alarm,
        "Values that a party received are not uniform in their ring: a mask is missing or weak.",
        f"{sum(len(vector) for vector in vectors.values())} values look uniform in their ring.",
        tuple(label for label, p in p_values.items() if len(p_values) * p <= false_alarm),
    )


def reused_masks(
    vectors: Mapping[str, Vector],
    modulus: int,
    *,
    blocks: Mapping[str, tuple[int, int]] | None = None,
    false_alarm: float = FALSE_ALARM,
) -> Finding:
    """Look for a mask that was used twice: over rounds, by two parties, or for two tensors.

    `vectors` holds masked vectors by a label (a party and round).  `blocks` names where in a
    vector each tensor lies, (first, last + 1); without it, a vector of up to 4,096 values is
    compared with itself at every distance.  A difference that is near zero too often means that
    both have the same mask.

    Where the masks of several pairs add up, only a mask that is the same as a whole is seen.
    """
    parts = {label: top_words(vector, modulus) for label, vector in vectors.items()}
    if blocks:
        parts = {
            f"{label}/{name}": words[first:last]
            for label, words in parts.items()
            for name, (first, last) in blocks.items()
        }
    p_values = dict(_difference_p_values(parts))
    if not blocks:
        for label, words in parts.items():
            if 16 <= len(words) <= MAX_LAGGED_VALUES:
                p_values[f"{label}, with itself"] = _self_difference_p(words)
    # Null: all masks are independent and uniform, so every difference is uniform.
    worst = len(p_values) * min(p_values.values(), default=1.0)
    return finding_from(
        "reused-masks",
        worst,
        false_alarm,
        "Two masked vectors differ by far too little: they have the same mask.",
        f"{len(p_values)} differences of masked vectors look uniform.",
        tuple(label for label, p in p_values.items() if len(p_values) * p <= false_alarm),
    )


def reused_keystream(hidden: Mapping[str, bytes], *, false_alarm: float = FALSE_ALARM) -> Finding:
    """Look for byte strings that were hidden under the same key: their xor has too few ones.

    `hidden` holds ciphertexts, or seeds under a key, by a label.  Over the common length, counted
    from the front and from the back: the number of ones in the xor, and the longest run of equal
    bytes.  Both distributions are exact.
    """
    p_values: dict[str, float] = {}
    for (label, first), (other_label, second) in combinations(hidden.items(), 2):
        length = min(len(first), len(second))
        if length:
            p_values[f"{label} and {other_label}"] = _bonferroni(
                _xor_p(first[:length], second[:length]), _xor_p(first[-length:], second[-length:])
            )
    # Null: independent keystreams, so every xor is uniform.
    worst = len(p_values) * min(p_values.values(), default=1.0)
    return finding_from(
        "reused-keystream",
        worst,
        false_alarm,
        "Two hidden values differ in far too few bits: one key hid both, or they are equal.",
        f"{len(p_values)} pairs of hidden values are as different as random ones.",
        tuple(label for label, p in p_values.items() if len(p_values) * p <= false_alarm),
    )


# --- p-values -------------------------------------------------------------------------------------


def _bonferroni(*p_values: float) -> float:
    return min(1.0, len(p_values) * min(p_values))


def _near_zero_p(words: UInt64Array) -> float:
    """Return a p-value for how many words, uniform in Z_{2^64}, are near zero."""
    return _binomial_p(_near_zero_counts(words), len(words))


def _near_zero_counts(words: UInt64Array) -> list[int]:
    """Return how many words are near zero, by every measure of it; the ring wraps around."""
    # min(w, 2^64 - w): unsigned subtraction wraps around as the ring does.
    distance = np.minimum(words, np.uint64(0) - words)
    return [int((distance < np.uint64(1 << (64 - bits))).sum()) for bits in NEAR_ZERO_BITS]


def _binomial_p(counted: ArrayLike, size: ArrayLike) -> float:
    """Return a p-value for numbers of words near zero, (.., measures), of `size` words (..)."""
    from scipy.stats import binom

    observed = np.asarray(counted)
    if not observed.size:
        return 1.0
    # P[within 2^-bits of 0, on either side] = 2^(1 - bits); binomial tails, (.., measures).
    chances = [2.0 ** (1 - bits) for bits in NEAR_ZERO_BITS]
    p_values = np.asarray(binom.sf(observed - 1, np.asarray(size)[..., None], chances))
    return min(1.0, observed.size * float(p_values.min()))


def _chi_square_p(bytes_of: UInt64Array, modulus: int = 0) -> float:
    """Return a p-value for the uniformity of values in [0, 256): chi-square over few enough cells.

    A modulus that is no multiple of 256 must be so large that this makes no difference.
    """
    from scipy.stats import chisquare

    if modulus and modulus % 256 and modulus < 2**64:
        return 1.0
    # At least 20 values expected in each cell, or the chi-square law does not hold.
    room = len(bytes_of) // 20
    if room < 2:
        return 1.0
    bits = min(8, room.bit_length() - 1)
    shift = np.uint64(0 if modulus else 8 - bits)
    counted = np.bincount(
        ((bytes_of >> shift) & np.uint64(2**bits - 1)).astype(np.int64), minlength=2**bits
    )
    return float(chisquare(counted).pvalue)


def _low_bits(vector: Vector) -> UInt64Array:
    if isinstance(vector, np.ndarray):
        return np.asarray(vector.astype(np.uint64) & np.uint64(255))
    return np.array([int(residue) & 255 for residue in vector], dtype=np.uint64)


def _difference_p_values(parts: Mapping[str, UInt64Array]) -> Iterator[tuple[str, float]]:
    for (label, first), (other_label, second) in combinations(parts.items(), 2):
        length = min(len(first), len(second))
        if length:
            yield f"{label} and {other_label}", _near_zero_p(first[:length] - second[:length])


def _self_difference_p(words: UInt64Array) -> float:
    lags = np.arange(1, len(words) - 7)
    return _binomial_p(
        [_near_zero_counts(words[lag:] - words[:-lag]) for lag in lags], len(words) - lags
    )


def _xor_p(first: bytes, second: bytes) -> float:
    from scipy.stats import binom

    xored = np.frombuffer(first, np.uint8) ^ np.frombuffer(second, np.uint8)
    # Ones in the xor ~ Bin(8 L, 1/2): too few where both hide similar values.
    ones = int(np.unpackbits(xored).sum())
    few = float(binom.cdf(ones, 8 * len(xored), 0.5))
    # Longest run of equal bytes; a union bound over where it begins.
    edges = np.flatnonzero(np.concatenate(([1], xored, [1])))
    longest = int(np.diff(edges).max()) - 1
    run = len(xored) * 256.0**-longest if longest else 1.0
    return _bonferroni(few, run)


def exact_rounds(released: IntArray, own_noise: IntArray, assumed: IntArray) -> BoolArray:
    """Return in which rounds what was released is what was assumed, with the node's own noise.

    `released`, `own_noise`, `assumed`: (rounds, values) integers of 64 bits, in steps of the grid:
    the released sums, the noise that the node itself drew, and the exact sums over all nodes if the
    datum has the assumed value.  Returns (rounds,).  Raises `InvalidInput` for tables that are not
    of one shape, of other numbers, or without a value, in which everything would be recognised.

    >>> exact_rounds(np.array([[9, 4], [9, 4]]), np.array([[2, 1], [3, 1]]), np.array([[7, 3]] * 2))
    array([ True, False])
    """
    tables = (released, own_noise, assumed)
    if any(
        table.ndim != 2
        or not table.size
        or table.shape != released.shape
        or table.dtype != np.int64
        for table in tables
    ):
        raise InvalidInput(
            "Sums and noise must be tables (rounds, values) of 64-bit integers, of one shape.",
            "On the grid they are equal or not; floats would be equal by their rounding.",
            "Give them in steps of the grid.",
        )
    # Modulo 2^64, as sums are made.
    with np.errstate(over="ignore"):
        return np.asarray((released - own_noise == assumed).all(axis=1))
