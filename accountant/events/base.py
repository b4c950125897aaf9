"""What every event is: a frozen value of a named type, whose fields are checked when it is made.

Some are made of other events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from .. import validate
from ..errors import InvalidInput, kind_of, with_article

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


MAX_DEPTH: Final = 64
"""Deepest nesting that is read from JSON or accounted."""

_HASH_FIELD: Final = "_hash"
"""Where a value keeps its hash."""


def checked(check: Callable[..., object], *leading: object, optional: bool = False) -> Any:
    """Return a dataclass field whose value `check` tests, and puts into its canonical type.

    `leading` are the check's first arguments.  An `optional` field is None where it is not given,
    and then left out of the JSON object.
    """
    metadata: Mapping[str, object] = {
        "check": lambda **given: check(*leading, **given),
        "optional": optional,
    }
    return field(metadata=metadata, default=None if optional else MISSING)


@dataclass(frozen=True, eq=False)
class TypedValue:
    """A frozen value with a `type` from a closed list; the base of events and of their parts."""

    type: ClassVar[str] = ""

    def __post_init__(self) -> None:
        # Each field has its check; frozen instances are set to the canonical value.
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.metadata["optional"]:
                continue
            object.__setattr__(self, item.name, item.metadata["check"](**{item.name: value}))

    def __hash__(self) -> int:
        # Cached with the object: an event that is shared on many levels is hashed once.
        cached: int | None = self.__dict__.get(_HASH_FIELD)
        if cached is None:
            cached = hash((self.type, *_values(self)))
            object.__setattr__(self, _HASH_FIELD, cached)
        return cached

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedValue):
            return NotImplemented
        return self is other or (hash(self) == hash(other) and _equal(self, other))

    def __getstate__(self) -> dict[str, object]:
        # Hashes of text differ from process to process, so a hash does not travel.
        return {name: value for name, value in self.__dict__.items() if name != _HASH_FIELD}

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of this value; see `to_json`."""
        return to_json(self)


@dataclass(frozen=True, eq=False)
class Event(TypedValue):
    """One thing that was released; the base of the closed list of events."""

    # `exchange` knows every event and sets this: so that definitions need not import their users.
    # What it returns is a `DpEvent`, whose module the types of fields must not need.
    export: ClassVar[Callable[[Event], Any]]

    def to_dp_event(self) -> DpEvent:
        """Return the dp_accounting event with the same meaning; see `exchange.to_dp_event`."""
        return type(self).export(self)


V = TypeVar("V", bound=TypedValue)


def value_of(base: type[V], noun: str, example: str, **given: object) -> V:
    """Check a field that holds a value of a closed list, all of which are a `base`."""
    ((name, value),) = given.items()
    if not isinstance(value, base):
        raise InvalidInput(
            f"`{name}` must be {with_article(noun)}; it is {kind_of(value)}.",
            next_step=f"Give {with_article(noun)} such as {example}.",
        )
    return value


def event_value(**given: object) -> Event:
    """Check a field that holds an event."""
    return value_of(Event, "event", "Gaussian(1.0)", **given)


def events_value(**given: object) -> tuple[Event, ...]:
    """Check a field that holds a list of events."""
    ((name, value),) = given.items()
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(
            f"`{name}` must be a list of events; it is {kind_of(value)}.",
            next_step="Give a list such as [Gaussian(1.0), Laplace(2.0)].",
        )
    return tuple(event_value(**{f"{name}[{index}]": item}) for index, item in enumerate(value))


def listed(of: str, example: str, **given: object) -> list[object] | tuple[object, ...]:
    """Return the list that a field holds, or the array (whatever has `tolist`) as a list.

    Raises `InvalidInput` for anything else, and where it is empty.
    """
    ((name, value),) = given.items()
    as_list = getattr(value, "tolist", None)
    if not isinstance(value, type) and callable(as_list):
        value = as_list()
    if not isinstance(value, (list, tuple)) or not value:
        is_empty = isinstance(value, (list, tuple))
        raise InvalidInput(
            f"`{name}` must be a list of {of}, at least one; it is "
            f"{'empty' if is_empty else kind_of(value)}.",
            next_step=f"Give a list such as {example}.",
        )
    return value


def numbers_value(check: Callable[..., float], **given: object) -> tuple[float, ...]:
    """Check a field that holds a list of numbers, each of which passes `check`; not empty."""
    ((name, _),) = given.items()
    value = listed("numbers", "[1.0, 0.5]", **given)
    return tuple(check(**{f"{name}[{index}]": item}) for index, item in enumerate(value))


def sentence(**given: object) -> str:
    """Check a field that holds a sentence."""
    ((name, value),) = given.items()
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(
            f"`{name}` must be a sentence that says why.",
            next_step=f"Give `{name}` some text.",
        )
    return value


def to_json(value: TypedValue) -> dict[str, object]:
    """Return the JSON object of an event, or of a part of one.

    >>> from . import definitions as ev
    >>> to_json(ev.Repeat(10, ev.Gaussian(2.0)))
    {'type': 'repeat', 'count': 10, 'event': {'type': 'gaussian', 'noise_multiplier': 2.0}}
    """
    result: dict[str, object] = {"type": value.type}
    for item in fields(value):
        given = getattr(value, item.name)
        if given is not None:
            result[item.name] = _encoded(given)
    return result


def _encoded(value: object) -> object:
    if isinstance(value, TypedValue):
        return to_json(value)
    return [_encoded(part) for part in value] if isinstance(value, tuple) else value


def _values(value: TypedValue) -> tuple[object, ...]:
    return tuple(getattr(value, item.name) for item in fields(value))


def _equal(first: TypedValue, second: TypedValue) -> bool:
    """Return whether two values have the same types and fields, all the way down.

    Each pair of parts is compared once, however often both are shared.
    """
    # A stack in place of recursion: pairs of shared events are compared once each.
    waiting: list[tuple[object, object]] = [(first, second)]
    compared: set[tuple[int, int]] = set()
    while waiting:
        left, right = waiting.pop()
        if left is right or (id(left), id(right)) in compared:
            continue
        if (
            isinstance(left, TypedValue)
            and type(left) is type(right)
            and isinstance(right, TypedValue)
        ):
            compared.add((id(left), id(right)))
            left, right = _values(left), _values(right)
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            waiting += zip(left, right, strict=True)
        elif isinstance(left, TypedValue) or left != right:
            return False
    return True


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
