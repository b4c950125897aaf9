"""The vocabulary: frozen values that say what a run released, and nothing about what it cost.

An event describes a mechanism; engines interpret it.  The meaning of an event never changes: a
new meaning is a new event.  A **noise multiplier** is the standard deviation (Laplace: the scale)
divided by the contribution bound of one unit, so the sum moves by at most one bound when a unit
comes or goes, and by at most two when it is replaced.  A bare `epsilon`, `delta` or `rho` holds
for the neighbouring relation that is named when the event is accounted.

Every event is validated when it is made, and travels as JSON: an object with `type` and the
fields of the class, both drawn from a closed list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .. import validate
from ..errors import InvalidInput, kind_of

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

MAX_DEPTH: Final = 64
"""Deepest nesting that is read from JSON or accounted."""

_HASH_FIELD: Final = "_hash"
"""Where an event keeps its hash."""


def _checked(check: Callable[..., object], *leading: object) -> Any:
    return field(metadata={"check": lambda **given: check(*leading, **given)})


def _event(**given: object) -> Event:
    ((name, value),) = given.items()
    if not isinstance(value, Event):
        raise InvalidInput(
            f"`{name}` must be an event; it is {kind_of(value)}.",
            next_step="Give an event such as Gaussian(1.0).",
        )
    return value


def _events(**given: object) -> tuple[Event, ...]:
    ((name, value),) = given.items()
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(
            f"`{name}` must be a list of events; it is {kind_of(value)}.",
            next_step="Give a list such as [Gaussian(1.0), Laplace(2.0)].",
        )
    return tuple(_event(**{f"{name}[{index}]": item}) for index, item in enumerate(value))


def _sentence(**given: object) -> str:
    ((name, value),) = given.items()
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(
            f"`{name}` must be a sentence that says why.",
            next_step=f"Give `{name}` some text.",
        )
    return value


@dataclass(frozen=True, eq=False)
class Event:
    """One thing that was released; the base of the closed list of events."""

    type: ClassVar[str] = ""

    # `exchange` knows every event and sets this: so that definitions need not import their users.
    export: ClassVar[Callable[[Event], DpEvent]]

    def __post_init__(self) -> None:
        # Each field has its check; frozen instances are set to the canonical value.
        for item in fields(self):
            value = item.metadata["check"](**{item.name: getattr(self, item.name)})
            object.__setattr__(self, item.name, value)

    def __hash__(self) -> int:
        # Cached with the object: an event that is shared on many levels is hashed once.
        cached: int | None = self.__dict__.get(_HASH_FIELD)
        if cached is None:
            cached = hash((self.type, *_values(self)))
            object.__setattr__(self, _HASH_FIELD, cached)
        return cached

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return self is other or (hash(self) == hash(other) and _equal(self, other))

    def __getstate__(self) -> dict[str, object]:
        # Hashes of text differ from process to process, so a hash does not travel.
        return {name: value for name, value in self.__dict__.items() if name != _HASH_FIELD}

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of this event; see `to_json`."""
        return to_json(self)

    def to_dp_event(self) -> DpEvent:
        """Return the dp_accounting event with the same meaning; see `exchange.to_dp_event`."""
        return type(self).export(self)


@dataclass(frozen=True, eq=False)
class Gaussian(Event):
    """A sum with Gaussian noise of standard deviation `noise_multiplier` x contribution bound (L2).

    Range: `noise_multiplier` is above 0.
    """

    type: ClassVar[str] = "gaussian"
    noise_multiplier: float = _checked(validate.positive)


@dataclass(frozen=True, eq=False)
class Laplace(Event):
    """A sum with Laplace noise of scale `noise_multiplier` x contribution bound (L1).

    Range: `noise_multiplier` is above 0.
    """

    type: ClassVar[str] = "laplace"
    noise_multiplier: float = _checked(validate.positive)


@dataclass(frozen=True, eq=False)
class DiscreteGaussian(Event):
    """An integer sum with discrete Gaussian noise, probability ~ exp(-z^2 / (2 s^2)).

    Here s = `noise_multiplier` x `sensitivity`, and `sensitivity` is the integer bound on one
    unit's contribution.  Range: both above 0.
    """

    type: ClassVar[str] = "discrete-gaussian"
    noise_multiplier: float = _checked(validate.positive)
    sensitivity: int = _checked(validate.count)


@dataclass(frozen=True, eq=False)
class DiscreteLaplace(Event):
    """An integer sum with discrete Laplace noise, probability ~ exp(-|z| / s).

    Here s = `noise_multiplier` x `sensitivity`, and `sensitivity` is the integer bound on one
    unit's contribution.  Range: both above 0.
    """

    type: ClassVar[str] = "discrete-laplace"
    noise_multiplier: float = _checked(validate.positive)
    sensitivity: int = _checked(validate.count)


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Event):
    """One of `categories` values, reported truthfully e^epsilon times as often as any other.

    Range: `epsilon` 0 or above, `categories` 2 or above.
    """

    type: ClassVar[str] = "randomized-response"
    epsilon: float = _checked(validate.non_negative)
    categories: int = _checked(validate.count_from, 2)


@dataclass(frozen=True, eq=False)
class Local(Event):
    """Any epsilon-locally-private randomizer.  Range: `epsilon` 0 or above."""

    type: ClassVar[str] = "local"
    epsilon: float = _checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class Exponential(Event):
    """A selection whose loss has bounded range `epsilon`, such as the exponential mechanism.

    Range: `epsilon` 0 or above.
    """

    type: ClassVar[str] = "exponential"
    epsilon: float = _checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class Pure(Event):
    """Any epsilon-DP mechanism.  Range: `epsilon` 0 or above."""

    type: ClassVar[str] = "pure"
    epsilon: float = _checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class Approximate(Event):
    """Any (epsilon, delta)-DP mechanism.  Range: `epsilon` 0 or above, `delta` in [0, 1]."""

    type: ClassVar[str] = "approximate"
    epsilon: float = _checked(validate.non_negative)
    delta: float = _checked(validate.probability)


@dataclass(frozen=True, eq=False)
class ZCDP(Event):
    """Any rho-zero-concentrated-DP mechanism.  Range: `rho` 0 or above."""

    type: ClassVar[str] = "zcdp"
    rho: float = _checked(validate.non_negative)


@dataclass(frozen=True, eq=False)
class NoGuarantee(Event):
    """A release that is known to protect nobody; `reason` says why."""

    type: ClassVar[str] = "no-guarantee"
    reason: str = _checked(_sentence)


@dataclass(frozen=True, eq=False)
class Poisson(Event):
    """`event` on a sample that each unit joins independently with probability `rate` in [0, 1]."""

    type: ClassVar[str] = "poisson"
    rate: float = _checked(validate.probability)
    event: Event = _checked(_event)


@dataclass(frozen=True, eq=False)
class TruncatedPoisson(Event):
    """`event` on a Poisson sample of a `population`, cut at random to at most `batch` units.

    `population` is the size of the larger of two neighbouring data sets, with the unit in it.
    Range: `rate` in [0, 1], 1 <= `batch` <= `population`.
    """

    type: ClassVar[str] = "truncated-poisson"
    rate: float = _checked(validate.probability)
    batch: int = _checked(validate.count)
    population: int = _checked(validate.count)
    event: Event = _checked(_event)

    def __post_init__(self) -> None:
        super().__post_init__()
        _batch_fits(self.batch, self.population)


@dataclass(frozen=True, eq=False)
class FixedSize(Event):
    """`event` on a uniformly random set of exactly `batch` of `population` units.

    Range: 1 <= `batch` <= `population`.
    """

    type: ClassVar[str] = "fixed-size"
    batch: int = _checked(validate.count)
    population: int = _checked(validate.count)
    event: Event = _checked(_event)

    def __post_init__(self) -> None:
        super().__post_init__()
        _batch_fits(self.batch, self.population)


@dataclass(frozen=True, eq=False)
class ShuffledBatches(Event):
    """One epoch: the units in random order, cut into `batches` batches, `event` on each."""

    type: ClassVar[str] = "shuffled-batches"
    batches: int = _checked(validate.count)
    event: Event = _checked(_event)


@dataclass(frozen=True, eq=False)
class RandomAllocation(Event):
    """`steps` releases of `event`; each unit takes part in exactly `chosen` of them, at random.

    The set of steps is uniform, independent between units, and hidden ("balls in bins" where
    `chosen` is 1).  Range: 1 <= `chosen` <= `steps`.
    """

    type: ClassVar[str] = "random-allocation"
    steps: int = _checked(validate.count)
    chosen: int = _checked(validate.count)
    event: Event = _checked(_event)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chosen > self.steps:
            raise InvalidInput(
                f"`chosen` must be at most `steps` ({self.steps}); it is {self.chosen}.",
                next_step="Choose fewer steps for each unit.",
            )


@dataclass(frozen=True, eq=False)
class Shuffle(Event):
    """Each of `users` sends one message, randomized by `event`, through a shuffler.

    One user's value lies in [-bound, +bound].
    """

    type: ClassVar[str] = "shuffle"
    users: int = _checked(validate.count)
    event: Event = _checked(_event)


@dataclass(frozen=True, eq=False)
class SampledShuffle(Event):
    """Each of `users` sends `chosen` of `dimensions` coordinates through shufflers.

    A dimension is padded to `padded_to` messages; `overflow` says what happens beyond that: the
    round stops (`refuse`), or messages of that dimension are dropped, whatever they hold (`cap`).
    `granularity` is what is shuffled (`coordinate`, `tuple`), `selection` how coordinates are
    chosen (`oblivious`, `data-dependent`).  Range: `chosen` <= `dimensions`.
    """

    type: ClassVar[str] = "sampled-shuffle"
    users: int = _checked(validate.count)
    dimensions: int = _checked(validate.count)
    chosen: int = _checked(validate.count)
    padded_to: int = _checked(validate.count)
    granularity: str = _checked(validate.choice, ("coordinate", "tuple"))
    selection: str = _checked(validate.choice, ("oblivious", "data-dependent"))
    overflow: str = _checked(validate.choice, ("refuse", "cap"))
    event: Event = _checked(_event)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chosen > self.dimensions:
            raise InvalidInput(
                f"`chosen` must be at most `dimensions` ({self.dimensions}); it is {self.chosen}.",
                next_step="Choose fewer coordinates.",
            )


@dataclass(frozen=True, eq=False)
class Compose(Event):
    """All of `events`, each of which may depend on what the earlier ones released."""

    type: ClassVar[str] = "compose"
    events: tuple[Event, ...] = _checked(_events)


@dataclass(frozen=True, eq=False)
class Repeat(Event):
    """`event`, `count` times, each time with fresh randomness.  Range: `count` 1 or above."""

    type: ClassVar[str] = "repeat"
    count: int = _checked(validate.count)
    event: Event = _checked(_event)


@dataclass(frozen=True, eq=False)
class Group(Event):
    """`event` seen by a unit that is made of `size` records.  Range: `size` 1 or above."""

    type: ClassVar[str] = "group"
    size: int = _checked(validate.count)
    event: Event = _checked(_event)


@dataclass(frozen=True, eq=False)
class BestOf(Event):
    """The best of a random number of runs of `event` (hyper-parameter search).

    `distribution` is that of the number of runs (`fixed`, `poisson`, `geometric`,
    `logarithmic`), `mean` its mean.  Range: `mean` above 0; an integer when fixed.
    """

    type: ClassVar[str] = "best-of"
    distribution: str = _checked(validate.choice, ("fixed", "poisson", "geometric", "logarithmic"))
    mean: float = _checked(validate.positive)
    event: Event = _checked(_event)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distribution == "fixed":
            validate.count(mean=int(self.mean) if self.mean.is_integer() else self.mean)


def _values(event: Event) -> tuple[object, ...]:
    return tuple(getattr(event, item.name) for item in fields(event))


def _equal(first: Event, second: Event) -> bool:
    """Return whether two events have the same types and fields, all the way down.

    Each pair of parts is compared once, however often both are shared.
    """
    # A stack in place of recursion: pairs of shared events are compared once each.
    waiting: list[tuple[object, object]] = [(first, second)]
    compared: set[tuple[int, int]] = set()
    while waiting:
        left, right = waiting.pop()
        if left is right or (id(left), id(right)) in compared:
            continue
        if isinstance(left, Event) and type(left) is type(right) and isinstance(right, Event):
            compared.add((id(left), id(right)))
            left, right = _values(left), _values(right)
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            waiting += zip(left, right, strict=True)
        elif isinstance(left, Event) or left != right:
            return False
    return True


TYPES: Final[Mapping[str, type[Event]]] = {
    cls.type: cls
    for cls in (
        Gaussian,
        Laplace,
        DiscreteGaussian,
        DiscreteLaplace,
        RandomizedResponse,
        Local,
        Exponential,
        Pure,
        Approximate,
        ZCDP,
        NoGuarantee,
        Poisson,
        TruncatedPoisson,
        FixedSize,
        ShuffledBatches,
        RandomAllocation,
        Shuffle,
        SampledShuffle,
        Compose,
        Repeat,
        Group,
        BestOf,
    )
}
"""The closed list: JSON `type` -> class."""


def to_json(event: Event) -> dict[str, object]:
    """Return the JSON object of an event.

    >>> to_json(Repeat(10, Gaussian(2.0)))
    {'type': 'repeat', 'count': 10, 'event': {'type': 'gaussian', 'noise_multiplier': 2.0}}
    """
    result: dict[str, object] = {"type": event.type}
    for item in fields(event):
        value = getattr(event, item.name)
        if isinstance(value, Event):
            value = to_json(value)
        elif isinstance(value, tuple):
            value = [to_json(part) for part in value]
        result[item.name] = value
    return result


def _batch_fits(batch: int, population: int) -> None:
    if batch > population:
        raise InvalidInput(
            f"`batch` must be at most `population` ({population}); it is {batch}.",
            next_step="Make the batch smaller, or give the size of the whole data set.",
        )
