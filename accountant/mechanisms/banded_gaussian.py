"""Gaussian noise that is correlated from round to round: integers on a grid, drawn exactly.

The rounds of a block have terms x_1, x_2, ... and coefficients c_0 = 1, c_1, ..., c_(b-1), which
are the bands of a Toeplitz matrix C.  In round t each silo s sends

    u_st  =  c_0 x_st + c_1 x_s(t-1) + ... + c_(b-1) x_s(t-b+1)  +  z_st          its row of C x + z

with fresh noise z.  The sum u_t over silos is public, and so is what solves the recursion

    y_t  =  u_t - c_1 y_(t-1) - ... - c_(b-1) y_(t-b+1)  =  x_t + (C^-1 z)_t

a noisy sum of round t whose noise takes off what earlier rounds had too much.  Silos keep their own
last b - 1 sums in memory for that.  No row needs the noise of an earlier round: of that a run keeps
a sample in memory, to compare the next noise with it for the sealed sidecar, as every run does.

**Why the event is `MatrixGaussian`, not an approximation of it.**  Terms stand on a grid of 2^8
steps, and coefficients are multiples of 2^-8, so C x is an integer of steps.  The noise is that of
`gaussian`, over 2^20 steps, so given the past each u_t is, up to a factor 1 +- 10^-547 for each
coordinate, a post-processing of C x + N(0, a^2), whoever chose x_t by looking at u_1, ..., u_(t-1).
One unit moves row t of C x by sum_k c_k d_(t-k), d being its terms; whatever it sees, the squares
of these rows sum to at most the square of the sensitivity of C under its participation.  A sequence
of Gaussian releases, each chosen by the earlier ones, whose squared shifts sum to at most that on
every path is no more distinguishable than one of that shift.

Sources: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Guha Thakurta and Xu 2023, arXiv
2306.08153 (banded strategies); Denisov, McMahan, Rush, Smith and Guha Thakurta 2022, arXiv
2202.08312, Theorem 2.1 (adaptive rounds); Smith and Thakurta 2022, arXiv 2210.17520 (every path).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Final, Literal, Self

import numpy as np

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, Unsupported, kind_of
from ..neighbours import Neighbours
from .base import RoundDescription
from .clip import MAX_SUM, numbers
from .gaussian import Gaussian
from .round_ticket import Ticket

COEFFICIENT_BITS: Final = 8
"""Coefficients are multiples of 2^-8, and terms stand on multiples of 2^8 steps."""

_STEPS: Final = 2**COEFFICIENT_BITS

NO_EVENT: Final = ev.Compose(())
"""What the rounds of a block state but the first: what they show is paid for there."""


@dataclass(frozen=True)
class BandedGaussian(Gaussian):
    """The Gaussian of one round `number` of a `block`, on sums that hold the last terms too.

    `std` is that of the fresh noise of each round.  The first round of the block has the event of
    all of them, which is `MatrixGaussian`, and every other round has none of its own.

    Range: as `Gaussian`, without dropouts and for terms of one unit; the coefficients of the block
    are multiples of 2^-8 from 0 to 1, the first is 1, and they are at most as many as its
    `separation`; `number` is one of its rounds.  Raises `InvalidInput`.

    >>> block = records.Block(1, 4, (1.0, 0.5), 2)
    >>> first = BandedGaussian(bound=1.0, std=4.0, block=block, number=1)
    >>> first.event("add-remove").type
    'matrix-gaussian'
    >>> replace(first, number=2).event("add-remove")
    Compose(events=())
    """

    block: records.Block = field(kw_only=True)
    number: int = field(kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.block, records.Block):
            raise InvalidInput("`block` must be a Block of rounds.")
        require_coefficients(self.block.coefficients)
        self._set_checked(number=validate.count(number=self.number))
        if len(self.block.coefficients) > self.block.separation:
            raise InvalidInput(
                f"{len(self.block.coefficients)} bands are more than the {self.block.separation} "
                "rounds between two contributions of a unit.",
                "A unit would meet itself in one row, and its terms could add up there.",
                "Give fewer bands, or more cohorts.",
            )
        if not self.block.first <= self.number <= self.block.last:
            raise InvalidInput(
                f"`number` must be a round of the block, from {self.block.first:,} to "
                f"{self.block.last:,}; it is {self.number:,}.",
                "The noise of a block is for its rounds alone.",
                "Begin a new block for later rounds.",
            )
        if self.tolerated_dropouts or self.terms != "unit":
            raise InvalidInput(
                "Correlated noise is for units' own terms, of silos that all stay.",
                "Where a silo is missing from a round, the next rounds take off what was not "
                "there.",
                "Tolerate no dropouts.",
            )
        super().__post_init__()
        _ = self.terms_alone  # its range is checked at the door

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
        block: records.Block | None = None,
        number: int | None = None,
    ) -> Self:
        """Return the mechanism whose event has at least this noise multiplier, and hardly more.

        `block` must be given; `number` is its first round where none is named.

        >>> block = records.Block(1, 4, (1.0, 0.5), 2)
        >>> given = dict(bound=1.0, relation="add-remove", block=block)
        >>> BandedGaussian.with_multiplier(5.0, **given).event("add-remove").noise_multiplier
        5.0
        """
        if not isinstance(block, records.Block):
            raise InvalidInput(
                f"`block` must be a Block of rounds; it is {kind_of(block)}.",
                "Correlated noise is accounted for all rounds of a block together.",
                "Give block=records.Block(1, 10, (1.0, 0.5), 2), for example.",
            )
        plain = Gaussian.with_multiplier(
            noise_multiplier,
            bound=bound,
            relation=relation,
            shares=shares,
            terms=terms,
            weights=weights,
            unit=unit,
            tolerated_dropouts=tolerated_dropouts,
        )
        return cls(
            bound,
            plain.std,
            shares,
            terms,
            plain.weights,
            unit,
            "public",
            tolerated_dropouts,
            block=block,
            number=block.first if number is None else number,
        )

    @cached_property
    def terms_alone(self) -> Gaussian:
        """The Gaussian on whose grid the terms of one round stand: 2^8 steps of this one's."""
        wider = self.std * _STEPS
        rest = (self.shares, self.terms, self.weights, self.unit, self.source)
        return Gaussian(self.bound, wider, *rest)

    @property
    def term_grid(self) -> float:
        """The grid of `terms_alone`."""
        return self.terms_alone.grid

    @property
    def is_first(self) -> bool:
        """Whether the whole block is paid in this round."""
        return self.number == self.block.first

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return the event of the block in its first round, and none in the others."""
        if on_sample:
            raise Unsupported(
                "Correlated noise on a random sample has no event here.",
                "Whether a unit joins a round must follow from the public schedule.",
                "Leave the sample out.",
            )
        alone = super().base_event(relation, on_sample)
        assert isinstance(alone, ev.Gaussian)
        return self.block.event(alone.noise_multiplier) if self.is_first else NO_EVENT

    def intent(self, about: RoundDescription, relation: str) -> records.RoundIntent:
        """Return the intent of the round, which says to which block it belongs."""
        if about.round != self.number:
            raise InvalidInput(f"This is the noise of round {self.number}, not of {about.round}.")
        if not self.is_first:
            views = {
                who: event if isinstance(event, ev.NoGuarantee) else NO_EVENT
                for who, event in about.views.items()
            }
            about = replace(about, event_override=NO_EVENT, views=views)
        return replace(super().intent(about, relation), block=self.block)

    def check_ticket(self, ticket: Ticket) -> None:
        """Raise `Unsupported` for a ticket whose intent states another mechanism, or block."""
        stated = ticket.intent
        if (stated.block, stated.round) != (self.block, self.number):
            raise Unsupported(
                "This ticket was opened for another block of rounds.",
                "What it pays for is not what would be drawn.",
                "Open the round with the intent of the mechanism that draws.",
            )
        super().check_ticket(ticket)

    def row(self, totals: Sequence[IntArray]) -> IntArray:
        """Return the row of C x of this round, in steps, from the `total` of the last rounds.

        `totals` are those of this round, of the one before, and so on, of equal shape: as many as
        there are coefficients, or rounds in the block so far.  Raises `InvalidInput` for others,
        and where a sum could overflow.
        """
        lags = min(len(self.block.coefficients), self.number - self.block.first + 1)
        if len(totals) != lags:
            raise InvalidInput(
                f"Round {self.number} of a block from {self.block.first} on needs the sums of "
                f"{lags} rounds; {len(totals)} are given.",
                "A row that lacks some of its terms is not what is accounted.",
                "Begin a new block where the last sums are lost.",
            )
        sums = _checked_sums(totals)
        # Every factor is an integer of 2^-8, so the row is exact.
        steps = [int(value * _STEPS) for value in self.block.coefficients[:lags]]
        largest = sum(
            factor * max(int(total.max()), -int(total.min()))
            for factor, total in zip(steps, sums, strict=True)
            if total.size
        )
        if largest > MAX_SUM:
            raise InvalidInput(
                "The sums of a silo are too many steps of the noise's grid.",
                "A row that overflows would wrap around, and no noise covers that.",
                "Give more noise for this bound, or fewer rows.",
            )
        row = np.zeros_like(sums[0])
        for factor, total in zip(steps, sums, strict=True):
            row += factor * total
        return row

    def solved(self, received: FloatArray, earlier: Sequence[FloatArray]) -> FloatArray:
        """Return y_t from the released u_t, (D,), and y_(t-1), y_(t-2), ...; post-processing."""
        solved = received.copy()
        # In floats: rounding here changes a model, and no promise.
        for coefficient, past in zip(self.block.coefficients[1:], earlier, strict=False):
            solved -= coefficient * past
        return solved


def _checked_sums(totals: Sequence[IntArray]) -> list[IntArray]:
    """Return sums on the grid, of int64 and of equal shape; raise `InvalidInput` for others."""
    sums = [numbers(total, "i") for total in totals]
    known = [each for each in sums if each is not None and each.dtype == np.int64]
    if len(known) < len(sums):
        raise InvalidInput(
            "The sums of a row must be integers on the grid, of int64.",
            "Others could be rounded or wrap around, and the noise covers neither.",
            "Use what `total` or `totals` returns.",
        )
    if len({each.shape for each in known}) > 1:
        raise InvalidInput(
            "The sums of a row must be of equal shape.",
            "Where one of them counts several times a unit moves more than is accounted.",
            "Use what `total` returns for each of the last rounds.",
        )
    return known


def require_coefficients(coefficients: Sequence[float]) -> None:
    """Raise `InvalidInput` unless these are multiples of 2^-8 in [0, 1], of which the first is 1.

    They must not grow, so that the sensitivity of the strategy is known exactly.
    """
    values = list(coefficients) if isinstance(coefficients, (list, tuple)) else []
    real = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    steps = [float(value) * _STEPS for value in values] if real else []
    whole = all(0.0 <= step <= _STEPS and step == int(step) for step in steps)
    falling = all(after <= before for before, after in pairwise(steps))
    if whole and falling and steps and steps[0] == _STEPS:
        return
    raise InvalidInput(
        "The coefficients of correlated noise must be multiples of 2^-8 from 1 down to 0, the "
        "first of them 1.",
        "On them the sums that are noised are integers, and the proof is about integers.",
        "Give (1.0, 0.5, 0.375), for example.",
    )
