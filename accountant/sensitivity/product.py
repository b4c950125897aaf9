"""The product A^T A Z / s of one power iteration: how far one unit moves it, on a grid.

A is a data matrix of d columns, Z (d, r) is public, of spectral norm at most 1, and s a public
divisor.  Every row of A has L2 norm at most R.  Norms of the product are Frobenius norms.

| unit | add-remove, zero-out | replace-one |
|---|---|---|
| record: one row | R^2 / s | sqrt(2) R^2 / s |
| silo: at most k rows | k R^2 / s | sqrt(2) k R^2 / s |
| entry: one number of A, by at most D | - | E / s |

    E = D max(2 R - D, sqrt(2 R^2 - D^2/2))  for D <= sqrt(2) R, and never above sqrt(2) R^2

**Silos one by one.**  Where each silo's product is seen by itself, all of them together move no
farther: a row that comes back in another silo moves two of them, by sqrt(R^4 + R^4) / s.  (For r of
1 the sum alone moves by R^2 / s; the larger number is used there too.)

**An entry on the grid.**  E holds for any two rows a, b of norm at most R with |a - b| <= D: with
b = a + D u, a = h + t u and h orthogonal to a unit vector u,

    |a a^T - b b^T|_F^2  =  D^2 (2 |h|^2 + (2 t + D)^2)

which is largest at t = -D/2 or t = R - D, and E grows with D.  So what counts is how far apart the
rows are that are multiplied.  In steps of R 2^-b, L = 2^b: y is a row in raw units, y' the same row
with one entry changed by at most D, and c(y) is y clipped to norm L, for which |c(y) - c(y')| <= D,
as a projection to a ball moves no two points apart.  A row that passes is q = trunc(y), with
|q| <= L; one that does not is q = trunc((1 - e) c(y)), e <= 2 sqrt(d) 2^-p (`gram_row_grid`, step
4, with 2^-p <= 2^-30 sqrt(d)).  Truncation moves a coordinate by less than 1, towards 0, so two
numbers apart by at most 1 more than before: rows by sqrt(d).

- Both pass: D + 1, as one entry alone differs.
- Neither does: D + sqrt(d) + 2 e L.
- y passes and y' does not.  As q = c(q), |q - c(y')| <= |q - y'| <= D + sqrt(d), and
  |c(y') - q'| <= sqrt(d) + e L.

One step more is above all roundings of floats, 2^-48 L or less.  So rows on the grid are apart by
at most D and 2 sqrt(d) + 2^(b - 28) d + 1 steps of it (`on_grid`).  A row that holds no number
stands as zero: an entry that becomes one, or was, is a row replaced, and D does not speak of it.

Z depends on earlier releases only, so rounds compose as Gaussian releases of one sensitivity.

Derived here, from `fedpower`.  Attained for whole rows and silos where r and d are 2 or more, and
for an entry of rows that are on no grid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

from .. import validate
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from .fedpower import PowerStep, client_sensitivity, entry_sensitivity, row_sensitivity
from .release import Sensitivity, require_public, root_up, up

MAX_COLUMNS: Final = 2**24
"""Most columns of A: float32, in which a rating's column may stand, counts so far exactly."""

MAX_RANK: Final = 2**10
"""Most columns of Z."""

MAX_VALUES: Final = 2**28
"""Most numbers of one product: 2 GiB of integers."""

ProductUnit = Literal["record", "silo", "entry"]


@dataclass(frozen=True, kw_only=True)
class ProductBound:
    """What a product A^T A Z / s is made of, and what bounds one unit's part of it.

    - `dimension`: d, columns of A, 1 to 2^24; `rank`: r, columns of Z, 1 to 2^10 and at most d.
    - `unit`: `record` (a row), `silo`, or `entry` (one number of A).
    - `row_norm`: R, above 0; `divisor`: s, above 0.
    - `rows`: k, most rows of a silo; 1 for other units.
    - `largest_change`: D, by how much an entry changes at most; for the unit `entry` alone.
    - `bound_source`: where R, s, k and D come from; `private` is refused.

    Raises `InvalidInput` for what is out of range, `Unsupported` for a bound from private data.

    >>> ProductBound(dimension=50, rank=5, row_norm=2.0).l2("add-remove")
    4.0
    >>> round(ProductBound(dimension=50, rank=5, row_norm=2.0).l2("replace-one"), 4)
    5.6569
    """

    dimension: int
    rank: int
    row_norm: float = 1.0
    divisor: float = 1.0
    unit: ProductUnit = "record"
    rows: int = 1
    largest_change: float | None = None
    bound_source: str = "public"

    def __post_init__(self) -> None:
        require_public(self.bound_source, what="A row norm, a divisor, a cap or a range")
        validate.choice(("record", "silo", "entry"), unit=self.unit)
        for name in ("dimension", "rank", "rows"):
            object.__setattr__(self, name, validate.count(**{name: getattr(self, name)}))
        for name in ("row_norm", "divisor"):
            object.__setattr__(self, name, validate.positive(**{name: getattr(self, name)}))
        self._check_shape()
        if self.rows > 1 and self.unit != "silo":
            raise InvalidInput(
                f"`rows` is {self.rows}, and the unit is {self.unit!r}.",
                "Only a silo has several rows.",
                "Leave `rows` out, or give unit = 'silo'.",
            )
        if (self.largest_change is None) == (self.unit == "entry"):
            raise InvalidInput(
                "`largest_change` and the unit 'entry' go together.",
                "It says by how much one number of A may change, and bounds nothing else.",
                "Give the width of the public range of entries, or another unit.",
            )
        if self.largest_change is not None:
            change = validate.positive(largest_change=self.largest_change)
            object.__setattr__(self, "largest_change", change)

    def _check_shape(self) -> None:
        for name, value, most in (
            ("dimension", self.dimension, MAX_COLUMNS),
            ("rank", self.rank, min(MAX_RANK, self.dimension)),
        ):
            if value > most:
                raise InvalidInput(
                    f"`{name}` must be at most {most:,}; it is {value:,}.",
                    "There are no more directions than columns, and each has noise of its own.",
                    "Ask for fewer directions, or project the rows by a public matrix first.",
                )
        if self.values > MAX_VALUES:
            raise InvalidInput(
                f"A product has at most {MAX_VALUES:,} numbers; this one would have "
                f"{self.values:,}.",
                "Each of them has noise of its own.",
                "Ask for fewer directions.",
            )

    @property
    def values(self) -> int:
        """How many numbers are released: d r."""
        return self.dimension * self.rank

    @property
    def row_bound(self) -> float:
        """R^2 k / s, rounded up: the norm of all that one unit's rows add."""
        return up(Fraction(self.row_norm) ** 2 * self.rows / Fraction(self.divisor))

    def on_grid(self, bits: int) -> ProductBound:
        """Return the bound for rows on a grid of `bits` bits, where an entry moves its row farther.

        Whole rows are within R on the grid as well, and their bound stays.  See the module.
        """
        if self.largest_change is None:
            return self
        grid_bits, d = validate.count(bits=bits), self.dimension
        steps = 2 * Fraction(root_up(Fraction(d))) + d * Fraction(2) ** (grid_bits - 28) + 1
        wider = Fraction(self.largest_change) + steps * Fraction(self.row_norm) / 2**grid_bits
        return replace(self, largest_change=up(wider))

    def l2(self, neighbours: str) -> float:
        """Return the L2 sensitivity, rounded up; see the module."""
        return sensitivity(self, neighbours).l2


def sensitivity(bound: ProductBound, neighbours: str = "add-remove") -> Sensitivity:
    """Return the sensitivity of a product, with the conditions under which it holds.

    Raises `Unsupported` for an entry under another relation than replace-one.

    >>> bound = ProductBound(dimension=9, rank=3, row_norm=92.0, unit="entry", largest_change=5.0)
    >>> round(sensitivity(bound, "replace-one").l2, 1)
    895.0
    """
    relation: Neighbours = as_neighbours(neighbours)
    step = PowerStep(row_norm=bound.row_norm, rank=bound.rank, divisor=bound.divisor)
    # A single column has a smaller bound for the sum, which does not hold for silos one by one.
    wide = replace(step, rank=max(bound.rank, 2))
    if bound.unit == "silo":
        moved = client_sensitivity(wide, relation, rows=bound.rows)
    elif bound.unit == "record":
        moved = row_sensitivity(wide, relation)
    elif bound.largest_change is None or relation != "replace-one":
        raise Unsupported(
            f"An entry of a matrix is not accounted under {relation}.",
            "A number does not come or go; it has another value.",
            "Give neighbours = 'replace-one', or the unit record.",
        )
    else:
        moved = entry_sensitivity(wide, bound.largest_change)
    about_step = wide.conditions()
    return replace(moved, conditions=(*step.conditions(), *moved.conditions[len(about_step) :]))
