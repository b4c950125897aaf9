"""Laplace noise on sums of clipped vectors: integers on a grid, drawn exactly.

The noise is a Laplace variable rounded to the grid.  The sum is an integer number of steps, so
sum + round(L) = round(sum + L), at every outcome: a post-processing of continuous Laplace noise on
the same sum, and the event `Laplace` is exact.

Laplace noise is not divided.  Where several parties add a share, each adds all of it, so a sum of
shares has the noise of one with something independent added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import Unsupported
from ..neighbours import Neighbours, as_neighbours
from ..randomness import Stream
from ..sensitivity.release import multiplier, sensitivity_multiplier, up
from .clip import ClippedSums, check_bound, check_totals
from .discrete_sampler import rounded_laplace
from .gaussian import Gaussian
from .round_ticket import Ticket

LOG2_STEPS: Final = 20
"""The scale is from 2^20 to 2^21 steps of the grid."""


@dataclass(frozen=True)
class Laplace(ClippedSums):
    """The sum of terms of L1 norm at most `bound`, with Laplace noise of scale `scale` each.

    noisy = sum_i w_i clip(x_i) + (L_1, ..., L_D), each L_j of density ~ e^(-|x| / scale).  All of
    one `unit` is one term; `weights.largest_sum` bounds its weights.  `dimensions` is D: on a
    sample under `replace-one` only D = 1 is covered.  Each of `shares` parties adds all of it.

    Range: `bound` and `scale` above 0, `dimensions` and `shares` 1 or above.  Raises
    `InvalidInput`.

    >>> Laplace(bound=1.0, scale=2.0).event("add-remove")
    Laplace(noise_multiplier=2.0)
    """

    norm: ClassVar[Literal["l1", "l2"]] = "l1"
    bound: float
    scale: float
    dimensions: int = 1
    weights: records.Weights = field(default_factory=records.Weights)
    unit: Literal["record", "user", "silo", "entry"] = "user"
    source: Literal["public", "released", "private"] = "public"
    shares: int = 1

    def __post_init__(self) -> None:
        self._set_checked(
            bound=validate.positive(bound=self.bound),
            scale=validate.positive(scale=self.scale),
            dimensions=validate.count(dimensions=self.dimensions),
            shares=validate.count(shares=self.shares),
        )
        validate.positive(largest_sum=self.weights.largest_sum)
        check_bound(self.grid, self.bound)

    @cached_property
    def grid(self) -> float:
        """The step on which sums and noise stand: a power of two, below scale / 2^20."""
        return math.ldexp(1.0, math.frexp(self.scale)[1] - 1 - LOG2_STEPS)

    @property
    def contribution(self) -> records.Contribution:
        """The clip norm, and what it bounds."""
        return records.Contribution(self.bound, "l1", self.unit, "unit", self.source)

    @property
    def weights_used(self) -> records.Weights:
        """How terms are weighted."""
        return self.weights

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` sums; its `std` is the scale."""
        return records.Noise("laplace", self.scale, self.shares, self.scale, 0, draws, self.grid)

    def sensitivity(self, relation: str) -> float:
        """Return by how much, in L1, one unit moves the sum: bound x largest_sum x 1 or 2, up."""
        moved = Fraction(self.bound) * Fraction(self.weights.largest_sum)
        return up(moved * sensitivity_multiplier(as_neighbours(relation)))

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one sum: Laplace noise of scale / (sensitivity / sensitivity multiplier), down.

        Raises `Unsupported` for vectors on a sample under `replace-one`: the pair of outcomes that
        covers it is proven in one dimension.
        """
        # With, without, and with other data: three laws meet, covered in one dimension only.
        if on_sample and relation == "replace-one" and self.dimensions > 1:
            raise Unsupported(
                "Laplace noise on sampled vectors has no event under replace-one.",
                "The pair of outcomes that would cover it is proven in one dimension.",
                "Account for add-remove, take everybody, or add Gaussian noise.",
            )
        return ev.Laplace(multiplier(self.scale, self.sensitivity(relation), relation))

    def noisy(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> FloatArray:
        """Return a total with noise, (D,), in units: one draw of the round, by one party.

        Raises `Unsupported` for a ticket of another mechanism, more draws than it announces, more
        dimensions than the event covers, and where several parties add a share.
        """
        total = self._checked(ticket, total, name)
        ticket.draw(1, part)
        return self.units(self._with_noise(ticket.stream(name), total))

    def share_steps(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> IntArray:
        """Return one party's total with its share of the noise, in steps of the grid, (D,).

        A draw is made of all shares.  Raises as `noisy`, and for a share too many.
        """
        total = self._checked(ticket, total, name)
        return self._with_noise(ticket.draw_share(name, part), total)

    def units(self, steps: IntArray) -> FloatArray:
        """Return integers on the grid as floats, in units; sums are made before, of integers."""
        return steps.astype(np.float64) * self.grid

    def _checked(self, ticket: Ticket, total: IntArray, name: str) -> IntArray:
        (steps,) = check_totals([total], [name])
        check_dimensions(len(steps), self.dimensions)
        self.check_ticket(ticket)
        return steps

    def _with_noise(self, stream: Stream, total: IntArray) -> IntArray:
        # sum + round(L) = round(sum + L): the rounded Laplace noise of `scale` / `grid` steps.
        scale = Fraction(self.scale) / Fraction(self.grid)
        return np.asarray(total + rounded_laplace(stream, len(total), float(scale)))


def check_dimensions(given: int, stated: int) -> None:
    """Raise `Unsupported` where a vector is longer than its mechanism states."""
    if given > stated:
        raise Unsupported(
            f"This sum has {given} coordinates; its mechanism states {stated}.",
            "The event was chosen for that many.",
            "State the dimensions in the mechanism.",
        )


SharedNoise: TypeAlias = Gaussian | Laplace
"""They have `totals`, `share_steps`, `units` and `grid` in common.

Gaussian noise is divided among the shares, and Laplace noise is in each of them whole.
"""
