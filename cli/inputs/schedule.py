"""How often noise is added and on which sample, as a person describes it by options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from ...accountant import validate
from ...accountant.errors import InvalidInput
from . import options

if TYPE_CHECKING:
    from ...accountant.events import Event

T = TypeVar("T")

CALIBRATE_EXAMPLE: Final = (
    "privplan calibrate --epsilon 2 --delta 1e-5 --records 60000 --batch 256 --epochs 10"
)


@dataclass(frozen=True)
class Schedule:
    """How often, and on which sample, noise is added; `passes` where epochs were given."""

    rounds: int
    rate: float
    passes: int | None = None

    def around(self, release: Event) -> Event:
        """Return the event of the whole run, in which every step makes `release`."""
        from ...accountant import events as ev

        step = release if self.rate == 1.0 else ev.Poisson(self.rate, release)
        return ev.Repeat(self.rounds, step)

    def text(self) -> str:
        """Return the schedule for a person."""
        steps = f"{self.rounds:,} step" + ("" if self.rounds == 1 else "s")
        if self.rate == 1.0:
            return f"{steps}, every record in every step"
        return f"{steps}, Poisson sampling, rate {self.rate:.3g}"


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
    )


def from_rounds(rate: float | None, rounds: int | None) -> Schedule:
    """Return the schedule of `rounds` steps, each on a Poisson sample at `rate`."""
    return Schedule(
        rate=required(validate.probability, rate=rate),
        rounds=required(validate.count, rounds=rounds),
    )


def required(check: Callable[..., T], **field: object) -> T:
    """Return what `check` makes of the field; raise `InvalidInput` where it is not given."""
    ((name, value),) = field.items()
    if value is None:
        raise InvalidInput(
            f"`{name}` is missing.", "Without it the noise is not determined.", CALIBRATE_EXAMPLE
        )
    return options.checked(check, **field)
