"""What an accountant answers: epsilon and delta between bounds, and how it got there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .errors import EnginesDisagree, InvalidInput
from .neighbours import NEIGHBOURS, Neighbours, as_neighbours

__all__ = [
    "NEIGHBOURS",
    "Bounds",
    "Guarantee",
    "Neighbours",
    "Step",
    "agreed",
    "as_neighbours",
    "unique_steps",
]


@dataclass(frozen=True, eq=False)
class Bounds:
    """A number known to lie in [`lower`, `upper`]; both may be infinite.

    An interval that holds a single number equals that number.

    >>> Bounds(1e-5, 1e-5) == 1e-5
    True
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper) or self.lower > self.upper:
            raise InvalidInput(
                f"Bounds must be ordered numbers; they are {self.lower!r} and {self.upper!r}."
            )

    @classmethod
    def exactly(cls, value: float) -> Bounds:
        """Return the interval that holds one number."""
        return cls(value, value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Bounds):
            return (self.lower, self.upper) == (other.lower, other.upper)
        if isinstance(other, (int, float)) and not isinstance(other, bool):
            return self.lower == other == self.upper
        return NotImplemented

    def __hash__(self) -> int:
        # Equal to a number means hashed like it.
        return hash(self.lower) if self.lower == self.upper else hash((self.lower, self.upper))

    @property
    def gap(self) -> float:
        """Width of the interval."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower


def agreed(
    lower: float,
    upper: float,
    shown: str = "A test shows",
    proven: str = "and",
    rounding: float = 0.0,
) -> Bounds:
    """Return bounds on one number from two arguments, where both can be true.

    Every such contradiction is decided here: `lower` may exceed `upper` by the relative `rounding`,
    and then counts as `upper`.  Raises `EnginesDisagree` beyond, in the words for what has been
    `shown` to be at least `lower` and `proven` to be at most `upper`.
    """
    if lower > upper * (1.0 + rounding):
        raise EnginesDisagree(
            f"{shown} at least {lower:.17g}, {proven} at most {upper:.17g}.",
            "Both cannot be true, so one of them is wrong and no number is given.",
            "Please report this event to the authors of privplan; one engine alone may answer.",
        )
    return Bounds(min(lower, upper), upper)


@dataclass(frozen=True)
class Step:
    """One step of a derivation.

    `stage` is mechanism, sampling, shuffling, group, composition, conversion or cross-check;
    `statement` what the step shows; `source` where the argument stands; `conditions` what was
    checked for it to hold.
    """

    stage: Literal[
        "mechanism", "sampling", "shuffling", "group", "composition", "conversion", "cross-check"
    ]
    statement: str
    source: str
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Guarantee:
    """What is proven: with probability bound `delta`, the loss of one unit is at most `epsilon`.

    `epsilon` and `delta` are `Bounds`; the one that was asked about holds a single number.  The
    upper end is the guarantee; the lower end says that nothing smaller is true of the mechanism (0
    where no lower bound is known).  Where the event names a class of mechanisms by stated numbers
    (`Pure`, `Approximate`, `Local`), `lower_of_class` is true, and the lower end is that of the
    worst of them: another may lose less.  `unit`, `neighbours` and `observer` say what is protected
    and from whom; `derivation` how the number follows.
    """

    epsilon: Bounds
    delta: Bounds
    neighbours: Neighbours
    engine: str
    unit: str = "record"
    observer: str = "model"
    derivation: tuple[Step, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)
    lower_of_class: bool = False


def unique_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps in order, each once."""
    return tuple(dict.fromkeys(steps))
