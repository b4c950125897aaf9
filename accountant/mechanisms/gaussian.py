"""Gaussian noise on sums of clipped vectors: integers on a grid, drawn exactly.

Floats leak: the sum of a float and a float Gaussian shows by its last bits what was added to what
(Mironov 2012).  Here terms stand on a grid of step g (`clip`), their sum is an integer, and so is
the noise: a discrete Gaussian whose parameter t is over 2^20 steps, drawn exactly
(`discrete_sampler`).  Only the noisy integer becomes a float.

**Why the event is `Gaussian`, not an approximation of it.**  Let a^2 = t^2 - 64, and let K(y) round
a real number y to an integer k with probability ~ e^(-(k - y)^2 / 128).  K commutes with integer
shifts, so K(q + N(0, a^2)) is a post-processing of continuous noise on the integer sum q.  Given
its definition, P(K(N) = k) is the integral of the density of N(0, a^2) at y times
e^(-(k - y)^2 / 128) / S(y), where S(y) sums that exponential over all integers; by Poisson
summation S(y) = sqrt(128 pi) (1 + h), |h| < 3 e^(-128 pi^2), whatever y.  With S constant the
integral is the density of N(0, t^2) at k.  So at every k

    P(discrete Gaussian of parameter t = k)  =  P(K(N(0, a^2)) = k)  up to a factor 1 +- 10^-547,

and what this mechanism releases is, up to that factor for each coordinate, a post-processing of
N(0, a^2) on the same sum, in any number of dimensions and on any sample.  `share_std` is a, in
units: t is made from it by adding the 64, so the stated noise is exactly what is accounted.  A sum
of shares is a discrete Gaussian of parameter (sum t^2)^(1/2) up to a factor 1 +- e^(-10^11), by the
same summation, so what holds for one holds for any set of shares.  No such factor is visible in an
epsilon or a delta that a float can hold.

Sources: Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5; Peikert 2010 (rounding by a discrete
Gaussian, its Theorem 3.1); the argument above is self-contained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar, Final, Literal, Self

import numpy as np

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, Unsupported, kind_of
from ..neighbours import Neighbours, as_neighbours
from ..randomness import Stream
from ..sensitivity.release import multiplier, root_up, sensitivity_multiplier, up
from .base import require_share, share_deviation
from .clip import ClippedSums, check_bound, check_totals
from .discrete_sampler import discrete_gaussian
from .noisy_sums import NoisySums
from .round_ticket import Ticket

LOG2_STEPS: Final = 20
"""One share's standard deviation is from 2^20 to 2^21 steps of the grid."""

SMOOTHING: Final = 64
"""What is added to the variance of a share, in steps^2; see the module."""


@dataclass(frozen=True)
class Gaussian(ClippedSums):
    """The sum of terms of L2 norm at most `bound`, with Gaussian noise of deviation `std`.

    noisy = sum_i w_i clip(x_i) + N(0, std^2), as `shares` independent shares: each party adds one,
    of variance std^2 / (shares - tolerated_dropouts), and their sum has at least std^2.  `terms`
    says what one term is: all of one `unit` (`unit`), or the update of a whole silo, which a unit
    moves across the ball (`silo-delta`).  `weights.largest_sum` bounds the weights of one unit
    together; whoever makes them checks it.  `source` says where `bound` comes from.

    Range: `bound` and `std` above 0, `shares` 1 or above, `tolerated_dropouts` below `shares`, and
    one share's std below 2^20 bounds.  Raises `InvalidInput`.

    >>> mechanism = Gaussian(bound=1.0, std=4.0)
    >>> mechanism.event("add-remove"), mechanism.event("replace-one")
    (Gaussian(noise_multiplier=4.0), Gaussian(noise_multiplier=4.0))
    >>> mechanism.sensitivity("replace-one"), mechanism.grid == 2.0**-18
    (2.0, True)
    """

    norm: ClassVar[Literal["l1", "l2"]] = "l2"
    bound: float
    std: float
    shares: int = 1
    terms: Literal["unit", "silo-delta"] = "unit"
    weights: records.Weights = field(default_factory=records.Weights)
    unit: Literal["record", "user", "silo", "entry"] = "user"
    source: Literal["public", "released", "models", "private"] = "public"
    tolerated_dropouts: int = 0

    def __post_init__(self) -> None:
        self._set_checked(
            bound=validate.positive(bound=self.bound),
            std=validate.positive(std=self.std),
            shares=validate.count(shares=self.shares),
            tolerated_dropouts=validate.count_from(0, tolerated_dropouts=self.tolerated_dropouts),
        )
        validate.choice(("unit", "silo-delta"), terms=self.terms)
        if not isinstance(self.weights, records.Weights):
            raise InvalidInput(f"`weights` must be Weights; it is {kind_of(self.weights)}.")
        validate.positive(largest_sum=self.weights.largest_sum)
        require_share(self.shares, self.tolerated_dropouts)
        check_bound(self.grid, self.bound)

    @classmethod
    def with_multiplier(
        cls,
        noise_multiplier: float,
        *,
        bound: float,
        relation: str,
        shares: int = 1,
        terms: Literal["unit", "silo-delta"] = "unit",
        weights: records.Weights | None = None,
        unit: Literal["record", "user", "silo", "entry"] = "user",
        tolerated_dropouts: int = 0,
    ) -> Self:
        """Return the mechanism whose event has at least this noise multiplier, and hardly more.

        >>> mechanism = Gaussian.with_multiplier(5.0, bound=0.1, relation="add-remove")
        >>> mechanism.event("add-remove")
        Gaussian(noise_multiplier=5.0)
        """
        rule = weights or records.Weights()
        # Sensitivity does not depend on the noise: any noise does to read it off.
        unit_noise = cls(bound, bound, shares, terms, rule, unit, "public", tolerated_dropouts)
        moved = Fraction(unit_noise.sensitivity(relation)) / sensitivity_multiplier(
            as_neighbours(relation)
        )
        std = up(Fraction(validate.positive(noise_multiplier=noise_multiplier)) * moved)
        return cls(bound, std, shares, terms, rule, unit, "public", tolerated_dropouts)

    @cached_property
    def share_std(self) -> float:
        """The standard deviation of one share, rounded up."""
        return share_deviation(self.std, self.shares, self.tolerated_dropouts)

    @cached_property
    def grid(self) -> float:
        """The step on which sums and noise stand: a power of two, below share_std / 2^20."""
        return math.ldexp(1.0, math.frexp(self.share_std)[1] - 1 - LOG2_STEPS)

    @cached_property
    def _parameter(self) -> float:
        """The parameter t of the discrete Gaussian, in steps."""
        return root_up((Fraction(self.share_std) / Fraction(self.grid)) ** 2 + SMOOTHING)

    @property
    def contribution(self) -> records.Contribution:
        """The clip norm, and what it bounds."""
        return records.Contribution(self.bound, "l2", self.unit, self.terms, self.source)

    @property
    def weights_used(self) -> records.Weights:
        """How terms are weighted."""
        return self.weights

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` sums."""
        stated = (self.std, self.shares, self.share_std, self.tolerated_dropouts)
        return records.Noise("gaussian", *stated, draws, self.grid)

    def sensitivity(self, relation: str) -> float:
        """Return by how much, in L2, one unit moves the whole sum, rounded up.

        bound x largest_sum, twice that under `replace-one`; 2 x bound x shares for silos' updates,
        one share for each silo, under every relation.
        """
        # A unit's clipped term goes (1 bound) or is exchanged (2); the clipped update of a silo may
        # cross the ball, in every silo, whatever the relation.
        times = sensitivity_multiplier(as_neighbours(relation))
        if self.terms == "silo-delta":
            times = 2 * self.shares
        return up(Fraction(self.bound) * Fraction(self.weights.largest_sum) * times)

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one sum: Gaussian noise of std / (sensitivity / sensitivity multiplier), down.

        Refuses silos' updates on a sample unless units come or go: without the unit an update may
        be 2 x bound away from what it is with either of its data, and no event says so.
        """
        if self.terms == "silo-delta" and on_sample and relation != "add-remove":
            raise Unsupported(
                f"Silos' updates on a sample have no event under {relation}.",
                "A unit that is not drawn leaves an update that may be far from both data sets'.",
                "Give neighbours = 'add-remove', or let every unit join each round.",
            )
        return ev.Gaussian(multiplier(self.std, self.sensitivity(relation), relation))

    def noisy(
        self, ticket: Ticket, totals: Sequence[IntArray], names: Sequence[str], part: str = ""
    ) -> list[FloatArray]:
        """Return each total with a share of noise of its own, in units: one draw of the round.

        `totals` are sums on the grid, (D,) each, one for every share that takes part; `names` name
        the streams, all different.  `part`: see `Ticket.draw`.  Raises `Unsupported` for a ticket
        of another mechanism, and for more draws, or fewer shares, than it announces.
        """
        return [self.units(steps) for steps in self.noisy_steps(ticket, totals, names, part)]

    def noisy_steps(
        self, ticket: Ticket, totals: Sequence[IntArray], names: Sequence[str], part: str = ""
    ) -> list[IntArray]:
        """Return what `noisy` does, as integers: in steps of the grid.

        Their sum fits in 64 bits, and is the same whoever adds them up, and in whatever order.
        """
        # Everything is checked and counted before the first random byte is drawn.
        sums = check_totals(totals, names)
        self.check_ticket(ticket)
        ticket.draw(len(sums), part)
        return [
            self._with_noise(ticket.stream(name), total)
            for total, name in zip(sums, names, strict=True)
        ]

    def steps(
        self,
        ticket: Ticket,
        names: Sequence[str],
        parts: Sequence[str],
        *,
        width: int,
        count: int,
    ) -> NoisySums:
        """Return what gives `count` sums of each party noise, one after the other; see `NoisySums`.

        What comes of it is what `noisy` makes for each sum by itself, of other random numbers.
        `names` name the streams, `parts` the disjoint sets of units.  Raises as `noisy`.
        """
        self.check_ticket(ticket)
        draw = partial(discrete_gaussian, scale=self._parameter)
        return NoisySums(
            ticket, draw, self.grid, names=names, parts=parts, width=width, count=count
        )

    def share(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> FloatArray:
        """Return one party's total with its share of the noise; a draw is made of all shares.

        For parties that draw their shares apart; `noisy` draws all of them.
        """
        return self.units(self.share_steps(ticket, total, name, part))

    def share_steps(self, ticket: Ticket, total: IntArray, name: str, part: str = "") -> IntArray:
        """Return what `share` does, as integers: in steps of the grid, (D,).

        Every party's total is below 2^62 here; that all of them together stay below it, whoever
        adds them up must know.
        """
        (total,) = check_totals([total], [name])
        self.check_ticket(ticket)
        return self._with_noise(ticket.draw_share(name, part), total)

    def units(self, steps: IntArray) -> FloatArray:
        """Return integers on the grid as floats, in units; sums are made before, of integers."""
        return steps.astype(np.float64) * self.grid

    def _with_noise(self, stream: Stream, total: IntArray) -> IntArray:
        noise = discrete_gaussian(stream, len(total), self._parameter)
        return np.asarray(total + noise)
