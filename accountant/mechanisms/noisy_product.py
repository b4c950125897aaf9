"""Noise on a product A^T A Z / s with a public Z: integers on a grid, drawn exactly.

Rows of A stand on the grid as integers q of norm at most 2^b, and Z as integers of spectral norm at
most 2^q (`product_rows`), so the sum over rows of q (q^T Z) is a matrix of integers, exactly, which
one row moves by at most 2^t, t = 2 b + q, in Frobenius norm.  One step is u = R^2 / (s 2^t).  To
every integer one noise is added, a discrete Gaussian of deviation sigma / u whose parameter has 64
steps^2 added, so the release is a post-processing of continuous noise on the same integers
(`gaussian`, whose argument is for each coordinate by itself).

Sums are made modulo 2^64, where a unit that comes or goes changes every number by its own part and
by nothing else, so no number of rows costs privacy (`gram_noise`, overflow).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, Self

import numpy as np

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from ..randomness import Stream
from ..sensitivity.product import ProductBound, sensitivity
from ..sensitivity.release import root_down, root_up, sensitivity_multiplier, up
from .base import Mechanism, require_share, require_total, share_deviation
from .discrete_sampler import discrete_gaussian
from .gaussian import SMOOTHING
from .product_grid import MAX_SHARE_STEPS, MIN_SHARE_STEPS, ProductGrid, check_grid, product_grid
from .round_ticket import Ticket

_GRID_MARGIN: Final = 1.0005
"""A grid has room for so much more noise than it was chosen for; `product_grid` leaves 1.001."""


@dataclass(frozen=True, kw_only=True)
class NoisyProduct(Mechanism):
    """One product A^T A Z / s with Gaussian noise of deviation `std` on each of its numbers.

    - `product`: the shape, and the bounds on one unit.
    - `std`: sigma of the whole sum, in units of the product, above 0.
    - `grid_bits`: the grids of rows and basis (`product_grid`).
    - `shares`: the noise is the sum of so many shares, one for each silo, of which
      `tolerated_dropouts` may be missing.
    - `bound_source`: `private` where Z, or what rows are divided by, comes from private data: then
      `product` bounds nothing, the log says so, and no event is known.

    Raises `InvalidInput` for what is out of range, and for noise that is too wide or too narrow for
    the grid.

    >>> bound = ProductBound(dimension=50, rank=5, row_norm=2.0)
    >>> mechanism = NoisyProduct.with_multiplier(
    ...     5.0, product=bound, relation="add-remove", most_rows=1000)
    >>> mechanism.event("add-remove"), mechanism.product.values
    (Gaussian(noise_multiplier=5.0), 250)
    """

    product: ProductBound
    std: float
    grid_bits: ProductGrid
    shares: int = 1
    tolerated_dropouts: int = 0
    bound_source: Literal["public", "private"] = "public"

    def __post_init__(self) -> None:
        self._set_checked(
            std=validate.positive(std=self.std),
            shares=validate.count(shares=self.shares),
            tolerated_dropouts=validate.count_from(0, tolerated_dropouts=self.tolerated_dropouts),
        )
        validate.choice(("public", "private"), bound_source=self.bound_source)
        check_grid(self.grid_bits)
        require_share(self.shares, self.tolerated_dropouts)
        steps = Fraction(self.share_std) / self.grid_bits.step(self.product)
        if not MIN_SHARE_STEPS <= steps <= MAX_SHARE_STEPS:
            raise InvalidInput(
                f"One share of the noise is {float(steps):.3g} steps of the grid; it must be from "
                f"{MIN_SHARE_STEPS:,} to {MAX_SHARE_STEPS:.3g}.",
                "Coarser noise is no longer what is accounted for; wider noise is not drawn here.",
                "Take the grid that `product_grid` returns.",
            )

    @classmethod
    def with_multiplier(
        cls,
        noise_multiplier: float,
        *,
        product: ProductBound,
        relation: str,
        most_rows: int,
        shares: int = 1,
        tolerated_dropouts: int = 0,
    ) -> Self:
        """Return the mechanism whose event has at least this noise multiplier, and hardly more.

        `most_rows`: the public number of rows in all silos, for which the grid has room.  Raises as
        the class and `product_grid` do.
        """
        given = Fraction(validate.positive(noise_multiplier=noise_multiplier))
        require_share(
            validate.count(shares=shares),
            validate.count_from(0, tolerated_dropouts=tolerated_dropouts),
        )
        promised = shares - tolerated_dropouts
        times = sensitivity_multiplier(as_neighbours(relation))

        def variance(bound: ProductBound, smoothing: Fraction = Fraction(0)) -> Fraction:
            moved = Fraction(sensitivity(bound, relation).l2)
            return (given * moved / times) ** 2 + promised * smoothing

        # An entry moves farther on a coarse grid, and wider noise needs a coarser one: noise only
        # grows and grids only get coarser, until both suit.
        share_std = root_up(variance(product) / promised)
        while True:
            grid = product_grid(product, most_rows=most_rows, share_std=share_std, shares=shares)
            # What an audit takes off for the grid is added.
            smoothing = SMOOTHING * Fraction(up(grid.step(product))) ** 2
            std = root_up(variance(product.on_grid(grid.row_bits), smoothing))
            needed = root_up(Fraction(std) ** 2 / promised)
            if needed <= share_std * _GRID_MARGIN:
                break
            share_std = needed
        return cls(
            product=product,
            std=std,
            grid_bits=grid,
            shares=shares,
            tolerated_dropouts=tolerated_dropouts,
        )

    @cached_property
    def share_std(self) -> float:
        """The deviation of one share, rounded up."""
        return share_deviation(self.std, self.shares, self.tolerated_dropouts)

    @cached_property
    def grid(self) -> float:
        """u, the step on which the numbers of a product stand, rounded up."""
        return up(self.grid_bits.step(self.product))

    @property
    def contribution(self) -> records.Contribution:
        """The norm of all that one unit adds, and the facts that it follows from."""
        product = self.product
        facts = records.Product(
            product.dimension,
            product.rank,
            product.row_norm,
            product.divisor,
            product.rows,
            product.largest_change,
            *self.grid_bits,
        )
        return records.Contribution(
            product.row_bound, "l2", product.unit, "product", self.bound_source, product=facts
        )

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` products, in units."""
        stated = (self.std, self.shares, self.share_std, self.tolerated_dropouts)
        return records.Noise("gaussian", *stated, draws, self.grid)

    def sensitivity(self, relation: str) -> float:
        """Return the L2 sensitivity of a product of rows on the grid, rounded up."""
        return sensitivity(self.product.on_grid(self.grid_bits.row_bits), relation).l2

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one product; raises `Unsupported` on a sample, which it is not made for."""
        if on_sample:
            raise Unsupported(
                "Products are released of all rows.",
                "A sampled power iteration has another matrix in every round.",
                "Leave the sampling rate out.",
            )
        # More noise is drawn than this; an audit, which cannot know that, counts as little.
        smoothing = SMOOTHING * (self.shares - self.tolerated_dropouts) * Fraction(self.grid) ** 2
        times = sensitivity_multiplier(relation) / Fraction(self.sensitivity(relation))
        return ev.Gaussian(root_down((Fraction(self.std) ** 2 - smoothing) * times**2))

    def units(self, steps: IntArray) -> FloatArray:
        """Return released integers (values,) as floats, in units of the product: (d, r)."""
        product = self.product
        return steps.astype(np.float64).reshape(product.dimension, product.rank) * self.grid

    def share_steps(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> IntArray:
        """Return one party's total (values,) with its share of the noise, modulo 2^64.

        Raises `Unsupported` for a ticket of another mechanism and for a share too many,
        `InvalidInput` for a total of another shape.
        """
        require_total(total, self.product.values, "product_rows.ProductRows.total")
        self.check_ticket(ticket)
        return total + self._drawn(ticket.draw_share(name, part))

    def extra_steps(self, ticket: Ticket, total: IntArray, name: str) -> IntArray:
        """Return a total (values,) with noise of one share's width that no promise counts.

        For a party that adds noise to what it received, such as a server: whoever sees what it got
        sees no such noise, and so nobody's guarantee rests on it.  The stream stands in the
        release.
        """
        require_total(total, self.product.values, "product_rows.ProductRows.total")
        self.check_ticket(ticket)
        return total + self._drawn(ticket.stream(name))

    def _drawn(self, stream: Stream) -> IntArray:
        return discrete_gaussian(stream, self.product.values, self._parameter)

    @cached_property
    def _parameter(self) -> float:
        """The parameter of one share's discrete Gaussian, in steps, with the smoothing added."""
        steps = Fraction(self.share_std) / self.grid_bits.step(self.product)
        return root_up(steps**2 + SMOOTHING)
