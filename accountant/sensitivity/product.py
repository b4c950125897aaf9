"""The product A^T A Z / s of one power iteration: how far one unit moves it, on a grid.

A is a data matrix of d columns, Z (d, r) is public, of spectral norm at most 1, and s a public
divisor.  Every row of A has L2 norm at most R.  Norms of the product are Frobenius norms.

| unit | add-remove, zero-out | replace-one |
|---|---|---|
| record: one row | R^2 / s | sqrt(2) R^2 / s |
| silo: at most k rows | k R^2 / s | k times that |
| entry: one number of A, by at most D | - | E / s |

    E = D max(2 R - D, sqrt(2 R^2 - D^2/2)) for D up to sqrt(2) R, and never more than a row's

The bound for an entry holds for any two rows a, b of norm at most R with |a - b| <= D (it uses
nothing else: |a a^T - b b^T|_F^2 = D^2 (2 |h|^2 + (2 t + D)^2) for b = a + D u, a = h + t u, h
orthogonal to u).  Clipping to a ball is no longer than what it clips (1-Lipschitz), and truncation
to a grid of b bits moves each of two rows by less than sqrt(d) steps of R 2^-b; so D is taken
4 sqrt(d) steps larger (`on_grid`).

**Silos one by one.**  Where each silo's product is seen by itself, all of them together move no
farther: a row that comes back in another silo moves two of them, by sqrt(R^4 + R^4) / s.  (For r of
1 the sum alone moves by R^2 / s; the larger number is used there too.)

Z depends on earlier releases only, so rounds compose as Gaussian releases of one sensitivity.

Derived here, from `fedpower`; bounds of rows are attained where r is 2 or more.
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
        validate.count(dimension=self.dimension)
        validate.count(rank=self.rank)
        validate.count(rows=self.rows)
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
        """Return the bound for rows on a grid of `bits` bits: an entry's change is larger there.

        Whole rows are within R on the grid as well, and their bound stays.
        """
        if self.largest_change is None:
            return self
        step = Fraction(self.row_norm) / 2 ** validate.count(bits=bits)
        wider = (
            Fraction(self.largest_change) + 4 * Fraction(root_up(Fraction(self.dimension))) * step
        )
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
    # A single column has a smaller bound for the sum, which does not hold for silos one by one.
    rank = max(bound.rank, 2)
    step = PowerStep(row_norm=bound.row_norm, rank=rank, divisor=bound.divisor)
    if bound.unit == "silo":
        return client_sensitivity(step, relation, rows=bound.rows)
    if bound.unit == "record":
        return row_sensitivity(step, relation)
    if relation != "replace-one":
        raise Unsupported(
            f"An entry of a matrix is not accounted under {relation}.",
            "A number does not come or go; it has another value.",
            "Give neighbours = 'replace-one', or the unit record.",
        )
    assert bound.largest_change is not None
    return entry_sensitivity(step, bound.largest_change)
