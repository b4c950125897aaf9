"""How often noise is added and on which sample, as a person describes it by options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.rounding import rate_shown
from . import options

if TYPE_CHECKING:
    from ...accountant.events import Event

T = TypeVar("T")

SAMPLERS: Final = options.SAMPLERS
POISSON, SHUFFLED, FIXED_SIZE, REPLACED, ALLOCATED, FULL = SAMPLERS

IN_PASSES: Final = (SHUFFLED, ALLOCATED)
"""Samplers whose unit is a pass: each record is used once in it, and passes are counted."""

OF_EXACT_SIZE: Final = (FIXED_SIZE, REPLACED)
"""Samplers of exactly so many draws, which a rate does not describe."""

CALIBRATE_EXAMPLE: Final = (
    "privplan calibrate --epsilon 2 --delta 1e-5 --records 60000 --batch 256 --epochs 10"
)
RECORD_OPTIONS: Final = ("records", "batch", "epochs")
RATE_OPTIONS: Final = ("rate", "rounds")
"""The two ways of giving a schedule."""


@dataclass(frozen=True)
class Schedule:
    """How often, and on which sample, noise is added.

    `rounds` are the steps, `rate` the share of the records in one; `passes` (ceil(epochs)),
    `records` and `batch` are known where epochs were given.  `sampling` is a word of `SAMPLERS`.
    """

    rounds: int
    rate: float
    passes: int | None = None
    records: int | None = None
    batch: int | None = None
    sampling: str = POISSON

    @property
    def batches(self) -> int:
        """Steps of one pass: ceil(records / batch), or ceil(1 / rate)."""
        if self.records is not None and self.batch is not None:
            return -(-self.records // self.batch)
        return steps(self.rate, 1.0)

    @property
    def repeats(self) -> int:
        """How often the event of `sampled` is repeated: passes, or steps."""
        if self.sampling not in IN_PASSES or self.rate == 1.0:
            return self.rounds
        return -(-self.rounds // self.batches) if self.passes is None else self.passes

    @property
    def shuffles(self) -> bool:
        """Whether Poisson sampling is assumed of what is usually a loader that shuffles."""
        return self.passes is not None and self.rate < 1.0 and self.sampling == POISSON

    def drawn_by(self, word: str | None) -> Schedule:
        """Return the schedule under another sampler; raise `InvalidInput` where it has none."""
        if word is None:
            return self
        drawn = replace(self, sampling=options.word(SAMPLERS, sampling=word))
        drawn._require_possible()
        return drawn

    def around(self, release: Event) -> Event:
        """Return the event of the whole run, in which every step makes `release`."""
        from ...accountant import events as ev

        return ev.Repeat(self.repeats, self.sampled(release))

    def sampled(self, release: Event) -> Event:
        """Return the event that is repeated: a step, or a pass where the sampler has passes."""
        from ...accountant import events as ev

        if self.sampling == REPLACED:
            assert self.batch is not None
            assert self.records is not None
            return ev.WithReplacement(self.batch, self.records, release)
        if self.rate == 1.0:
            return release  # every record is in every step, however it is drawn
        if self.sampling == SHUFFLED:
            return ev.ShuffledBatches(self.batches, release)
        if self.sampling == ALLOCATED:
            return ev.RandomAllocation(self.batches, 1, release)
        if self.sampling == FIXED_SIZE:
            assert self.batch is not None
            assert self.records is not None
            return ev.FixedSize(self.batch, self.records, release)
        return ev.Poisson(self.rate, release)

    def text(self) -> str:
        """Return how often, and on which sample, noise is added, for a person."""
        steps = f"{self.rounds:,} step" + ("" if self.rounds == 1 else "s")
        passes = f"{self.repeats:,} pass" + ("" if self.repeats == 1 else "es")
        if self.sampling == REPLACED:
            return f"{steps}, each of {self.batch:,} draws of {self.records:,} records, put back"
        if self.rate == 1.0:
            return f"{steps}, every record in every step"
        if self.sampling == SHUFFLED:
            return f"{passes} of {self.batches:,} shuffled batches"
        if self.sampling == ALLOCATED:
            return f"{passes} of {self.batches:,} steps, each record in 1 of them at random"
        if self.sampling == FIXED_SIZE:
            return f"{steps}, each on exactly {self.batch:,} of {self.records:,} records"
        return f"{steps}, Poisson sampling, rate {rate_shown(self.rate)}"

    def _require_possible(self) -> None:
        """Raise `InvalidInput` where a schedule does not say what its sampler needs."""
        if self.sampling == FULL and self.rate != 1.0:
            raise InvalidInput(
                "`sampling` is full, and a step uses a part of the records only.",
                "Full means that every record is in every step.",
                "Give --rounds alone, or a --batch of all --records; or name the sampler of the "
                "parts.",
            )
        if self.sampling in OF_EXACT_SIZE and self.records is None:
            raise InvalidInput(
                f"`sampling` is {self.sampling}, and `records` and `batch` are not given.",
                "A rate does not say how many records are drawn, and of how many.",
                "Give --records, --batch and --epochs in the place of --rate and --rounds.",
            )
        if self.sampling in IN_PASSES and self.rate == 0.0:
            raise InvalidInput(
                f"`rate` must be above 0 where `sampling` is {self.sampling}; it is 0.",
                "A pass has 1 / rate steps.",
                "Give a rate in (0, 1].",
            )


def given_by(context: typer.Context, example: str = CALIBRATE_EXAMPLE) -> str:
    """Return which of the two ways of giving a schedule is used: `records` or `rate`."""
    given = options.strongest(context, {"records": RECORD_OPTIONS, "rate": RATE_OPTIONS})
    if len(given) == 1:
        return given[0]
    raise InvalidInput(
        "The schedule is given twice: `records`, `batch`, `epochs` exclude `rate`, `rounds`."
        if given
        else "The schedule is missing: `records`, `batch` and `epochs`, or `rate` and `rounds`.",
        "The noise depends on how often a record is used, and one description decides that.",
        example,
    )


def protected(
    context: typer.Context, kind: str, records: int | None, units: int | None
) -> tuple[int | None, str]:
    """Return how many are protected, None where nobody said so, and what each of them is called.

    A number of records is one of units: a unit of several is one of as many, or fewer.
    """
    if kind == "rate":
        return None if units is None else options.checked(validate.count, units=units), "unit"
    groups = {"records": RECORD_OPTIONS, "units": ["units"]}
    if "units" in options.strongest(context, groups):
        raise InvalidInput(
            "`units` is given with `records`, which are the units.",
            "Delta is compared with one number only.",
            "Leave --units out, or give --rate and --rounds.",
        )
    return records, "record"


@options.option_group
class ScheduleOptions:
    """The two ways of giving a schedule, and how a batch is drawn."""

    records: options.Records = None
    batch: options.Batch = None
    epochs: options.Epochs = None
    rate: options.Rate = None
    rounds: options.Rounds = None
    sampling: options.Sampling = None

    def schedule(self, kind: str) -> Schedule:
        """Return the schedule that the options of a `kind` (see `given_by`) describe."""
        if self.sampling is not None:
            options.word(SAMPLERS, sampling=self.sampling)
        if kind == "records":
            return from_epochs(self.records, self.batch, self.epochs).drawn_by(self.sampling)
        return from_rounds(self.rate, self.rounds, self.sampling)


def from_epochs(records: int | None, batch: int | None, epochs: float | None) -> Schedule:
    """Return the schedule of `epochs` passes over `records` in batches of `batch`."""
    from decimal import Decimal

    size = required(validate.count, records=records)
    sample = required(validate.count, batch=batch)
    passes = Decimal(repr(required(validate.positive, epochs=epochs)))
    if sample > size:
        raise InvalidInput(
            f"`batch` must be at most `records` ({size}); it is {sample}.",
            "A step cannot use more records than there are.",
            "Make the batch smaller, or give the size of the whole data set.",
        )
    # Exact: a float quotient could lose the step that the ceiling should count.
    over, under = passes.as_integer_ratio()
    # ceil(epochs records / batch) steps, and ceil(epochs) uses of each record at most.
    return Schedule(
        rounds=-(-size * over // (sample * under)),
        rate=sample / size,
        passes=-(-over // under),
        records=size,
        batch=sample,
    )


def from_rounds(rate: float | None, rounds: int | None, word: str | None = None) -> Schedule:
    """Return the schedule of `rounds` steps at `rate`, drawn as `word` says.

    Where every record is in every step (`full`), the rate goes without saying.
    """
    if word == FULL and rate is None:
        rate = 1.0
    return Schedule(
        rate=required(validate.probability, rate=rate),
        rounds=required(validate.count, rounds=rounds),
    ).drawn_by(word)


def steps(rate: float, epochs: float) -> int:
    """Return epochs / rate, rounded up, exactly: both are the decimal numbers that were given.

    >>> steps(0.1, 3.0), steps(0.3, 1.0)
    (30, 4)
    """
    from fractions import Fraction

    if rate == 0.0:
        raise InvalidInput(
            "`rate` must be above 0 where `epochs` are given; it is 0.",
            "At rate 0 nobody is ever used, and no number of steps makes an epoch.",
            "Give a rate in (0, 1].",
        )
    # The decimals as typed: a float is a little off, and the ceiling would count that.
    quotient = Fraction(repr(epochs)) / Fraction(repr(rate))
    return -(-quotient.numerator // quotient.denominator)


def required(check: Callable[..., T], **field: object) -> T:
    """Return what `check` makes of the field; raise `InvalidInput` where it is not given."""
    ((name, value),) = field.items()
    if value is None:
        raise InvalidInput(
            f"`{name}` is missing.", "Without it the noise is not determined.", CALIBRATE_EXAMPLE
        )
    return options.checked(check, **field)
