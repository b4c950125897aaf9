"""Messages of users that pass through a shuffler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import validate
from ..errors import InvalidInput
from .base import Event, checked, event_value


@dataclass(frozen=True, eq=False)
class Shuffle(Event):
    """Each of `users` sends one message, randomized by `event`, through a shuffler.

    One user's value lies in [-bound, +bound].
    """

    type: ClassVar[str] = "shuffle"
    users: int = checked(validate.count)
    event: Event = checked(event_value)


@dataclass(frozen=True, eq=False)
class SampledShuffle(Event):
    """Each of `users` sends `chosen` of `dimensions` coordinates through shufflers.

    A dimension is padded to `padded_to` messages; `overflow` says what happens beyond that: the
    round stops (`refuse`), or messages of that dimension are dropped, whatever they hold (`cap`).
    `granularity` is what is shuffled (`coordinate`, `tuple`), `selection` how coordinates are
    chosen (`oblivious`, `data-dependent`).  Range: `chosen` <= `dimensions`.
    """

    type: ClassVar[str] = "sampled-shuffle"
    users: int = checked(validate.count)
    dimensions: int = checked(validate.count)
    chosen: int = checked(validate.count)
    padded_to: int = checked(validate.count)
    granularity: str = checked(validate.choice, ("coordinate", "tuple"))
    selection: str = checked(validate.choice, ("oblivious", "data-dependent"))
    overflow: str = checked(validate.choice, ("refuse", "cap"))
    event: Event = checked(event_value)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chosen > self.dimensions:
            raise InvalidInput(
                f"`chosen` must be at most `dimensions` ({self.dimensions}); it is {self.chosen}.",
                next_step="Choose fewer coordinates.",
            )
