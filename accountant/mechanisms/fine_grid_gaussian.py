"""Gaussian noise on a finer grid than the terms, for terms that are divided by public numbers.

A user's weight in a silo is a fraction, c_su / N_u.  To keep to integers, a protocol computes with
m times the weights, where m is a common multiple of all that N_u can be.  With d_su the user's
clipped update as integer digits, in steps of P, what it decrypts is

    V  =  sum_s ( sum_u (m c_su / N_u) d_su  +  z_s ),        in steps of P / m

|d_su| <= B = floor(C / P) in L2, so a user whose weights sum to W at most moves V by at most W m B
fine steps: by W C, in units.  The noise stands on the grid of V: z_s are integers, in fine steps.

**Why on that grid.**  Noise m z, which is noise on the digits, leaves V mod m without any: whoever
decrypts V reads there an exact function of every user's digits.  With noise of parameter s fine
steps, V mod m is uniform up to a factor 1 +- 3 e^(-2 pi^2 (s/m)^2) or so, whatever the data are,
and what V reveals by all its digits together is what the event says.

**Why the event is `Gaussian`.**  By the argument of `gaussian`, word for word, with fine steps for
steps: one share is a discrete Gaussian (`wide_gaussian`) of variance at least a^2 + 64, a being the
stated deviation of a share, so it is a rounding of N(0, a^2) that commutes with integer shifts; and
the sum of k shares, each at least 128 steps wide, is a discrete Gaussian of variance k (a^2 + 64).
So V, in any number of dimensions, is a post-processing of continuous noise on the same integers, up
to factors that no float can show.  The bound of Kairouz, Liu and Steinke 2021 (arXiv 2102.06387v4,
Proposition 14) for sums of discrete Gaussians is made for shares a few steps wide.  Of shares as
wide as these its extra term vanishes as well, but what it leaves is concentrated differential
privacy, whose epsilon is larger than that of Gaussian noise and which no sample amplifies.

**Noise that does not fit.**  What is decrypted has room for so much, so a share beyond T ends the
round.  That depends on the noise alone: if it happens somewhere with probability p, on any data,
then it adds at most p (1 + e^epsilon) to delta.  T is 40 parameters, so p is below 10^-346 for each
coordinate of each share, which no float shows either.  At 2^-128, with 13.4 parameters, a slot for
V would be shorter by 1.6 bits at most, and this paragraph would need a reservation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, PrivplanError
from ..neighbours import Neighbours
from ..sensitivity.release import up
from .base import Mechanism
from .clip import check_bound, clipped, numbers
from .gaussian import SMOOTHING, Gaussian
from .round_ticket import Ticket
from .wide_gaussian import MAX_VARIANCE, WideGaussian

MIN_STEPS: Final = 128
"""Fine steps that the deviation of one share holds, at least."""

TAIL: Final = 40
"""Parameters after which a share of noise counts as one that does not fit."""

_DIGIT_BITS: Final = (2, 48)
"""Fewest and most bits of a digit, with its sign."""


@dataclass(frozen=True)
class FineGaussian(Mechanism):
    """A sum of weighted digits with noise on the grid of the weights; see the module.

    `bound` is C, the L2 norm of one unit's clipped vector, `std` the deviation of all shares
    together, in units, and `multiple` is m: weights are multiples of 1/m, applied elsewhere.
    A digit has `digits` bits with its sign.  Everything else is as in `Gaussian`, and so is what
    this mechanism states: the same but for the grid.

    Range: as `Gaussian`; `multiple` 1 or above, `digits` 2 to 48, and one share's deviation from
    128 steps of P/m to 2^399.  Raises `InvalidInput`.

    >>> mechanism = FineGaussian(bound=1.0, std=5.0, multiple=60, shares=3)
    >>> mechanism.event("add-remove"), mechanism.unit_grid == 2.0**-14, mechanism.largest
    (Gaussian(noise_multiplier=5.0), True, 16384)
    """

    bound: float
    std: float
    multiple: int
    shares: int = 1
    digits: int = 16
    weights: records.Weights = field(default_factory=records.Weights)
    unit: Literal["record", "user", "silo", "entry"] = "user"
    source: Literal["public", "released", "models", "private"] = "public"
    tolerated_dropouts: int = 0

    def __post_init__(self) -> None:
        self._set_checked(
            multiple=_multiple(self.multiple),
            digits=validate.count(digits=self.digits),
        )
        least, most = _DIGIT_BITS
        if not least <= self.digits <= most:
            raise InvalidInput(f"`digits` must be from {least} to {most} bits.")
        # What a plain Gaussian of the same bound and noise checks holds here as well.
        plain = self._plain
        self._set_checked(
            bound=plain.bound,
            std=plain.std,
            shares=plain.shares,
            tolerated_dropouts=plain.tolerated_dropouts,
        )
        check_bound(self.unit_grid, self.bound)
        # From 128 steps on a sum of shares is a discrete Gaussian to all digits of a float.
        if self._share_square < MIN_STEPS**2:
            raise InvalidInput(
                f"One share of the noise must be at least {MIN_STEPS} steps of the grid wide.",
                "The grid is that of the digits, divided by the multiple.",
                "Give more noise or a larger multiple; that of private weighting follows from "
                "`count_limit`.",
            )
        if self._share_square > MAX_VARIANCE / 4:
            raise InvalidInput(
                "One share of the noise must be at most 2^399 steps of the grid wide.",
                "The grid is that of the digits, divided by the multiple.",
                "Give a smaller multiple; that of private weighting follows from `count_limit`.",
            )

    @classmethod
    def of(cls, plain: Gaussian, multiple: int, digits: int = 16) -> Self:
        """Return the mechanism that states what `plain` does, on digits and fine steps.

        Raises `InvalidInput` where the terms are not a unit's own.
        """
        if plain.terms != "unit":
            raise InvalidInput(
                "Only what a unit holds itself is weighted and summed as digits.",
                "A whole silo's update moves twice as far.",
                "Clip each unit by itself.",
            )
        return cls(
            plain.bound,
            plain.std,
            multiple,
            plain.shares,
            digits,
            plain.weights,
            plain.unit,
            plain.source,
            plain.tolerated_dropouts,
        )

    @cached_property
    def _plain(self) -> Gaussian:
        """The mechanism with the same statement whose terms and noise share one grid."""
        return Gaussian(
            self.bound,
            self.std,
            self.shares,
            "unit",
            self.weights,
            self.unit,
            self.source,
            self.tolerated_dropouts,
        )

    @property
    def share_std(self) -> float:
        """The standard deviation a of one share, in units, rounded up; 64 steps^2 come on top."""
        return self._plain.share_std

    @cached_property
    def unit_grid(self) -> float:
        """The step P of the digits: the least power of two with C / P below 2^(`digits` - 1)."""
        return math.ldexp(1.0, math.frexp(self.bound)[1] - self.digits + 1)

    @cached_property
    def step(self) -> Fraction:
        """The step of the sum and its noise, P/m, in units."""
        return Fraction(self.unit_grid) / self.multiple

    @cached_property
    def largest(self) -> int:
        """The largest L2 norm of one unit's digits, B = floor(C / P), below 2^(`digits` - 1)."""
        return math.floor(Fraction(self.bound) / Fraction(self.unit_grid))

    @cached_property
    def tail(self) -> int:
        """T, in fine steps: a share of noise beyond it, in any coordinate, ends the round."""
        return self._share_noise.tail(TAIL)

    @cached_property
    def _share_square(self) -> Fraction:
        return (Fraction(self.share_std) / self.step) ** 2

    @cached_property
    def _share_noise(self) -> WideGaussian:
        """The noise of one share, in fine steps."""
        return WideGaussian.of(self._share_square + SMOOTHING)

    @property
    def contribution(self) -> records.Contribution:
        """The clip norm, of all that one unit holds in one place."""
        return self._plain.contribution

    @property
    def weights_used(self) -> records.Weights:
        """How terms are weighted."""
        return self.weights

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` sums; its grid is P/m, rounded up."""
        return replace(self._plain.noise(draws), grid=up(self.step))

    def sensitivity(self, relation: str) -> float:
        """Return by how much, in L2, one unit moves the sum, in units, rounded up."""
        return self._plain.sensitivity(relation)

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one sum: Gaussian noise of std / (sensitivity / reach), rounded down."""
        return self._plain.base_event(relation, on_sample)

    def clipped(self, rows: ArrayLike) -> IntArray:
        """Return the digits of each row, (n, D): integers of L2 norm at most `largest`, exactly.

        `rows` (n, D) are in units.  Rounded towards zero; a row that holds an infinity or no number
        counts as zero.  See `clip`.
        """
        table = numbers(rows)
        if table is None or table.ndim != 2:
            raise InvalidInput(
                "`rows` must be a table of numbers, one row per term.",
                next_step="Give an array of shape (terms, dimensions).",
            )
        limits = np.full(len(table), float(self.largest))
        return clipped(table, np.ones(len(table)), limits, self.unit_grid, "l2")

    def share(self, ticket: Ticket, count: int, name: str, part: str = "") -> list[int]:
        """Return one party's share of the noise, in fine steps: `count` integers.

        A draw is made of all shares; each party counts its own, and `name` is the stream that it
        has for itself.  Raises `PrivplanError` for noise beyond `tail`: the round ends there, and
        nothing of this party may be sent.  Raises `Unsupported` as `Gaussian.share` does.
        """
        width = validate.count(count=count)
        self.check_ticket(ticket)
        noise = self._share_noise.draw(ticket.draw_share(name, part), width)
        # The bound T depends on the noise alone: a share beyond it ends the round on any data.
        if max(noise) > self.tail or -min(noise) > self.tail:
            ticket.abort()  # whatever the caller makes of the error
            raise PrivplanError(
                "A share of the noise does not fit into the room that was made for it.",
                f"That happens with a probability below 10^-346 a number, at {TAIL} parameters.",
                "Run the round again; should it happen again, distrust the random numbers.",
            )
        return noise

    def most(self, units: int) -> int:
        """Return a bound on each number of the sum, in fine steps, for so many units.

        units x m B x `largest_sum` + shares x T: what one slot must hold, with a sign.
        """
        # Weighted digits of all units, and every share of noise at its tail.
        moved = self.multiple * self.largest * Fraction(self.weights.largest_sum)
        return math.ceil(validate.count(units=units) * moved) + self.shares * self.tail

    def units(self, total: Sequence[int]) -> FloatArray:
        """Return a sum of fine steps in units, (D,): each number rounded once, to the nearest."""
        numerator, denominator = self.step.numerator, self.step.denominator
        return np.array([int(steps) * numerator / denominator for steps in total], dtype=np.float64)


def _multiple(multiple: object) -> int:
    """Return a positive integer of any size."""
    number = 0
    if isinstance(multiple, Integral) and not isinstance(multiple, bool):
        number = int(multiple)
    if number < 1:
        raise InvalidInput(
            "`multiple` must be a positive integer.",
            "Weights are multiples of one part in so many.",
            "Give a common multiple of what weights are divided by.",
        )
    return number
