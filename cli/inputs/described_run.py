"""A run that options describe in the place of an event: its noise, and its schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import typer

from ...accountant import validate
from ...accountant.errors import InvalidInput
from . import options
from .defaults_file import silence
from .schedule import RATE_OPTIONS, RECORD_OPTIONS, SHUFFLED, Schedule, ScheduleOptions, given_by

if TYPE_CHECKING:
    from ...accountant.events import Event


def noisy_sum(mechanism: str | None, noise_multiplier: float) -> Event:
    """Return the event of one sum; `mechanism` is gaussian or laplace.  Noise 0 protects nobody."""
    from ...accountant import events as ev

    if noise_multiplier == 0.0:
        return ev.NoGuarantee("no noise is added")
    return ev.Laplace(noise_multiplier) if mechanism == "laplace" else ev.Gaussian(noise_multiplier)


ACCOUNT_EXAMPLE: Final = (
    "privplan account --noise-multiplier 1.1 --records 60000 --batch 256 --epochs 15 --delta 1e-5"
)
RUN_OPTIONS: Final = ("noise_multiplier", *RECORD_OPTIONS, *RATE_OPTIONS, "sampling", "mechanism")
"""The options that describe a run."""


@dataclass(frozen=True)
class DescribedRun:
    """A run of noisy sums: `schedule` says how many, and of which records."""

    noise_multiplier: float
    mechanism: str
    schedule: Schedule
    kind: str
    """`records` or `rate`: by which options the schedule was given."""
    group: int = 1
    """How many records one unit holds."""

    @property
    def event(self) -> Event:
        """The event of the whole run, as it concerns one unit."""
        run = self.schedule.around(noisy_sum(self.mechanism, self.noise_multiplier))
        return grouped(run, self.group)

    @property
    def is_shuffled(self) -> bool:
        """Whether batches are cut from a random order, and there are several."""
        return self.schedule.sampling == SHUFFLED and self.schedule.rate < 1.0

    def drawn_by(self, sampler: str) -> DescribedRun:
        """Return the run under another sampler."""
        schedule = self.schedule.drawn_by(sampler)
        return replace(self, schedule=schedule)


def grouped(event: Event, size: int) -> Event:
    """Return an event as it concerns a unit of `size` records."""
    from ...accountant import events as ev

    return event if size == 1 else ev.Group(size, event)


@dataclass(frozen=True)
class SoughtNoise:
    """A run of noisy sums whose noise is sought, and how a loss is counted."""

    schedule: Schedule
    mechanism: str
    neighbours: str
    group: int
    engine: str | None

    def event_at(self, noise: float) -> Event:
        """Return the event of the whole run with a noise multiplier, as it concerns one unit."""
        return grouped(self.schedule.around(noisy_sum(self.mechanism, noise)), self.group)

    def meaning_of(self, noise: str) -> str:
        """Return what a noise multiplier means for what is added, in words."""
        if self.mechanism == "laplace":
            return f"scale = {noise} x L1 bound of one contribution"
        return f"standard deviation = {noise} x clip norm"

    def rows(self) -> list[tuple[str, str]]:
        """Return the schedule as rows of a table, and the unit where it is several records."""
        over = [("over", self.schedule.text())]
        return over + [("per unit of", f"{self.group:,} records")] * (self.group > 1)


@options.option_group
class RunOptions(ScheduleOptions):
    """A run of noisy sums, in the place of an event."""

    noise_multiplier: options.NoiseMultiplier = None
    mechanism: options.Mechanism = "gaussian"


def described(
    context: typer.Context, event: str | None, asked: RunOptions, group: int
) -> DescribedRun | None:
    """Return the run that the options describe; None where an event is given.

    Raises `InvalidInput` where both are given, or neither, and as `ScheduleOptions.schedule` does.
    """
    if event is not None:
        _refuse_with_an_event(context)
        return None
    if asked.noise_multiplier is None:
        raise InvalidInput(
            "There is neither an EVENT nor --noise-multiplier.",
            "What was released is described by an event, or by noise, sampling and steps.",
            ACCOUNT_EXAMPLE,
        )
    mechanism = options.word(options.MECHANISMS, mechanism=asked.mechanism)
    kind = given_by(context, ACCOUNT_EXAMPLE)
    schedule = asked.schedule(kind)
    multiplier = options.checked(validate.non_negative, noise_multiplier=asked.noise_multiplier)
    return DescribedRun(multiplier, mechanism, schedule, kind, group)


def _refuse_with_an_event(context: typer.Context) -> None:
    """Raise `InvalidInput` where a flag describes a run that an event describes already."""
    for name in RUN_OPTIONS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(
                f"An EVENT is given, and --{name.replace('_', '-')} with it.",
                "An event says by itself what its noise is, how it is sampled and how often.",
                f"Leave out one of them, as in: {ACCOUNT_EXAMPLE}",
            )
    silence(context, RUN_OPTIONS)
