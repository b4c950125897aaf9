"""Checking values against the types of their fields, and carrying them to JSON and back.

The types that fields may have: str, int, bool, float (a decimal string in JSON), Literal words,
events, other facts, tuples and string-keyed mappings of these, and None beside one of them.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as _type_hints

from .. import events as ev
from ..errors import InvalidInput, kind_of

FactT = TypeVar("FactT")
"""A dataclass of records, a `facts.Fact`; this module knows of facts only that they have fields."""

LATER: Final[Mapping[str, object]] = {"later": True}
"""Marks a field that its kind did not always have: where it is None, no line holds it."""

MAX_INTEGER = 2**63 - 1
"""Larger integers are refused: no counter of a run reaches them."""


# Filled once for each class: a run checks many records of few classes.
_HINTS: dict[type[Any], dict[str, Any]] = {}
_TESTS: dict[type[Any], tuple[tuple[str, Callable[[object], bool]], ...]] = {}


def hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a class's fields."""
    if cls not in _HINTS:
        _HINTS[cls] = _type_hints(cls)
    return _HINTS[cls]


def field_tests(cls: type[Any]) -> tuple[tuple[str, Callable[[object], bool]], ...]:
    """Return each field's name and a quick test that its value is canonical as it is.

    What fails the test may be canonical all the same, or have a canonical form: see `checked`.
    """
    if cls not in _TESTS:
        types_of = hints(cls)
        _TESTS[cls] = tuple((item.name, _test(types_of[item.name])) for item in fields(cls))
    return _TESTS[cls]


def _test(hint: Any) -> Callable[[object], bool]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (_test(member) for member in arguments if member is not type(None))
        return lambda value: value is None or inner(value)
    if origin is Literal:
        return lambda value: type(value) is str and value in arguments
    # `type(...) is`: True is no integer of a record, and a subclass may format itself otherwise.
    if hint is int:
        return lambda value: type(value) is int and 0 <= value <= MAX_INTEGER
    if hint is float:
        return lambda value: type(value) is float and not math.isnan(value)
    if isinstance(hint, type):
        return lambda value: isinstance(value, hint)
    return lambda _: False


def checked(value: object, cls: type[Any], name: str) -> object:
    """Return the canonical form of a field's value, or raise `InvalidInput` naming the field."""
    return _checked(value, hints(cls)[name], f"{_label(cls)}.{name}")


def encoded(fact: Any) -> dict[str, object]:
    """Return the JSON object of a fact."""
    result: dict[str, object] = {}
    kind = getattr(type(fact), "type", "")
    if kind:
        result["type"] = kind
    for item in fields(fact):
        value = getattr(fact, item.name)
        # A later field that is None is left out, as in the logs of earlier versions.
        if value is not None or item.metadata != LATER:
            result[item.name] = _encoded(value, hints(type(fact))[item.name])
    return result


def decoded(cls: type[FactT], source: object, where: str) -> FactT:
    """Return the fact that a JSON object describes; every field must be there, and no other.

    Those that are marked `LATER` may be missing, and are None then.
    """
    if not isinstance(source, dict):
        raise InvalidInput(f"`{where}` must be an object; it is {kind_of(source)}.")
    known: dict[str, Field[Any]] = {item.name: item for item in fields(cast(Any, cls))}
    kind = getattr(cls, "type", "")
    if kind and source.get("type", kind) != kind:
        raise _refused(f"{where}.type", repr(kind), source["type"])
    # A reader that skipped an unknown field would miss what it means.
    for key in source:
        if key not in known and not (kind and key == "type"):
            close = difflib.get_close_matches(str(key)[:60], list(known), n=1)
            raise InvalidInput(
                f"`{where}` has an unknown field `{key:.60}`.",
                "A reader that skips what it does not know would miss what it means.",
                f"Did you mean `{close[0]}`?" if close else "Read it with a newer privplan.",
            )
    # Fields that came later may be missing in lines of earlier versions; no other may.
    known = {name: item for name, item in known.items() if name in source or item.metadata != LATER}
    missing = next((name for name in known if name not in source), None)
    if missing is not None:
        raise InvalidInput(f"`{where}` lacks the field `{missing}`.")
    types_of = hints(cls)
    given = {name: _decoded(source[name], types_of[name], f"{where}.{name}") for name in known}
    return cls(**given)


def part(cls: type[Any], name: str, source: object) -> object:
    """Return the checked value of one field, from its JSON."""
    value = _decoded(source, hints(cls)[name], f"{_label(cls)}.{name}")
    return checked(value, cls, name)


def part_to_json(cls: type[Any], name: str, value: object) -> object:
    """Return the JSON of one field's value."""
    return _encoded(value, hints(cls)[name])


def _checked(value: object, hint: Any, where: str) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = (member for member in arguments if member is not type(None))
        return _checked(value, inner, where)
    if origin is Literal:
        if value not in arguments:
            raise _refused(where, "one of " + ", ".join(arguments), value)
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise _refused(where, "a list", value)
        return tuple(
            _checked(element, arguments[0], f"{where}[{index}]")
            for index, element in enumerate(value)
        )
    if origin is not None and issubclass(origin, Mapping):
        return _checked_mapping(value, arguments[1], where)
    return _checked_plain(value, hint, where)


def _checked_mapping(value: object, inner: Any, where: str) -> dict[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _refused(where, "an object with text keys", value)
    if inner is object:
        return {str(key): element for key, element in value.items()}
    return {str(key): _checked(element, inner, f"{where}.{key}") for key, element in value.items()}


def _checked_plain(value: object, hint: type[Any], where: str) -> object:
    if hint is float:
        return _checked_float(value, where)
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


def _checked_float(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _refused(where, "a number", value)
    number = float(value)
    if math.isnan(number):
        raise _refused(where, "a number", value)
    return number


def _encoded(value: object, hint: Any) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, types.UnionType):
        (inner,) = (member for member in arguments if member is not type(None))
        return _encoded(value, inner)
    if isinstance(value, ev.Event):
        return value.to_json()
    if origin is tuple:
        return [_encoded(element, arguments[0]) for element in cast("tuple[object, ...]", value)]
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        if arguments[1] is object:
            return dict(pairs)
        return {key: _encoded(element, arguments[1]) for key, element in pairs}
    # The shortest decimal string that reads back as the same float: JSON numbers may lose digits.
    if hint is float:
        return repr(float(cast(float, value)))
    if hasattr(value, "to_json"):
        return cast(Any, value).to_json()
    return value


def _decoded(value: object, hint: Any, where: str) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (inner,) = (member for member in arguments if member is not type(None))
        return _decoded(value, inner, where)
    if origin is tuple and isinstance(value, list):
        return [
            _decoded(element, arguments[0], f"{where}[{index}]")
            for index, element in enumerate(value)
        ]
    if origin is not None and isinstance(value, dict) and arguments[1:] and origin is not Literal:
        if arguments[1] is object:
            return value
        return {
            key: _decoded(element, arguments[1], f"{where}.{key}") for key, element in value.items()
        }
    if hint is float:
        return _decoded_float(value, where)
    # An event says itself what is wrong with it; here only where it stands is added.
    if isinstance(hint, type) and issubclass(hint, ev.Event):
        try:
            return ev.from_json(value)
        except InvalidInput as error:
            raise InvalidInput(f"In `{where}`: {error.what}", error.why, error.next_step) from None
    if isinstance(hint, type) and hasattr(hint, "from_json"):
        return cast(Any, hint).from_json(value, where)
    return value


def _decoded_float(value: object, where: str) -> float:
    """Return the float of a decimal string; only the form that `repr` writes is accepted."""
    if not isinstance(value, str) or len(value) > 40:
        raise _refused(where, "a number as a decimal string", value)
    try:
        number = float(value)
    except ValueError:
        raise _refused(where, "a number as a decimal string", value) from None
    # One spelling for each float, so that equal records have equal bytes.
    if repr(number) != value:
        raise _refused(where, "a number in its shortest decimal form", value)
    return number


def _label(cls: type[Any]) -> str:
    return getattr(cls, "type", "") or cls.__name__


def _refused(where: str, allowed: str, value: object) -> InvalidInput:
    return InvalidInput(f"`{where}` must be {allowed}; it is {value!r:.60}.")
