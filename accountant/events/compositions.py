"""Events made of other events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from .. import validate
from ..errors import InvalidInput, with_article
from .base import Event, checked, event_value, events_value


@dataclass(frozen=True, eq=False)
class Compose(Event):
    """All of `events`, each of which may depend on what the earlier ones released.

    Source: Kairouz, Oh and Viswanath 2015, arXiv 1311.0776v4 (in general).
    """

    type: ClassVar[str] = "compose"
    events: tuple[Event, ...] = checked(events_value)


@dataclass(frozen=True, eq=False)
class Repeat(Event):
    """`event`, `count` times, each time with fresh randomness.

    Range: `count` 1 or above.
    Source: as for `Compose`.
    """

    type: ClassVar[str] = "repeat"
    count: int = checked(validate.count)
    event: Event = checked(event_value)


@dataclass(frozen=True, eq=False)
class Group(Event):
    """`event` seen by a unit that is made of `size` records.

    Range: `size` 1 or above.
    Source: Dwork and Roth 2014, Theorem 2.2; derived in accountant/amplification/group.py.
    """

    type: ClassVar[str] = "group"
    size: int = checked(validate.count)
    event: Event = checked(event_value)


NUMBERS_OF_RUNS: Final = ("fixed", "poisson", "geometric", "logarithmic", "negative-binomial")
"""The distributions that the number of runs of `BestOf` may have."""


@dataclass(frozen=True, eq=False)
class BestOf(Event):
    """The best of a random number of runs of `event` (hyper-parameter search).

    `distribution` is that of the number of runs (`fixed`, `poisson`, `geometric`, `logarithmic`,
    or the truncated `negative-binomial` of `shape`, of which geometric is shape 1 and logarithmic
    shape 0), `mean` its mean.  Range: `mean` 1 or above, but for poisson above 0 (there may be no
    run at all), and an integer when fixed; `shape` above -1, for negative-binomial only.
    Source: Papernot and Steinke 2021, arXiv 2110.03620v2.
    """

    type: ClassVar[str] = "best-of"
    distribution: str = checked(validate.choice, NUMBERS_OF_RUNS)
    mean: float = checked(validate.positive)
    event: Event = checked(event_value)
    shape: float | None = checked(validate.finite, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distribution == "fixed":
            validate.count(mean=int(self.mean) if self.mean.is_integer() else self.mean)
        if (self.shape is not None) != (self.distribution == "negative-binomial"):
            raise InvalidInput(
                "`shape` belongs to the negative-binomial distribution, which needs it.",
                next_step="Give `shape` with negative-binomial, and with no other distribution.",
            )
        if self.shape is not None and self.shape <= -1.0:
            raise InvalidInput(
                f"`shape` must be above -1; it is {self.shape:g}.",
                next_step="Give a shape such as 0.5.",
            )
        if self.distribution != "poisson" and self.mean < 1.0:
            raise InvalidInput(
                f"`mean` must be 1 or above for {with_article(self.distribution)} number of runs; "
                f"it is {self.mean:g}.",
                "At least one run is made.",
                "Give a mean of 1 or above, or a poisson number of runs, which may be 0.",
            )
