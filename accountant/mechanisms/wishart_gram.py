"""Wishart noise on a Gram matrix, as published for private PCA; no guarantee covers it.

Rows x of norm at most 1 stand on the grid as integers q (`gram_rows`).  Every silo releases

    sum q q^T + Z Z^T        Z: d x (d+1) integers of N(0, (sigma 2^b)^2), sigma^2 = 1 / (2 epsilon)

exactly, as integers modulo 2^64: the same grid and the same exact sums as `gram_noise`, and no
rounding of Z Z^T that could hide, or make, a negative eigenvalue.

**Why there is no guarantee.**  Z Z^T has no negative eigenvalue.  Whoever knows all rows but x
subtracts them and x x^T: where x is in the sum, Z Z^T is left, and where it is not, a negative
eigenvalue with probability 1 - e^{-epsilon |x|^2}.  So delta is that at every epsilon, for one silo
whose release is seen by itself (`accountant.sensitivity.wishart`, exactly).

Source of the mechanism: Cao et al. 2023, *Differentially Private Federated Learning with
Functional Mechanism*, Chinese Journal of Computers, Algorithm 2 (LDP-FPCA).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, Self

import numpy as np

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours
from ..randomness import Stream
from ..sensitivity.gram import GramBound, sensitivity
from .base import Mechanism, require_total
from .discrete_sampler import discrete_gaussian
from .gram_grid import (
    MAX_BITS,
    MIN_BITS,
    MIN_SHARE_STEPS,
    check_bits,
    gram_contribution,
    grid_step,
    label_scale,
)
from .gram_row_grid import EXACT
from .round_ticket import Ticket

WISHART_EVENT: Final = ev.NoGuarantee(
    "Wishart noise on a covariance matrix, as published: it has no negative eigenvalue, so whoever "
    "knows the other records of a silo may see for certain that one is absent"
)
"""What is stated of every release with such noise, before every observer."""

_FARTHEST_DEVIATIONS: Final = 64
"""A Gaussian number beyond so many deviations has probability below 2^-2900."""


@dataclass(frozen=True, kw_only=True)
class WishartGram(Mechanism):
    """X^T X of rows of norm 1, with Wishart noise of d + 1 degrees of freedom in every silo.

    - `gram`: the shape, d columns without labels, and the bounds on one unit.
    - `std`: sigma, the deviation of the entries of Z, relative to the row norm 1, above 0.
    - `bits`: b, 8 to 20 (`wishart_bits`).
    - `shares`: how many silos add Z Z^T of their own to their own matrix.
    - `row_norm`: R, to which rows are clipped before they are divided by it; public.

    Its event is `NoGuarantee` under every relation.  Raises `InvalidInput` for what is out of
    range, for labels, and for noise that does not suit the grid.

    >>> mechanism = WishartGram.as_published(
    ...     0.6, gram=GramBound(dimension=8), bits=16, shares=3)
    >>> mechanism.freedom, round(mechanism.std, 4), mechanism.event("add-remove").type
    (9, 0.9129, 'no-guarantee')
    """

    gram: GramBound
    std: float
    bits: int
    shares: int = 1
    unit: Literal["record", "user", "silo"] = "record"
    row_norm: float = 1.0

    def __post_init__(self) -> None:
        validate.choice(("record", "user", "silo"), unit=self.unit)
        self._set_checked(
            std=validate.positive(std=self.std),
            bits=validate.count(bits=self.bits),
            shares=validate.count(shares=self.shares),
            row_norm=validate.positive(row_norm=self.row_norm),
        )
        check_bits(self.bits)
        if self.gram.classes or self.gram.row_square > 1:
            raise InvalidInput(
                "Wishart noise is added to products of rows of norm 1, without labels.",
                "Nothing is published of any other sum.",
                "Give `classes` = 0, and a trace of at most one for each row.",
            )
        if not _suits(self.std, self.bits):
            raise InvalidInput(
                f"On a grid of {self.bits} bits the entries of Z have a deviation of "
                f"{self.std * 2.0**self.bits:.3g} steps.",
                f"It must be {MIN_SHARE_STEPS:,} or more, and products of two entries must be "
                "exact in float64.",
                "Take the bits that `wishart_bits` returns.",
            )

    @classmethod
    def as_published(
        cls,
        epsilon: float,
        *,
        gram: GramBound,
        bits: int,
        shares: int = 1,
        unit: Literal["record", "user", "silo"] = "record",
        row_norm: float = 1.0,
    ) -> Self:
        """Return the mechanism that is published for `epsilon` > 0, which it does not give.

        Raises as the class does.
        """
        std = published_deviation(epsilon)
        return cls(gram=gram, std=std, bits=bits, shares=shares, unit=unit, row_norm=row_norm)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of one silo's noise: d + 1."""
        return self.gram.dimension + 1

    @cached_property
    def grid(self) -> float:
        """The step on which released numbers stand, 4^-b."""
        return grid_step(self.gram, self.bits, "laplace")

    @cached_property
    def label_scale(self) -> int:
        """Without effect: there are no labels."""
        return label_scale(self.gram.classes, self.bits)

    @property
    def contribution(self) -> records.Contribution:
        """The Frobenius norm of all that one unit adds, and the facts that it follows from."""
        gram = self.gram
        bound = gram.l2("add-remove")
        return gram_contribution(gram, bound, "l2", self.unit, self.row_norm, self.bits)

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` releases, in units of the row norm 1."""
        return records.Noise(
            "wishart", self.std, self.shares, self.std, 0, draws, self.grid, self.freedom
        )

    def sensitivity(self, relation: str) -> float:
        """Return how far one unit moves the sum, in the Frobenius norm; no noise is made for it."""
        return sensitivity(self.gram, relation, unit=self.unit).l2

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return `WISHART_EVENT`; raises `Unsupported` on a sample: none is published."""
        if on_sample:
            raise Unsupported(
                "Covariance matrices are released of all units.",
                "Nothing is published of a sample, and it would have no guarantee either.",
                "Leave the sampling rate out.",
            )
        return WISHART_EVENT

    def units(self, steps: IntArray) -> FloatArray:
        """Return released integers (values,) as floats, of rows of norm 1: the upper triangle."""
        return steps.astype(np.float64) * 4.0**-self.bits

    def share_steps(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> IntArray:
        """Return one silo's exact total (values,) with Z Z^T of its own, modulo 2^64.

        Raises `Unsupported` for a ticket of another mechanism and for a share too many,
        `InvalidInput` for a total of another shape.
        """
        why = "Z Z^T has as many numbers, on the same grid."
        require_total(total, self.gram.values, "gram_rows.gram_total", why)
        self.check_ticket(ticket)
        return total + self._noise_of_share(ticket.draw_share(name, part))

    def _noise_of_share(self, stream: Stream) -> IntArray:
        """Draw Z, row by row of Z^T, and return the upper triangle of Z Z^T: (values,)."""
        d = self.gram.dimension
        drawn = discrete_gaussian(stream, self.freedom * d, self.std * 2.0**self.bits)
        columns = drawn.reshape(self.freedom, d).astype(np.float64)
        product = np.zeros((d, d), np.int64)
        # As many columns at once as float64 adds without error, by the largest entry.
        step = max(1, int(EXACT // max(1.0, float(np.square(columns).max()))))
        for first in range(0, self.freedom, step):
            block = columns[first : first + step]
            product += (block.T @ block).astype(np.int64)
        return product[np.triu_indices(d)]


def published_deviation(epsilon: float) -> float:
    """Return the published deviation of the entries of Z: sqrt(1 / (2 epsilon)), epsilon > 0.

    >>> published_deviation(0.5)
    1.0
    """
    return math.sqrt(0.5 / validate.positive(epsilon=epsilon))


def wishart_bits(gram: GramBound, *, most_rows: int, std: float, shares: int = 1) -> int:
    """Return the most bits, up to 20, with which sums fit into 64 bits and Z suits the grid.

    As `grid_bits`: N = `most_rows` rows of norm 1, with the noise of all `shares`, stay below 2^62.
    A diagonal entry of Z Z^T is sigma^2 chi^2 of d + 1 degrees of freedom, here up to a probability
    of e^-1000.  Raises `InvalidInput` where no grid of 8 bits or more suits.

    >>> wishart_bits(GramBound(dimension=64), most_rows=1_000_000, std=0.9129)
    20
    """
    rows = validate.count(most_rows=most_rows)
    sigma, silos = validate.positive(std=std), validate.count(shares=shares)
    freedom = gram.dimension + 1
    # P(chi^2_k > k + 2 sqrt(k t) + 2 t) <= e^-t (Laurent and Massart 2000, Lemma 1), t = 1000.
    tail = (freedom + 2.0 * math.sqrt(freedom * 1000.0) + 2000.0) * sigma**2
    largest = rows * float(gram.row_square) + silos * tail
    for bits in range(MAX_BITS, MIN_BITS - 1, -1):
        if largest * 4.0**bits < 2.0**62 and _suits(sigma, bits):
            return bits
    raise InvalidInput(
        f"No grid of {MIN_BITS} to {MAX_BITS} bits suits {rows:,} rows with this noise.",
        "Sums would wrap around in 64 bits, or entries of Z would be too coarse or too wide.",
        "Give fewer rows, or another epsilon.",
    )


def _suits(std: float, bits: int) -> bool:
    """Return whether entries of Z are fine enough, and products of two exact in floats."""
    steps = std * 2.0**bits
    return steps >= MIN_SHARE_STEPS and (_FARTHEST_DEVIATIONS * steps) ** 2 < EXACT
