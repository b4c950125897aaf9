"""Values by the types of their fields, to JSON and back; other forms of a number are refused.

The types that fields may have: str, int, bool, float (a decimal string in JSON), Literal words,
events, other facts, tuples and string-keyed mappings of these, and None or one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self, TypeVar, Union, cast

from .. import events as ev
from ..decoding import converted, decimal_number, field_names, field_types, remembered, taken_apart
from ..errors import InvalidInput, kind_of
from ..nearest_names import require_fields

FactT = TypeVar("FactT")
"""A dataclass of records, a `Fact`."""

LATER: Final[Mapping[str, object]] = {"later": True}
"""Marks a field that its kind did not always have: where it is None, no line holds it."""

MAX_INTEGER = 2**63 - 1
"""Larger integers are refused: no counter of a run reaches them."""

READ_WITH_NEWER: Final = "Read it with a newer privplan."
"""The next step for a kind or a field that has no name here."""


@remembered
def later_fields(cls: type[Any]) -> frozenset[str]:
    """Return the names of the fields that a kind did not always have."""
    return frozenset(item.name for item in fields(cls) if item.metadata == LATER)


@remembered
def field_tests(cls: type[Any]) -> tuple[tuple[str, Callable[[object], bool]], ...]:
    """Return each field's name and a quick test that its value is canonical as it is.

    What fails the test may be canonical all the same, or have a canonical form: see `checked`.
    """
    return tuple((name, _test(field_types(cls)[name])) for name in field_names(cls))


def _test(hint: Any) -> Callable[[object], bool]:
    kind, inner = taken_apart(hint)
    if kind is Union:
        test = _test(inner)
        return lambda value: value is None or test(value)
    if kind is Literal:
        return lambda value: type(value) is str and value in inner
    # `type(...) is`: True is no integer of a record, and a subclass may format itself otherwise.
    if hint is int:
        return lambda value: type(value) is int and 0 <= value <= MAX_INTEGER
    if hint is float:
        return lambda value: type(value) is float and not math.isnan(value)
    if kind is None:
        return lambda value: isinstance(value, hint)
    return lambda _: False


def checked(value: object, cls: type[Any], name: str) -> object:
    """Return the canonical form of a field's value, or raise `InvalidInput` naming the field.

    `field_checks` of a class holds what else a field demands of a value, by the field's name.
    """
    where = f"{_label(cls)}.{name}"
    canonical = converted(value, field_types(cls)[name], where, _checked)
    check = getattr(cls, "field_checks", {}).get(name)
    if check is not None and canonical is not None:
        check(canonical, where)
    return canonical


def encoded(fact: Any) -> dict[str, object]:
    """Return the JSON object of a fact."""
    cls = type(fact)
    kind = getattr(cls, "type", "")
    result: dict[str, object] = {"type": kind} if kind else {}
    for name in field_names(cls):
        value = getattr(fact, name)
        # A later field that is None is left out, as in the logs of earlier versions.
        if value is not None or name not in later_fields(cls):
            result[name] = part_to_json(cls, name, value)
    return result


def decoded(cls: type[FactT], source: object, where: str) -> FactT:
    """Return the fact that a JSON object describes; every field must be there, and no other.

    Those that are marked `LATER` may be missing, and are None then.
    """
    if not isinstance(source, dict):
        raise InvalidInput(f"`{where}` must be an object; it is {kind_of(source)}.")
    kind = getattr(cls, "type", "")
    if kind and source.get("type", kind) != kind:
        raise _refused(f"{where}.type", repr(kind), source["type"])
    require_fields(
        [key for key in source if not (kind and key == "type")],
        field_names(cls),
        where,
        optional=later_fields(cls),
        why_closed="A reader that skips what it does not know would miss what it means.",
        otherwise=READ_WITH_NEWER,
    )
    types_of = field_types(cls)
    given = {
        name: converted(source[name], types_of[name], f"{where}.{name}", _decoded)
        for name in field_names(cls)
        if name in source
    }
    return cls(**given)


def value_of(hint: Any, source: object, where: str) -> object:
    """Return the checked value of a type, from its JSON; `InvalidInput` names `where` it stands."""
    return converted(converted(source, hint, where, _decoded), hint, where, _checked)


def part(cls: type[Any], name: str, source: object) -> object:
    """Return the checked value of one field, from its JSON."""
    value = converted(source, field_types(cls)[name], f"{_label(cls)}.{name}", _decoded)
    return checked(value, cls, name)


def part_to_json(cls: type[Any], name: str, value: object) -> object:
    """Return the JSON of one field's value."""
    return converted(value, field_types(cls)[name], "", _encoded, list)


def _checked(value: object, hint: Any, where: str) -> object:
    """Return the canonical form of a value; what is no list or object here should be one."""
    kind, inner = taken_apart(hint)
    if kind is tuple:
        raise _refused(where, "a list", value)
    if kind is Mapping:
        raise _refused(where, "an object with text keys", value)
    if kind is Literal:
        if value not in inner:
            raise _refused(where, "one of " + ", ".join(inner), value)
        return value
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            raise _refused(where, "a number", value)
        return float(value)
    if hint is int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise _refused(where, "an integer", value)
        number = int(cast(Any, value))
        if not 0 <= number <= MAX_INTEGER:
            raise _refused(where, "an integer from 0 to 2^63 - 1", value)
        return number
    if not isinstance(value, hint):
        raise _refused(where, f"a value of type {_label(hint)}", value)
    return value


def _encoded(value: object, hint: Any, _where: str) -> object:
    # The shortest decimal string that reads back as the same float: JSON numbers may lose digits.
    if hint is float:
        return repr(float(cast(float, value)))
    return cast(Any, value).to_json() if hasattr(value, "to_json") else value


def _decoded(value: object, hint: Any, where: str) -> object:
    if hint is float:
        number = decimal_number(value)
        if number is None:
            raise _refused(where, "a number as a decimal string", value)
        # One spelling for each float, so that equal records have equal bytes.
        if repr(number) != value:
            raise _refused(where, "a number in its shortest decimal form", value)
        return number
    # An event says itself what is wrong with it; here only where it stands is added.
    if isinstance(hint, type) and issubclass(hint, ev.Event):
        try:
            return ev.from_json(value)
        except InvalidInput as error:
            raise InvalidInput(f"In `{where}`: {error.what}", error.why, error.next_step) from None
    if isinstance(hint, type) and hasattr(hint, "from_json"):
        return cast(Any, hint).from_json(value, where)
    return value


def _label(cls: type[Any]) -> str:
    return getattr(cls, "type", "") or cls.__name__


def _refused(where: str, allowed: str, value: object) -> InvalidInput:
    return InvalidInput(f"`{where}` must be {allowed}; it is {value!r:.60}.")


@dataclass(frozen=True)
class Fact:
    """The base of every part: its fields are checked against their types, and travel as JSON."""

    def __post_init__(self) -> None:
        for name, is_canonical in field_tests(type(self)):
            value = getattr(self, name)
            # The quick test passes almost every value of a run; the slow check names what is wrong.
            if not is_canonical(value):
                object.__setattr__(self, name, checked(value, type(self), name))

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of this part."""
        return encoded(self)

    @classmethod
    def from_json(cls, source: object, where: str = "record") -> Self:
        """Return the part that a JSON object describes; `InvalidInput` names what is wrong."""
        return decoded(cls, source, where)
