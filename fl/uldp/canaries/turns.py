"""Canaries in rounds that share correlated noise: whose turn they take, and how they are seen.

With one unit's terms x in its direction, in deviations of the noise of one round, a block releases

    y  =  x + C^-1 z,      and      v  =  C y  =  C x + z,      z of independent N(0, 1)

C is lower triangular with ones on its diagonal and public, so y and v tell the same.  The noise of
y has the covariance C^-1 C^-T, while that of v is white: what is handed to the audit is v, a row
for each round.  A server, and a silo that takes off what it sent, are sent rows of v as they are;
who sees models gets them by applying C within the block.

**The pattern.**  A unit contributes once in `cohorts` rounds, so in at most ceil(L / cohorts) of a
block of L, and bands are no more than cohorts.  So row t holds one term of it at most, that of its
last round r up to t in the block:

    (C x)_t  =  shift s_r p_t,      p_t = c_(t-r) where t - r < bands, and else 0

with its sign s_r, which is taken out.  Under the claim the rows of a unit that is out are
independent N(0, 1), and of one that is in N(shift p_t, 1).  The likelihood ratio of the two is the
matched filter

    shift sum_t p_t v_t  -  shift^2 sum_t p_t^2 / 2

which is N(-mu^2 / 2, mu^2) of a unit that is out and N(mu^2 / 2, mu^2) of one that is in, with mu =
shift |p|: no test does better (Neyman and Pearson).  A score that takes the noise of y for white,
sum_r s_r y_r, separates the two by shift k / |C^-T x| only, k being how often the unit contributes,
which is less by the inequality of Cauchy and Schwarz.  A poor score costs power alone: lower bounds
hold whatever it is.

**The cohort.** The event of a block has the sensitivity of C, the largest |C x| of any pattern.  As
coefficients are not negative and do not grow, it is that of the cohort whose turn is in the block's
first round.  Canaries are in the cohort with the largest |p| of all rounds, so of one block, and of
blocks that are whole turns of cohorts, they show what is claimed.  Of others a unit need not be in
the worst cohort of every block; where none is, the claim, which takes it to be, is above what any
unit shows, and a note says by how much.  The last block of fewer rounds than planned is paid, and
so claimed, whole.

**Blocks that were cut off.**  A process that starts again has lost its sums and begins another
block with fresh noise.  Rows are taken by the block that a round's mechanism states, so no term of
the lost block is looked for in rows of the next, and C is applied within each of them.

Sources: Kalinin and Lampert 2024, arXiv 2405.13763, Theorem 2 (the worst pattern); Denisov,
McMahan, Rush, Smith and Guha Thakurta 2022, arXiv 2202.08312, Theorem 2.1 (C y is all that is
released).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from ....accountant.arrays import FloatArray, IntArray
from ....accountant.errors import InvalidInput, counted
from ....accountant.mechanisms import BandedGaussian
from ....accountant.records import Block
from ...canaries import Coins
from ...frame.model import Parameters
from ...frame.system import System
from ...settings.schema import Settings
from ..correlated import Schedule

MAX_USERS_TIMES_SILOS: Final = 5 * 10**7
"""Most users of all cohorts, canaries among them, times silos: memory holds tables of them."""

_ALL: Final = 1.0 - 1e-9
"""A share that is so near to 1 differs from it by rounding."""


@dataclass(frozen=True)
class Turns:
    """The cohort that all canaries are in, from 0: users u with u mod cohorts = `cohort`."""

    schedule: Schedule
    cohort: int

    @classmethod
    def of(cls, settings: Settings, rounds: int | None) -> Turns | None:
        """Return the cohort that shows most in so many rounds; None where rounds share no noise."""
        schedule = Schedule.of_settings(settings)
        if schedule is None:
            return None
        rounds_run = schedule.rounds if rounds is None else min(rounds, schedule.rounds)
        # Of each round from 0 on: the end of its block, and the cohort whose turn it is.
        every = np.arange(rounds_run)
        end = np.minimum(rounds_run, (every // schedule.block_rounds + 1) * schedule.block_rounds)
        shown = _reached(schedule.block(1).coefficients, end - every)
        by_cohort = np.bincount(every % schedule.cohorts, shown)
        return cls(schedule, int(by_cohort.argmax()))

    def users(self, units: int, first: int, silos: int) -> IntArray:
        """Return the numbers of so many users of the cohort, from `first` on: (units,).

        Users between them are on the list, as the cohort follows from numbers, and have no records.
        Raises `InvalidInput` where they are too many.
        """
        cohorts = self.schedule.cohorts
        start = first + (self.cohort - first) % cohorts
        if (start + cohorts * units) * silos > MAX_USERS_TIMES_SILOS:
            raise InvalidInput(
                f"{units:,} canaries in one of {counted(cohorts, 'cohort')} are too many for "
                f"{counted(silos, 'silo')}.",
                "Users of all cohorts between them are listed too, with a weight in each silo.",
                f"Give at most {max(0, MAX_USERS_TIMES_SILOS // silos - start) // cohorts:,} "
                "canaries.",
            )
        return np.asarray(start + cohorts * np.arange(units))

    def coins(self, coins: Coins) -> Coins:
        """Return the coins with signs that alternate by turn, and from block to block.

        Noise that is used again in the next block then meets another sign, as in the next turn.
        """
        return replace(coins, turn=self.turn)

    def turn(self, number: int) -> int:
        """Return how many turns the cohort had in the planned block, plus the blocks before."""
        before, within = divmod(number - 1, self.schedule.block_rounds)
        return before + self._had(number) - self._had(number - 1 - within)

    def last(self, number: int) -> int:
        """Return the last round of the cohort up to `number`; below 1 before its first."""
        return number - (number - 1 - self.cohort) % self.schedule.cohorts

    def _had(self, number: int) -> int:
        return (number - 1 - self.cohort) // self.schedule.cohorts + 1


class BlockRecorder:
    """The rounds of a system as its mechanisms state them, and its models' sums made white.

    It watches which block each round states, and changes none of them.
    """

    def __init__(self, turns: Turns, system: System) -> None:
        self._turns = turns
        self._blocks: list[Block] = []
        self._sums: list[FloatArray] = []
        inside = cast("Any", system)
        stated: Callable[[int], BandedGaussian] = inside.banded_mechanism

        def banded_mechanism(number: int) -> BandedGaussian:
            mechanism = stated(number)
            # A round asks more than once; each time for the same block.
            self._blocks[number - 1 :] = [mechanism.block]
            return mechanism

        inside.banded_mechanism = banded_mechanism

    @property
    def pattern(self) -> FloatArray:
        """How much of its shift a unit moves each round's row by: (rounds,)."""
        rounds = enumerate(self._blocks, start=1)
        return np.array([self._entry(number, block) for number, block in rounds])

    def notes(self) -> tuple[str, ...]:
        """Return which rounds canaries were in, and what of the claim they can show."""
        turns, last, count = self._turns, self._blocks[-1], len(self._blocks)
        rounds = [number for number in range(1, count + 1) if turns.last(number) == number]
        notes = [
            f"all canaries are in cohort {turns.cohort + 1:,} of {turns.schedule.cohorts:,}, and "
            f"take part in {counted(len(rounds), 'round')} of {count:,}",
        ]
        rounds_run = count - last.first + 1
        if rounds_run < last.rounds:
            notes.append(
                f"of the last block {counted(rounds_run, 'round')} of {last.rounds:,} were "
                "made, and all are paid for and claimed"
            )
        if self.share < 1.0:
            notes.append(
                f"canaries are told apart by {self.share:.3g} times what the claim allows, which "
                "takes all rounds of each block at their worst cohort"
            )
        return tuple(notes)

    @property
    def share(self) -> float:
        """How far canaries are told apart, as a share of what the claim allows."""
        rows = self.pattern
        worst = sum(_worst(block) for block in dict.fromkeys(self._blocks))
        share = math.sqrt(float(rows @ rows) / worst)
        return share if share < _ALL else 1.0

    def shown(self, number: int) -> int:
        """Return the round whose term a row holds; the round itself where it holds none."""
        last = self._turns.last(number)
        return last if last >= self._blocks[number - 1].first else number

    def whitened(
        self, released: Callable[[Parameters, Parameters], FloatArray]
    ) -> Callable[[Parameters, Parameters], FloatArray]:
        """Return what makes rows of C y from sums y of single rounds, which `released` returns."""

        def row(before: Parameters, after: Parameters) -> FloatArray:
            number, block = len(self._blocks), self._blocks[-1]
            # As many sums as there are coefficients, or rounds in the block so far.
            lags = min(len(block.coefficients), number - block.first + 1)
            self._sums = [released(before, after), *self._sums][:lags]
            return np.asarray(block.coefficients[:lags] @ np.array(self._sums))

        return row

    def _entry(self, number: int, block: Block) -> float:
        last = self._turns.last(number)
        lag = number - last
        held = last >= block.first and lag < len(block.coefficients)
        return block.coefficients[lag] if held else 0.0


def _reached(coefficients: tuple[float, ...], left: IntArray) -> FloatArray:
    """Return how much a term shows of which so many rounds of its block are left, itself too.

    The sum of the squares of so many entries of a column of C.
    """
    squares = np.cumsum(np.square(coefficients))
    return np.asarray(squares[np.minimum(left, len(squares)) - 1])


def _worst(block: Block) -> float:
    """Return the square of the sensitivity of a block: of terms as early as they can be."""
    left = block.rounds - np.arange(0, block.rounds, block.separation)
    return float(_reached(block.coefficients, left).sum())
