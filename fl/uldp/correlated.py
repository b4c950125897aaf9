"""Correlated noise of ULDP-AVG: which users take part in which round, and what silos remember.

    round t     the users u with  u mod cohorts = (t - 1) mod cohorts,  by a public schedule
    block       `rounds / blocks` rounds, paid together: C x + z  (`mechanisms.banded_gaussian`)

A user contributes once in every `cohorts` rounds, so terms of one user are so far apart that bands
of C, of which there are no more, never hold two of them.  The schedule depends on a user's
name alone (`Federation.names`), which is public.

A silo keeps the clipped sums of its last rounds in memory, without noise, and nowhere else: a run
that was cut off has lost them, and begins another block with fresh noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import events as ev
from ...accountant import records
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput, counted
from ...accountant.mechanisms import BandedGaussian, Gaussian
from ...accountant.plan.banded_strategy import (
    MAX_ROUNDS_COMPARED,
    banded_coefficients,
    error_ratio,
    error_ratio_to_everybody,
)
from ..aggregation.clip_check import ClipCheck, SumsMadeAgain
from ..aggregation.weighted_sum import require_no_overflow
from ..frame.opening import Note
from .settings import BANDED, NOISE_ALONE, unfit_schedule

if TYPE_CHECKING:
    from ..declarations.stated_settings import StatedSettings
    from ..settings.schema import Settings

_NO_DIFFERENCE: Final = 1e-9
"""Ratios that are so near to 1 differ by rounding."""

DEFAULT_BANDS: Final = 10
"""Bands where a configuration gives none, and its cohorts are as many."""


@dataclass(frozen=True)
class Schedule:
    """The blocks of a run with correlated noise, and its cohorts of users; all public.

    Range: `rounds` a multiple of `blocks`, and `bands` at most `cohorts` and at most the rounds of
    a block.  Raises `InvalidInput`.
    """

    rounds: int
    bands: int
    cohorts: int
    blocks: int

    def __post_init__(self) -> None:
        unfit = unfit_schedule(self.rounds, self.bands, self.cohorts, self.blocks)
        if unfit is not None:
            what, why, next_step = unfit
            raise InvalidInput(f"The schedule {what}.", why, next_step)

    @classmethod
    def of(cls, given: Settings | StatedSettings) -> Schedule:
        """Return the schedule that a configuration with correlated noise makes."""
        cohorts, blocks, rounds = given.privacy.cohorts, given.privacy.blocks or 1, given.run.rounds
        assert cohorts is not None  # demanded where noise is correlated
        usual = min(DEFAULT_BANDS, cohorts, max(1, rounds // blocks))
        return cls(rounds, given.privacy.bands or usual, cohorts, blocks)

    @classmethod
    def of_settings(cls, settings: Settings) -> Schedule | None:
        """Return the schedule of a run; None where its rounds have noise of their own."""
        return cls.of(settings) if settings.privacy.noise == BANDED else None

    @property
    def block_rounds(self) -> int:
        """How many rounds a block has."""
        return self.rounds // self.blocks

    def block(self, first: int) -> records.Block:
        """Return the block that begins with a round."""
        coefficients = banded_coefficients(self.bands)
        return records.Block(first, self.block_rounds, coefficients, self.cohorts)

    def require_users(self, users: int) -> None:
        """Raise `InvalidInput` where a cohort would have no user."""
        if self.cohorts > users:
            raise InvalidInput(
                f"{self.cohorts:,} cohorts are more than the {counted(users, 'user')}.",
                NOISE_ALONE,
                "Write fewer `cohorts` in [privacy].",
            )

    def joining(self, number: int, names: IntArray) -> BoolArray:
        """Return which of the users take part in a round, by their names: (users,)."""
        return np.asarray(names % self.cohorts == (number - 1) % self.cohorts)

    @property
    def note(self) -> Note:
        """What correlated noise gains, and what an interruption loses."""
        paid = "is" if self.blocks == 1 else "are"
        lost = (
            "a run that is interrupted does not go on: more `blocks` lose less, and gain less."
            if self.blocks == 1
            else "a run that is interrupted goes on with the next block, if one is left."
        )
        gained, numbers = self._gain()
        return Note(
            "banded noise",
            (
                f"Users take part in {self.cohorts:,} cohorts, in turns; "
                f"{counted(self.blocks, 'block')} of {counted(self.block_rounds, 'round')} "
                f"{paid} paid for, each in its first round.",
                *gained,
                f"What silos remember of a block is stored nowhere, so {lost}",
            ),
            numbers,
        )

    def _gain(self) -> tuple[tuple[str, ...], dict[str, float]]:
        """Return in words and in numbers how the noise compares; nothing for very long runs."""
        if self.rounds > MAX_ROUNDS_COMPARED:
            return (), {}
        shape = self.rounds, self.bands, self.cohorts, self.blocks
        ratio, to_everybody = error_ratio(*shape), error_ratio_to_everybody(*shape)
        times = (
            f"this epsilon, what rounds add up to has {_times(ratio)} times the noise that "
            "independent rounds of the same cohorts give it, in the root mean square."
        )
        if ratio < 1.0:
            gained = f"At {times}"
        elif ratio < 1.0 + _NO_DIFFERENCE:
            gained = (
                "Nothing is gained: what rounds add up to has no less noise than with independent "
                "rounds."
            )
        else:
            gained = f"Correlated noise is a loss here: at {times}"
        everybody = (
            "Against everybody in every round, with independent noise at the same epsilon, it has "
            f"{_times(to_everybody)} times the noise; cohorts are for users who cannot take part "
            "so often."
        )
        numbers = {"error_ratio": ratio, "error_ratio_to_everybody": to_everybody}
        return (gained, everybody), numbers

    def views(self, views: Mapping[str, ev.Event]) -> dict[str, ev.Event]:
        """Return the event of a block for each observer, from those of a single round."""
        block = self.block(1)
        return {
            who: block.event(event.noise_multiplier) if isinstance(event, ev.Gaussian) else event
            for who, event in views.items()
        }

    def noise(self, alone: Gaussian, block: records.Block, number: int) -> BandedGaussian:
        """Return the noise of a round, given that of a round by itself."""
        stated = {item.name: getattr(alone, item.name) for item in fields(Gaussian)}
        return BandedGaussian(**stated, block=block, number=number)


def _times(ratio: float) -> str:
    """Return a ratio in as many digits, two or more, as tell it from 1.

    >>> _times(0.62), _times(1.0134), _times(0.99996)
    ('0.62', '1.01', '0.99996')
    """
    texts = (f"{ratio:.{digits}g}" for digits in range(2, 11))
    return next((text for text in texts if float(text) != 1.0), "1")


def require_room(mechanism: BandedGaussian, users: int) -> None:
    """Raise `InvalidInput` where the sum over so many users could overflow, over all silos."""
    largest = users * sum(Fraction(value) for value in mechanism.block.coefficients)
    require_no_overflow(largest * Fraction(mechanism.bound), mechanism.grid)


class RunningBlock:
    """The block under way: the silos' last sums without noise, and the public sums so far.

    With the sums are the same in floats, for the sealed sidecar.  It lives in memory, and is never
    saved; a block that is at its end leaves nothing there.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._block: records.Block | None = None
        self._terms: list[IntArray] = []
        self._solved: list[FloatArray] = []
        self._released = 0
        self._again: list[SumsMadeAgain] = []

    def at(self, number: int) -> records.Block:
        """Return the block of a round: the one under way, or a new one that begins with it."""
        block = self._block
        next_round = 0 if block is None else block.first + self._released
        # Also where a round is left out, whose terms are missing from the rows that follow; and
        # where a first round failed, and is made again.
        if block is None or not block.first < number <= block.last or number != next_round:
            block = self._schedule.block(number)
            self._block = block
            self._forget()
        return block

    def finish(self, number: int) -> bool:
        """Drop what is remembered, where a block ends; return whether the run has no other."""
        if self._block is None or number < self._block.last:
            return False
        self._block = None
        self._forget()
        return number + self._schedule.block_rounds > self._schedule.rounds

    def _forget(self) -> None:
        self._terms, self._solved, self._again = [], [], []
        self._released = 0

    def rows(self, mechanism: BandedGaussian, totals: IntArray) -> IntArray:
        """Return what each silo adds noise to, (silos, D), and keep its terms, (silos, D)."""
        # Before the first b - 1 rounds are made there are fewer terms, and C has fewer entries.
        last = [totals, *self._terms][: len(mechanism.block.coefficients)]
        row = mechanism.row(last)
        self._terms = last[: len(mechanism.block.coefficients) - 1]
        return row

    def checked(self, check: ClipCheck, rows: IntArray, unit: float) -> dict[str, object]:
        """Return what is sealed of the rows, made again in floats by the block of the intent."""
        items = check.items_of_rows(rows, unit, self._again)
        self._again = [check.made_again, *self._again][: self._schedule.bands - 1]
        return items

    def solved(self, mechanism: BandedGaussian, received: FloatArray) -> FloatArray:
        """Return the noisy sum of the round, (D,), from what was released of it."""
        solved = mechanism.solved(received, self._solved)
        # The latest first; of older ones no later round takes anything off.
        self._solved = [solved, *self._solved][: len(mechanism.block.coefficients) - 1]
        self._released += 1
        return solved
