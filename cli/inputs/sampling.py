"""How the records of a step are drawn: one word, and what a step releases under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ...accountant.errors import InvalidInput
from ...accountant.rounding import rate_shown
from . import options

if TYPE_CHECKING:
    from ...accountant.events import Event

SAMPLERS: Final = options.SAMPLERS
POISSON, SHUFFLED, FIXED_SIZE, REPLACED, ALLOCATED, FULL = SAMPLERS

IN_PASSES: Final = (SHUFFLED, ALLOCATED)
"""Samplers whose unit is a pass: each record is used once in it, and passes are counted."""

OF_EXACT_SIZE: Final = (FIXED_SIZE, REPLACED)
"""Samplers of exactly so many draws, which a rate does not describe."""


class SampledSteps(Protocol):
    """Steps on samples of the records: what a `Schedule` says of them."""

    @property
    def rounds(self) -> int:
        """How many steps there are."""

    @property
    def rate(self) -> float:
        """The share of the records in a step."""

    @property
    def records(self) -> int | None:
        """How many records there are, where that is known."""

    @property
    def batch(self) -> int | None:
        """How many of them are in a step on average, where that is known."""

    @property
    def sampling(self) -> str:
        """How they are drawn: a word of `SAMPLERS`."""

    @property
    def batches(self) -> int:
        """Steps of one pass."""

    @property
    def repeats(self) -> int:
        """How often the event of `sampled` is repeated."""


def sampled(schedule: SampledSteps, release: Event) -> Event:
    """Return the event that a schedule repeats: a step, or a pass where the sampler has passes."""
    from ...accountant import events as ev

    if schedule.sampling == REPLACED:
        assert schedule.batch is not None
        assert schedule.records is not None
        return ev.WithReplacement(schedule.batch, schedule.records, release)
    if schedule.rate == 1.0:
        return release  # every record is in every step, however it is drawn
    if schedule.sampling == SHUFFLED:
        return ev.ShuffledBatches(schedule.batches, release)
    if schedule.sampling == ALLOCATED:
        return ev.RandomAllocation(schedule.batches, 1, release)
    if schedule.sampling == FIXED_SIZE:
        assert schedule.batch is not None
        assert schedule.records is not None
        return ev.FixedSize(schedule.batch, schedule.records, release)
    return ev.Poisson(schedule.rate, release)


def text(schedule: SampledSteps) -> str:
    """Return how often, and on which sample, noise is added, for a person."""
    steps = f"{schedule.rounds:,} step" + ("" if schedule.rounds == 1 else "s")
    passes = f"{schedule.repeats:,} pass" + ("" if schedule.repeats == 1 else "es")
    if schedule.sampling == REPLACED:
        return (
            f"{steps}, each of {schedule.batch:,} draws of {schedule.records:,} records, put back"
        )
    if schedule.rate == 1.0:
        return f"{steps}, every record in every step"
    if schedule.sampling == SHUFFLED:
        return f"{passes} of {schedule.batches:,} shuffled batches"
    if schedule.sampling == ALLOCATED:
        return f"{passes} of {schedule.batches:,} steps, each record in 1 of them at random"
    if schedule.sampling == FIXED_SIZE:
        return f"{steps}, each on exactly {schedule.batch:,} of {schedule.records:,} records"
    return f"{steps}, Poisson sampling, rate {rate_shown(schedule.rate)}"


def require_possible(schedule: SampledSteps) -> None:
    """Raise `InvalidInput` where a schedule does not say what its sampler needs."""
    if schedule.sampling == FULL and schedule.rate != 1.0:
        raise InvalidInput(
            "`sampling` is full, and a step uses a part of the records only.",
            "Full means that every record is in every step.",
            "Give --rounds alone, or a --batch of all --records; or name the sampler of the parts.",
        )
    if schedule.sampling in OF_EXACT_SIZE and schedule.records is None:
        raise InvalidInput(
            f"`sampling` is {schedule.sampling}, and `records` and `batch` are not given.",
            "A rate does not say how many records are drawn, and of how many.",
            "Give --records, --batch and --epochs in the place of --rate and --rounds.",
        )
    if schedule.sampling in IN_PASSES and schedule.rate == 0.0:
        raise InvalidInput(
            f"`rate` must be above 0 where `sampling` is {schedule.sampling}; it is 0.",
            "A pass has 1 / rate steps.",
            "Give a rate in (0, 1].",
        )
