"""Noise on Gram matrices and label sums: integers on a grid of b bits, drawn exactly.

Rows x of norm at most 1 stand on the grid as integers q = trunc(2^b x) (`gram_rows`), and labels y
as integer vectors l = s y, where s is c for c classes, and 2^b for numbers.  Released are the
integers

    G_ij = sum q_i q_j  (i <= j)        L = sum q l^T

with one noise each, independent, on the scale on which these integers stand:

    G_ii    sigma 2^2b               Laplace: scale 2^2b
    G_ij    sigma 2^2b / sqrt(2)              scale 2^2b          (i < j)
    L       sigma 2^b s / a                   scale 2^b s / a

Divided by these, the vector moves as (G_ii, sqrt(2) G_ij, a S) / sigma does for rows q / 2^b and
labels l / s, which satisfy the bounds of `sensitivity.gram` exactly; sqrt(2), s and a come after
the noise.  Each deviation is rounded up.  Gaussian noise is a discrete Gaussian whose parameter
has 64 steps^2 added, so the release is a post-processing of continuous noise on the same integers
(`gaussian`, whose argument is for each coordinate by itself), and Laplace noise is rounded to the
integers (`laplace`).

**Overflow.**  Sums are made modulo 2^64, where a unit that comes or goes changes every number by
its own part and by nothing else.  So the release is a function of the sum over the integers with
its noise, whatever the number of rows, and no number of rows costs privacy.  Dropping rows beyond
a cap on all of them would: the row that comes in for one that goes makes two that move.  From the
public number of rows b is chosen such that nothing wraps around (`grid_bits`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, Self

import numpy as np

from .. import events as ev
from .. import records, validate
from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from ..randomness import Stream
from ..sensitivity.gram import GramBound, sensitivity
from ..sensitivity.release import multiplier, root_down, root_up, sensitivity_multiplier, up
from .base import Mechanism, require_share, require_total, share_deviation
from .discrete_sampler import discrete_gaussian, rounded_laplace
from .gaussian import SMOOTHING
from .gram_grid import (
    MAX_SHARE_STEPS,
    MIN_SHARE_STEPS,
    Family,
    NoiseSquares,
    check_bits,
    gram_contribution,
    grid_step,
    label_scale,
    noise_squares,
    shown_root,
)
from .round_ticket import Ticket


@dataclass(frozen=True, kw_only=True)
class NoisyGram(Mechanism):
    """X^T X and X^T Y of rows of norm 1, with noise of deviation `std` (Laplace: scale).

    - `gram`: the shape, and the bounds on one unit.
    - `std`: sigma of the whole sum, relative to the row norm 1, above 0.
    - `bits`: b, 8 to 20 (`grid_bits`).
    - `shares`: Gaussian noise is the sum of so many shares, one for each silo, of which
      `tolerated_dropouts` may be missing; with Laplace noise every share is all of it.
    - `row_norm`: R, to which rows are clipped before they are divided by it; public.

    Raises `InvalidInput` for what is out of range, and for noise that is too wide or too narrow for
    the grid.

    >>> bound = GramBound(dimension=31, classes=2)
    >>> mechanism = NoisyGram.with_multiplier(5.0, gram=bound, bits=17, relation="add-remove")
    >>> mechanism.event("add-remove"), mechanism.gram.values
    (Gaussian(noise_multiplier=5.0), 558)
    """

    gram: GramBound
    std: float
    bits: int
    family: Family = "gaussian"
    shares: int = 1
    tolerated_dropouts: int = 0
    unit: Literal["record", "user", "silo"] = "record"
    row_norm: float = 1.0

    def __post_init__(self) -> None:
        validate.choice(("gaussian", "laplace"), noise=self.family)
        validate.choice(("record", "user", "silo"), unit=self.unit)
        self._set_checked(
            std=validate.positive(std=self.std),
            bits=validate.count(bits=self.bits),
            shares=validate.count(shares=self.shares),
            tolerated_dropouts=validate.count_from(0, tolerated_dropouts=self.tolerated_dropouts),
            row_norm=validate.positive(row_norm=self.row_norm),
        )
        check_bits(self.bits)
        require_share(self.shares, self.tolerated_dropouts)
        if self.gram.row_square > 1:
            raise InvalidInput(
                f"The trace of {self.gram.rows:,} rows of norm 1 is at most as many; it is "
                f"{self.gram.trace:g}.",
                "Rows are divided by the public row norm, and their products are exact up to 1.",
                "Give a larger row norm and a trace relative to its square.",
            )
        narrowest, widest = self._squares.ends
        if widest > MAX_SHARE_STEPS**2 or narrowest < MIN_SHARE_STEPS**2:
            raise InvalidInput(
                f"On a grid of {self.bits} bits one share of the noise has deviations from "
                f"{shown_root(narrowest):.3g} to {shown_root(widest):.3g} steps; they must lie "
                f"from {MIN_SHARE_STEPS:,} to {MAX_SHARE_STEPS:.3g}.",
                "Coarser noise is no longer what is accounted for; wider noise is not drawn here.",
                "Take the bits that `grid_bits` returns, or another `label_weight`.",
            )

    @classmethod
    def with_multiplier(
        cls,
        noise_multiplier: float,
        *,
        gram: GramBound,
        bits: int,
        relation: str,
        family: Family = "gaussian",
        shares: int = 1,
        tolerated_dropouts: int = 0,
        unit: Literal["record", "user", "silo"] = "record",
        row_norm: float = 1.0,
    ) -> Self:
        """Return the mechanism whose event has at least this noise multiplier, and hardly more.

        Raises as the class does.
        """
        given = Fraction(validate.positive(noise_multiplier=noise_multiplier))
        check_bits(validate.count(bits=bits))
        require_share(
            validate.count(shares=shares),
            validate.count_from(0, tolerated_dropouts=tolerated_dropouts),
        )
        moved = sensitivity(gram, relation)
        times = sensitivity_multiplier(as_neighbours(relation))
        if family == "laplace":
            std = up(given * Fraction(moved.l1) / times)
        else:
            # What an audit takes off for the grid is added: 64 steps^2 for each share that counts.
            step = Fraction(grid_step(gram, bits, family))
            smoothing = SMOOTHING * (shares - tolerated_dropouts) * step**2
            std = root_up((given * Fraction(moved.l2) / times) ** 2 + smoothing)
        return cls(
            gram=gram,
            std=std,
            bits=bits,
            family=family,
            shares=shares,
            tolerated_dropouts=tolerated_dropouts,
            unit=unit,
            row_norm=row_norm,
        )

    @cached_property
    def share_std(self) -> float:
        """The deviation of one share, rounded up; Laplace noise is not divided."""
        if self.family == "laplace":
            return self.std
        return share_deviation(self.std, self.shares, self.tolerated_dropouts)

    @cached_property
    def grid(self) -> float:
        """The coarsest step on which a number stands, where noise is even (`white`)."""
        return grid_step(self.gram, self.bits, self.family)

    @property
    def contribution(self) -> records.Contribution:
        """The norm of all that one unit adds, and the facts that it follows from."""
        gram = self.gram
        norm: Literal["l1", "l2"] = "l1" if self.family == "laplace" else "l2"
        bound = gram.l1("add-remove") if norm == "l1" else gram.l2("add-remove")
        return gram_contribution(gram, bound, norm, self.unit, self.row_norm, self.bits)

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` releases, in units of the row norm 1."""
        stated = (self.std, self.shares, self.share_std, self.tolerated_dropouts)
        return records.Noise(self.family, *stated, draws, self.grid)

    def sensitivity(self, relation: str) -> float:
        """Return the L2 (Laplace: L1) sensitivity of the release, as `sensitivity.gram` has it."""
        moved = sensitivity(self.gram, relation, unit=self.unit)
        return moved.l1 if self.family == "laplace" else moved.l2

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one release; raises `Unsupported` on a sample, which it is not made for."""
        if on_sample:
            raise Unsupported(
                "Gram matrices are released of all units.",
                "One release with the noise of all units is better than several on samples.",
                "Leave the sampling rate out.",
            )
        moved = self.sensitivity(relation)
        if self.family == "laplace":
            return ev.Laplace(multiplier(self.std, moved, relation))
        # More noise is drawn than this; an audit, which cannot know that, counts as little.
        smoothing = SMOOTHING * (self.shares - self.tolerated_dropouts) * Fraction(self.grid) ** 2
        times = sensitivity_multiplier(relation)
        square = (Fraction(self.std) ** 2 - smoothing) * (times / Fraction(moved)) ** 2
        return ev.Gaussian(root_down(square))

    @cached_property
    def label_scale(self) -> int:
        """s: a label y stands as the integers s y."""
        return label_scale(self.gram.classes, self.bits)

    @cached_property
    def diagonal(self) -> BoolArray:
        """Which of the released numbers are on a diagonal: (values,)."""
        rows, columns = np.triu_indices(self.gram.dimension)
        matrices = self.gram.classes if self.gram.by_class else 1
        on_diagonal = np.zeros(self.gram.values, np.bool_)
        on_diagonal[: matrices * len(rows)] = np.tile(rows == columns, matrices)
        return on_diagonal

    @property
    def label_start(self) -> int:
        """The place of the first label sum in a release."""
        return self.gram.values - self.gram.dimension * self.gram.classes

    def units(self, steps: IntArray) -> FloatArray:
        """Return released integers (values,) as floats: G_ij and S, of rows of norm 1.

        The upper triangle (i <= j, row by row) of each matrix, then S (d, c), row by row.
        """
        values = steps.astype(np.float64)
        values[: self.label_start] *= 2.0 ** (-2 * self.bits)
        values[self.label_start :] *= 2.0**-self.bits / self.label_scale
        return values

    def white(self, steps: IntArray) -> FloatArray:
        """Return integers (values,) in the coordinates in which all noise has deviation `std`.

        G_ii, sqrt(2) G_ij and a S; under Laplace noise G_ij without the sqrt(2).
        """
        values = self.units(steps)
        if self.family == "gaussian":
            above = ~self.diagonal
            above[self.label_start :] = False
            values[above] *= math.sqrt(2.0)
        values[self.label_start :] *= self.gram.label_weight
        return values

    def share_steps(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> IntArray:
        """Return one party's total (values,) with its share of the noise, modulo 2^64.

        Raises `Unsupported` for a ticket of another mechanism and for a share too many,
        `InvalidInput` for a total of another shape.
        """
        require_total(total, self.gram.values, "gram_rows.gram_total")
        self.check_ticket(ticket)
        return total + self._noise_of_share(ticket.draw_share(name, part))

    def _noise_of_share(self, stream: Stream) -> IntArray:
        """Draw one share: diagonals first, then what is above them, then label sums."""
        diagonal = self.diagonal
        above = ~diagonal
        above[self.label_start :] = False
        noise = np.empty(self.gram.values, np.int64)
        squares = self._squares
        noise[diagonal] = self._draw(stream, int(diagonal.sum()), squares.on_diagonal)
        noise[above] = self._draw(stream, int(above.sum()), squares.above_diagonal)
        labels = self.gram.values - self.label_start
        noise[self.label_start :] = self._draw(stream, labels, squares.on_labels)
        return noise

    def _draw(self, stream: Stream, count: int, square: Fraction) -> IntArray:
        if not count:
            return np.empty(0, np.int64)
        if self.family == "laplace":
            return rounded_laplace(stream, count, root_up(square))
        return discrete_gaussian(stream, count, root_up(square + SMOOTHING))

    @cached_property
    def _squares(self) -> NoiseSquares:
        return noise_squares(self.gram, self.bits, Fraction(self.share_std) ** 2, self.family)
