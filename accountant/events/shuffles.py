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
    Range: `users` 1 or above.  Under replace-one, or zero-out, of the message of one user; under
    add-remove their number tells who is missing, and it is refused.
    Source: Balle, Bell, Gascon and Nissim 2019, arXiv 1903.02837; Feldman, McMillan and Talwar
    2021, arXiv 2012.12803.
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
    Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, arXiv 2009.08063v4 (the protocol); derived in
    accountant/amplification/shuffling/double.py and overlap.py.
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
