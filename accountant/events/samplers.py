"""Releases on a sample of the units, by how the sample is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

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
        _require_at_most(self, "chosen", "dimensions", "Choose fewer coordinates.")


@dataclass(frozen=True, eq=False)
class Poisson(Event):
    """`event` on a sample that each unit joins independently with probability `rate` in [0, 1].

    Source: Balle, Barthe and Gaboardi 2018, Theorem 8, arXiv 1807.01647v2.
    """

    type: ClassVar[str] = "poisson"
    rate: float = checked(validate.probability)
    event: Event = checked(event_value)


@dataclass(frozen=True, eq=False)
class TruncatedPoisson(Event):
    """`event` on a Poisson sample of a `population`, cut at random to at most `batch` units.

    `population` is the size of the larger of two neighbouring data sets, with the unit in it.
    Range: `rate` in [0, 1], 1 <= `batch` <= `population`.
    Source: derived in accountant/engines/pld/pairs/truncated.py.
    """

    type: ClassVar[str] = "truncated-poisson"
    rate: float = checked(validate.probability)
    batch: int = checked(validate.count)
    population: int = checked(validate.count)
    event: Event = checked(event_value)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_at_most(self, "batch", "population", _FEWER_UNITS)


@dataclass(frozen=True, eq=False)
class FixedSize(Event):
    """`event` on a uniformly random set of exactly `batch` of `population` units.

    Range: 1 <= `batch` <= `population`.
    Source: Balle, Barthe and Gaboardi 2018, Theorem 9, arXiv 1807.01647v2; derived in
    accountant/engines/pld/pairs/fixed_size.py.
    """

    type: ClassVar[str] = "fixed-size"
    batch: int = checked(validate.count)
    population: int = checked(validate.count)
    event: Event = checked(event_value)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_at_most(self, "batch", "population", _FEWER_UNITS)


@dataclass(frozen=True, eq=False)
class WithReplacement(Event):
    """`event` on a batch of `batch` draws, each uniform among `population` units, with replacement.

    A unit that is drawn j times contributes j bounds.  `population` is the size of the larger of
    two neighbouring data sets.  Range: both 1 or above.
    Source: Balle, Barthe and Gaboardi 2018, Theorem 10, arXiv 1807.01647v2; derived in
    accountant/engines/pld/pairs/with_replacement.py.
    """

    type: ClassVar[str] = "with-replacement"
    batch: int = checked(validate.count)
    population: int = checked(validate.count)
    event: Event = checked(event_value)


@dataclass(frozen=True, eq=False)
class ClientSampled(Event):
    """`event` inside of one client, which takes part with probability `clients_rate`, visibly.

    The unit is a record of the client, or a group of its records: they are drawn together.  For
    the whole client as unit the group needs the number of its records.  Whoever sees the release
    may know whether the client took part, so this is not a Poisson sample of records.  `event` is
    all that the client releases in one round.  Range: `clients_rate` in [0, 1].
    Neighbouring data sets differ in that unit, by the relation that is asked for, and have the same
    clients.
    Source: by definition; see accountant/engines/pld/compose/client_sampled.py.
    """

    type: ClassVar[str] = "client-sampled"
    clients_rate: float = checked(validate.probability)
    event: Event = checked(event_value)


@dataclass(frozen=True, eq=False)
class ShuffledBatches(Event):
    """One epoch: the units in random order, cut into `batches` batches, `event` on each.

    Range: `batches` 1 or above.  Under zero-out and replace-one a unit keeps its place; under
    add-remove another one moves from the end of the epoch into the place of the one that is gone.
    Source: Chua et al. 2024, arXiv 2403.17673; derived in accountant/engines/pld/pairs/batches.py.
    """

    type: ClassVar[str] = "shuffled-batches"
    batches: int = checked(validate.count)
    event: Event = checked(event_value)


@dataclass(frozen=True, eq=False)
class RandomAllocation(Event):
    """`steps` releases of `event`; each unit takes part in exactly `chosen` of them, at random.

    The set of steps is uniform, independent between units, and hidden ("balls in bins" where
    `chosen` is 1).  Range: 1 <= `chosen` <= `steps`.
    Source: Feldman and Shenfeld 2025, arXiv 2502.08202; derived in
    accountant/engines/pld/pairs/allocation.py.
    """

    type: ClassVar[str] = "random-allocation"
    steps: int = checked(validate.count)
    chosen: int = checked(validate.count)
    event: Event = checked(event_value)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_at_most(self, "chosen", "steps", "Choose fewer steps for each unit.")


_FEWER_UNITS: Final = "Make the batch smaller, or give the size of the whole data set."


def _require_at_most(event: Event, name: str, other: str, next_step: str) -> None:
    value, most = getattr(event, name), getattr(event, other)
    if value > most:
        raise InvalidInput(
            f"`{name}` must be at most `{other}` ({most}); it is {value}.", next_step=next_step
        )
