"""Which grid Gram matrices and label sums stand on: b bits, chosen from public numbers alone.

On a grid of b bits the noise has the deviations of `gram_noise` in whole steps.  A share of it must
be wide enough to pass for continuous noise, narrow enough to be drawn, and sums with noise must
stay inside of 64 bits, or what is released is of no use (but protected as well: `gram_noise`,
overflow).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, Literal, NamedTuple

from .. import records, validate
from ..errors import InvalidInput
from ..neighbours import Unit
from ..sensitivity.gram import GramBound
from ..sensitivity.release import root_up, up
from .discrete_sampler import MAX_SCALE

Family = Literal["gaussian", "laplace"]

MIN_BITS, MAX_BITS = 8, 20
"""Bits of the grid: fewer would round features away, more would not be exact in float64."""

_NOISE_DEVIATIONS: Final = 64
"""Noise beyond so many deviations has probability below 2^-2900 (Laplace: 2^-92)."""

MIN_SHARE_STEPS: Final = 2**12
"""A share of the noise is at least so many steps of the grid: 64 steps^2 are 2^-18 of that."""

MAX_SHARE_STEPS: Final = int(MAX_SCALE) // 2
"""A share of the noise is at most so many steps of the grid; the sampler can draw twice that."""


class NoiseSquares(NamedTuple):
    """The squares of noise's deviations (Laplace: scales), in steps of the grid."""

    on_diagonal: Fraction
    above_diagonal: Fraction
    on_labels: Fraction  # without labels that of a diagonal

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The narrowest and the widest."""
        return min(self), max(self)


def noise_squares(gram: GramBound, bits: int, variance: Fraction, family: Family) -> NoiseSquares:
    """Return them for noise of this variance (Laplace: scale^2) relative to rows of norm 1."""
    diagonal = variance * 16**bits
    above = diagonal / 2 if family == "gaussian" else diagonal
    scale = 2**bits * label_scale(gram.classes, bits) / Fraction(gram.label_weight)
    return NoiseSquares(diagonal, above, variance * scale**2 if gram.classes else diagonal)


def label_scale(classes: int, bits: int) -> int:
    """Return s: a label y stands as the integers s y (c classes: c y; one number: 2^b y)."""
    return classes if classes > 1 else 2**bits


def grid_bits(
    gram: GramBound, *, most_rows: int, std: float, shares: int = 1, most_bits: int = MAX_BITS
) -> int:
    """Return the most bits, up to `most_bits`, with which sums fit and noise can be drawn.

    Of N = `most_rows` rows in all silos, N 2^2b T / k, and its like of labels, with the tail of the
    noise stays below 2^62 / n, n the power of two from `shares` up: whatever one silo holds of
    them, n silos' numbers add up without wrapping around.  All of the noise is below 2^39 steps,
    with a thousandth to spare for what `with_multiplier` adds to it.  `std` is the deviation of the
    whole sum, `shares` among how many silos it is drawn.

    Raises `InvalidInput` where even 8 bits are too many, and says how many rows would fit, and
    where the noise would be too coarse on any grid that fits.

    >>> grid_bits(GramBound(dimension=785, classes=10), most_rows=60_000, std=5.0)
    18
    """
    count = validate.count(most_rows=most_rows)
    deviation = Fraction(validate.positive(std=std))
    parties = validate.count(shares=shares)
    for bits in range(min(validate.count(most_bits=most_bits), MAX_BITS), MIN_BITS - 1, -1):
        if count <= _rows_that_fit(gram, bits, deviation, parties):
            narrowest, _ = noise_squares(gram, bits, deviation**2 / parties, "gaussian").ends
            if narrowest < MIN_SHARE_STEPS**2:
                raise InvalidInput(
                    f"On a grid of {bits} bits one share of the noise is "
                    f"{shown_root(narrowest):.3g} steps; it must be {MIN_SHARE_STEPS:,} or more.",
                    "Coarser noise is no longer what is accounted for, and finer grids do not fit "
                    "or are not asked for.",
                    "Give more bits, more noise, fewer rows, or another `label_weight`.",
                )
            return bits
    fitting = _rows_that_fit(gram, MIN_BITS, deviation, parties)
    raise InvalidInput(
        f"Sums of {count:,} rows, with this noise, do not fit into 64 bits on a grid of "
        f"{MIN_BITS} bits, the coarsest.",
        "A sum that wraps around is of no use.",
        f"Give a cap of {fitting:,} rows or fewer."
        if fitting > 0
        else "No number of rows fits: give less noise, or another `label_weight`.",
    )


def _rows_that_fit(gram: GramBound, bits: int, deviation: Fraction, shares: int) -> int:
    """Return how many rows fit on a grid of so many bits; below 0 where the noise does not."""
    # Each silo's noise is at most all of it, on the widest of the three scales.
    square = noise_squares(gram, bits, deviation**2, "gaussian").ends[1]
    if square * Fraction(1001, 1000) ** 2 > MAX_SHARE_STEPS**2:
        return -1
    # On the grid a row's norm is 2^b sqrt(T / k) at most, and a label's integer s.
    norm = Fraction(root_up(gram.row_square)) * 2**bits
    largest = max(norm**2, norm * label_scale(gram.classes, bits) if gram.classes else 0)
    tail = _NOISE_DEVIATIONS * (math.isqrt(math.ceil(square)) + 1)
    return int((2 ** (62 - (shares - 1).bit_length()) - tail) // largest)


def grid_step(gram: GramBound, bits: int, family: Family) -> float:
    """Return the coarsest step where noise is even, rounded up.

    sqrt(2) / 4^b above a diagonal (Laplace: 1 / 4^b), a / (2^b s) of labels.
    """
    above = root_up(Fraction(2 if family == "gaussian" else 1, 16**bits))
    if not gram.classes:
        return above
    labels = Fraction(gram.label_weight) / (2**bits * label_scale(gram.classes, bits))
    return max(above, up(labels))


def gram_contribution(
    gram: GramBound, bound: float, norm: Literal["l1", "l2"], unit: Unit, row_norm: float, bits: int
) -> records.Contribution:
    """Return the norm of all that one unit adds, and the facts that it follows from."""
    shape = (gram.dimension, gram.classes, gram.label_weight, gram.rows, gram.trace, gram.by_class)
    facts = records.Gram(*shape, row_norm, bits)
    return records.Contribution(bound, norm, unit, "gram", "public", facts)


def check_bits(bits: int) -> None:
    """Raise `InvalidInput` for bits that no grid has."""
    if not MIN_BITS <= bits <= MAX_BITS:
        raise InvalidInput(
            f"`bits` must be from {MIN_BITS} to {MAX_BITS}; it is {bits}.",
            "Fewer would round features away; with more, sums in float64 are not exact.",
            "Take what `grid_bits` returns.",
        )


def shown_root(square: Fraction) -> float:
    """Return a square's root, to be shown; of squares beyond all floats their like."""
    return math.sqrt(min(square, Fraction(10**300)))
