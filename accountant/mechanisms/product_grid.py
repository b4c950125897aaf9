"""Which grids the rows and the basis of a noisy product stand on, from public numbers alone.

Rows are integers of norm at most 2^b, the basis Z one of spectral norm at most 2^q, so a row adds
integers of norm at most 2^t, t = 2 b + q, and one step of the product is u = R^2 / (s 2^t).  A
share of the noise must be wide enough to pass for continuous noise and narrow enough to be drawn;
all of it with the sums of N rows must stay inside of 64 bits, or what is released is of no use (but
protected as well, as sums are made modulo 2^64).

**Which of them has the bits.**  A coordinate of a basis is about 1 / sqrt(d).  The basis has 7 bits
beyond that, and rows all that is left: truncation takes off from every coordinate of a row, round
after round, and what rounding turns a basis by is made good by the next round.  Where the unit is
an entry the basis has 4, as truncated rows let an entry move farther and need wider noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, NamedTuple

from .. import validate
from ..errors import InvalidInput
from ..sensitivity.product import ProductBound
from .discrete_sampler import MAX_SCALE

MIN_PRODUCT_BITS, MAX_PRODUCT_BITS = 24, 42
"""Bits t of one row's product: with fewer, rows have under 8 bits; with more, float64 sums of
2,048 rows are not exact."""

MIN_FACTOR_BITS: Final = 8
"""Fewest bits of a row, and of the basis."""

MIN_SHARE_STEPS: Final = 2**12
"""A share of the noise is at least so many steps: 64 steps^2 are 2^-18 of its variance."""

MAX_SHARE_STEPS: Final = int(MAX_SCALE) // 2
"""A share of the noise is at most so many steps; the sampler can draw twice that.  On the coarsest
grid that is a deviation of 2^15 R^2 / s."""

_NOISE_DEVIATIONS: Final = 64
"""Noise beyond so many deviations has probability below 2^-2900."""


class ProductGrid(NamedTuple):
    """`row_bits` b and `basis_bits` q; a product stands on steps of R^2 / s 2^-(2 b + q)."""

    row_bits: int
    basis_bits: int

    @property
    def product_bits(self) -> int:
        """t = 2 b + q."""
        return 2 * self.row_bits + self.basis_bits

    def step(self, bound: ProductBound) -> Fraction:
        """Return u, one step of a product in units."""
        finest = Fraction(1, 1 << self.product_bits)
        return Fraction(bound.row_norm) ** 2 / Fraction(bound.divisor) * finest


def check_grid(grid: ProductGrid) -> None:
    """Raise `InvalidInput` for bits that no grid has."""
    whole = validate.count(row_bits=grid.row_bits), validate.count(basis_bits=grid.basis_bits)
    product_bits = 2 * whole[0] + whole[1]
    if min(whole) < MIN_FACTOR_BITS or not MIN_PRODUCT_BITS <= product_bits <= MAX_PRODUCT_BITS:
        raise InvalidInput(
            f"`row_bits` and `basis_bits` must be {MIN_FACTOR_BITS} or above, and 2 row_bits + "
            f"basis_bits from {MIN_PRODUCT_BITS} to {MAX_PRODUCT_BITS}; they are {whole[0]} and "
            f"{whole[1]}.",
            "Fewer would round rows away; with more, sums in float64 are not exact.",
            "Take what `product_grid` returns.",
        )


def product_grid(
    bound: ProductBound, *, most_rows: int, share_std: float, shares: int = 1
) -> ProductGrid:
    """Return the finest grid on which sums fit, and one share of the noise can be drawn.

    - `most_rows`: N, the public number of rows in all silos.
    - `share_std`: the deviation of one share, of `shares`, in units, above 0.

    Raises `InvalidInput` where no grid of 24 bits or more suits them, and says why.

    >>> product_grid(ProductBound(dimension=50, rank=5), most_rows=1000, share_std=4.0)
    ProductGrid(row_bits=13, basis_bits=10)
    """
    count, parties = validate.count(most_rows=most_rows), validate.count(shares=shares)
    deviation = Fraction(validate.positive(share_std=share_std))
    overflows = False
    for bits in range(MAX_PRODUCT_BITS, MIN_PRODUCT_BITS - 1, -1):
        grid = _split(bits, bound)
        steps = deviation / grid.step(bound)
        # A thousandth is for what a mechanism adds to its noise.
        if steps * Fraction(1001, 1000) > MAX_SHARE_STEPS:
            continue
        if steps < MIN_SHARE_STEPS:
            raise _unsuitable(
                "share_std", share_std, f"is under {MIN_SHARE_STEPS:,} steps of the finest grid."
            )
        # Shares are independent, so their sum's deviation is sqrt(shares) of one.
        tail = _NOISE_DEVIATIONS * (math.isqrt(parties) + 1) * (math.ceil(steps) + 1)
        if count * 2**bits + tail <= 2**62:
            return grid
        overflows = True
    if overflows:
        raise _unsuitable("most_rows", count, "is so high that sums do not fit into 64 bits.")
    raise _unsuitable("share_std", share_std, "is too wide to be drawn on the coarsest grid.")


def _unsuitable(name: str, value: float, why: str) -> InvalidInput:
    return InvalidInput(
        f"No grid suits this product: `{name}`, {value:,g}, {why}",
        f"A share of the noise has from {MIN_SHARE_STEPS:,} to {MAX_SHARE_STEPS:.3g} steps of "
        f"R^2 / s 2^-t, t from {MIN_PRODUCT_BITS} to {MAX_PRODUCT_BITS}, and sums of all rows fit "
        "into 64 bits.",
        "Give other noise, a lower number of rows, or another row norm or divisor.",
    )


def _split(bits: int, bound: ProductBound) -> ProductGrid:
    """Return t bits as two factors of a row and one of the basis; see the module."""
    spare = 4 if bound.unit == "entry" else 7
    basis_bits = max(MIN_FACTOR_BITS, (bound.dimension.bit_length() + 1) // 2 + spare)
    row_bits = max(MIN_FACTOR_BITS, (bits - basis_bits) // 2)
    return ProductGrid(row_bits, bits - 2 * row_bits)
