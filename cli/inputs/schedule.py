"""How often noise is added and on which sample, as a person describes it by options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from ...accountant import validate
from ...accountant.errors import InvalidInput
from . import options, sampling

if TYPE_CHECKING:
    from ...accountant.events import Event

T = TypeVar("T")

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
    sampling: str = sampling.POISSON

    @property
    def batches(self) -> int:
        """Steps of one pass: ceil(records / batch), or ceil(1 / rate)."""
        if self.records is not None and self.batch is not None:
            return -(-self.records // self.batch)
        return steps(self.rate, 1.0)

    @property
    def repeats(self) -> int:
        """How often the event of `sampled` is repeated: passes, or steps."""
        if self.sampling not in sampling.IN_PASSES or self.rate == 1.0:
            return self.rounds
        return -(-self.rounds // self.batches) if self.passes is None else self.passes

    @property
    def shuffles(self) -> bool:
        """Whether Poisson sampling is assumed of what is usually a loader that shuffles."""
        return self.passes is not None and self.rate < 1.0 and self.sampling == sampling.POISSON

    def drawn_by(self, word: str | None) -> Schedule:
        """Return the schedule under another sampler; raise `InvalidInput` where it has none."""
        if word is None:
            return self
        drawn = replace(self, sampling=options.word(sampling.SAMPLERS, sampling=word))
        sampling.require_possible(drawn)
        return drawn

    def around(self, release: Event) -> Event:
        """Return the event of the whole run, in which every step makes `release`."""
        from ...accountant import events as ev

        return ev.Repeat(self.repeats, sampling.sampled(self, release))

    def text(self) -> str:
        """Return the schedule for a person."""
        return sampling.text(self)


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
            "`units` is given beside `records`, which are the units.",
            "Delta is compared with one number only.",
            "Leave --units out, or give --rate and --rounds.",
        )
    return records, "record"


@dataclass(frozen=True, kw_only=True)
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
            options.word(sampling.SAMPLERS, sampling=self.sampling)
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
    if word == sampling.FULL and rate is None:
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
