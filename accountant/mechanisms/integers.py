"""Discrete noise on sums of integers: counts, histograms, and vectors of them.

`DiscreteGaussian` and `DiscreteLaplace` events are about one integer whose noise centre moves by
whole steps.  What covers a vector of them:

- *Laplace*, L1 norm D: the same event.  Move one coordinate after the other by k_1, k_2, ...; each
  move is a shift of discrete Laplace noise, whose best tests are thresholds (its likelihood ratio
  is monotone), nested and the same for every shift.  So testing k_1 steps and then k_2 more is
  testing k_1 + k_2 steps in one coordinate, and the vector is no easier: its trade-off function is
  above the composition of the moves' (Dong, Roth and Su 2022, arXiv 1905.02383v3, Section 2.5, for
  continuous log-concave noise; the thresholds make it carry over).  On a sample under
  `replace-one` three distributions meet, and it is not proven: refused.
- *Gaussian*, L2 norm D, parameter t: continuous noise.  For t >= 80 it is a post-processing of
  N(0, t^2 - 64) (see `gaussian`), at a cost of half a percent of t; for smaller t it is (m D / t)^2
  / 2-zCDP, m the sensitivity multiplier, in any dimension (Canonne, Kamath and Steinke 2020, arXiv
  2004.00010v5, Theorem 14; coordinates add up).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import events as ev
from .. import records, validate
from ..arrays import IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from ..randomness import Stream
from ..sensitivity.release import down, root_down, sensitivity_multiplier, up
from .base import Mechanism
from .clip import MAX_SUM, Norm, check_totals, clipped, numbers, too_large
from .discrete_sampler import discrete_gaussian, discrete_laplace
from .gaussian import SMOOTHING
from .laplace import check_dimensions
from .round_ticket import Ticket

CONTINUOUS_FROM: Final = 80.0
"""Parameter from which discrete Gaussian vectors are accounted as continuous ones."""

_MAX_SENSITIVITY: Final = 2**40
"""Largest sensitivity: sums and noise stay far from the end of 64-bit integers."""


@dataclass(frozen=True)
class _DiscreteNoise(Mechanism):
    """The sum of integer terms of norm at most `bound`, with discrete noise of parameter `scale`.

    All of one `unit` is one term, of `dimensions` integers.  Range: `bound` 1 to 2^40, `scale` in
    [2^-20, 2^40], `dimensions` 1 or above.  Raises `InvalidInput`.
    """

    norm: ClassVar[Norm]
    family: ClassVar[Literal["discrete-gaussian", "discrete-laplace"]]

    bound: int
    scale: float
    dimensions: int = 1
    unit: Literal["record", "user", "silo", "entry"] = "user"
    source: Literal["public", "released", "private"] = "public"

    def __post_init__(self) -> None:
        self._set_checked(
            bound=validate.count(bound=self.bound),
            scale=validate.positive(scale=self.scale),
            dimensions=validate.count(dimensions=self.dimensions),
        )
        if self.bound > _MAX_SENSITIVITY or not 2.0**-20 <= self.scale <= 2.0**40:
            raise InvalidInput(
                "`bound` must be at most 2^40, and `scale` in [2^-20, 2^40].",
                next_step="Count in larger units.",
            )

    @property
    def contribution(self) -> records.Contribution:
        """The norm of one term."""
        return records.Contribution(float(self.bound), self.norm, self.unit, "unit", self.source)

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` sums; its `std` is the parameter, its grid the integers."""
        return records.Noise(self.family, self.scale, 1, self.scale, 0, draws, 1.0)

    def sensitivity(self, relation: str) -> float:
        """Return how far one unit moves the sum, in this mechanism's norm: bound, or twice that."""
        return up(Fraction(self.bound) * sensitivity_multiplier(as_neighbours(relation)))

    def total(self, values: ArrayLike) -> IntArray:
        """Return the sum of the terms, each clipped to norm `bound`: integers (n, D) to (D,).

        (n,) is taken for n single integers.  A term within the bound is left as it is; a vector
        beyond it is shrunk towards zero, a single integer cut off at the bound.
        """
        rows = _integers(values)
        check_dimensions(rows.shape[1], self.dimensions)
        if len(rows) * self.bound > MAX_SUM:
            raise too_large()
        terms = clipped_integers(rows, self.bound, self.norm)
        return np.asarray(terms.sum(axis=0, dtype=np.int64))

    def noisy(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> IntArray:
        """Return a total with noise, (D,): one draw of the round.

        Raises `Unsupported` for a ticket of another mechanism, more draws than it announces, and
        more dimensions than the event covers.
        """
        (steps,) = check_totals([total], [name])
        check_dimensions(len(steps), self.dimensions)
        self.check_ticket(ticket)
        ticket.draw(part=part)
        return np.asarray(steps + self._draw_noise(ticket.stream(name), len(steps)))

    @abstractmethod
    def _draw_noise(self, stream: Stream, count: int) -> IntArray:
        """Return the noise."""

    def _multiplier(self) -> float:
        return down(Fraction(self.scale) / self.bound)


@dataclass(frozen=True)
class DiscreteGaussian(_DiscreteNoise):
    """A sum of integers of L2 norm at most `bound`, with noise P(z) ~ e^(-z^2 / (2 scale^2)).

    >>> DiscreteGaussian(bound=2, scale=5.0).event("add-remove")
    DiscreteGaussian(noise_multiplier=2.5, sensitivity=2)
    >>> DiscreteGaussian(bound=2, scale=5.0, dimensions=10).event("add-remove")
    ZCDP(rho=0.08)
    """

    norm = "l2"
    family = "discrete-gaussian"

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one sum; see the module for vectors."""
        if self.dimensions == 1:
            return ev.DiscreteGaussian(self._multiplier(), self.bound)
        if self.scale >= CONTINUOUS_FROM:
            return ev.Gaussian(root_down((Fraction(self.scale) ** 2 - SMOOTHING) / self.bound**2))
        return ev.ZCDP(
            up((sensitivity_multiplier(relation) * self.bound / Fraction(self.scale)) ** 2 / 2)
        )

    def _draw_noise(self, stream: Stream, count: int) -> IntArray:
        return discrete_gaussian(stream, count, self.scale)


@dataclass(frozen=True)
class DiscreteLaplace(_DiscreteNoise):
    """A sum of integers of L1 norm at most `bound`, with noise P(z) ~ e^(-|z| / scale).

    >>> DiscreteLaplace(bound=1, scale=2.0).event("replace-one")
    DiscreteLaplace(noise_multiplier=2.0, sensitivity=1)
    """

    norm = "l1"
    family = "discrete-laplace"

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one sum; see the module for vectors."""
        if on_sample and relation == "replace-one" and self.dimensions > 1:
            raise Unsupported(
                "Discrete Laplace noise on sampled vectors has no event under replace-one.",
                "The pair of outcomes that would cover it is proven in one dimension.",
                "Account for add-remove, take everybody, or add Gaussian noise.",
            )
        return ev.DiscreteLaplace(self._multiplier(), self.bound)

    def _draw_noise(self, stream: Stream, count: int) -> IntArray:
        return discrete_laplace(stream, count, self.scale)


def clipped_integers(rows: IntArray, bound: int, norm: Norm) -> IntArray:
    """Return integer rows, (n, D), whose norm is at most `bound`; those within it unchanged.

    Norms are compared as integers; only rows beyond the bound are shrunk, by floats with a margin
    (`clip.clipped`), or cut off where D is 1.
    """
    # No entry may exceed the bound; that alone clips single integers, and makes squares fit.
    clipped_rows = np.clip(rows, -bound, bound)
    if rows.shape[1] == 1:
        return clipped_rows
    outside = (clipped_rows != rows).any(axis=1)
    # Norms against the bound, in int64 where D bound^2 fits, else in Python's integers: exact.
    if norm == "l1" or rows.shape[1] * bound**2 < 2**62:
        sizes = np.abs(clipped_rows) if norm == "l1" else clipped_rows * clipped_rows
        outside |= sizes.sum(axis=1) > bound ** (1 if norm == "l1" else 2)
    else:
        outside |= np.array(
            [sum(int(z) ** 2 for z in row) > bound**2 for row in clipped_rows], dtype=bool
        )
    indices = np.flatnonzero(outside)
    ones, largest = np.ones(len(indices)), np.full(len(indices), float(bound))
    clipped_rows[indices] = clipped(rows[indices], ones, largest, 1.0, norm)
    return clipped_rows


def _integers(values: ArrayLike) -> IntArray:
    array = numbers(values, "biu")
    if array is None or array.ndim not in (1, 2):
        raise InvalidInput(
            "Terms must be integers, one row for each: (n,) or (n, D).",
            next_step="Count in whole units; for real vectors use Gaussian or Laplace.",
        )
    # Beyond 2^62 every bound cuts anyway; int64 holds the rest.
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(2**62))
    whole: IntArray = array.astype(np.int64)
    return whole[:, None] if whole.ndim == 1 else whole
