"""What every event is: a frozen value of a named type, whose fields are checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..errors import InvalidInput, kind_of

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


def event_value(**given: object) -> Event:
    """Check a field that holds an event."""
    ((name, value),) = given.items()
    if not isinstance(value, Event):
        raise InvalidInput(
            f"`{name}` must be an event; it is {kind_of(value)}.",
            next_step="Give an event such as Gaussian(1.0).",
        )
    return value


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
