"""What strict readers share: JSON without traps, and values decoded along annotations."""

from __future__ import annotations

import json
import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from .errors import InvalidInput

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

remembered = cast(Callable[[FunctionT], FunctionT], cache)
"""`functools.cache` for functions of types, which mypy does not take for hashable."""

MAX_JSON_NUMBER_CHARACTERS: Final = 400
"""Most characters of a number in JSON; the longest float that is written out has fewer."""

MAX_DECIMAL_CHARACTERS: Final = 40
"""Most characters of a decimal string; the shortest form of a float has at most 24."""


class NestedTooDeeply(InvalidInput):
    """A JSON text has more levels than can be read."""


def _no_constant(name: str) -> object:
    raise InvalidInput(f"JSON has no number {name}.", next_step="Give a finite number.")


def parsed_json(
    text: str | bytes,
    *,
    parse_float: Callable[[str], object] = float,
    parse_constant: Callable[[str], object] = _no_constant,
) -> Any:
    """Return what a JSON text says.

    Raises `InvalidInput` for what JSON readers take for different things: a key that stands twice
    in one object, nesting without end, a number of too many characters, and NaN or Infinity unless
    `parse_constant` takes them; any other `ValueError` for what is no JSON.

    >>> parsed_json('{"rate": 0.5}')
    {'rate': 0.5}
    """

    refused: list[object] = []

    def number(read: Callable[[str], object]) -> Callable[[str], object]:
        def checked(word: str) -> object:
            try:
                if len(word) <= MAX_JSON_NUMBER_CHARACTERS:
                    return read(word)
            except ArithmeticError:  # an exponent beyond what decimals have
                pass
            refused.append(object())  # where it stands is known when all is read
            return refused[-1]

        return checked

    try:
        value = json.loads(
            text,
            parse_int=number(int),
            parse_float=number(parse_float),
            parse_constant=parse_constant,
            object_pairs_hook=_without_repeats,
        )
    except RecursionError:
        raise NestedTooDeeply(
            "The JSON is nested too deeply to be read.",
            "What is read here has few levels.",
            "Check that the file is whole and what it is meant to be.",
        ) from None
    if refused:
        raise InvalidInput(
            f"`{_place_of(refused[0], value):.100}` of the JSON has more than "
            f"{MAX_JSON_NUMBER_CHARACTERS} characters, or too large an exponent.",
            "No field holds a number of that size.",
            "Correct the number.",
        )
    return value


def _place_of(sought: object, value: object) -> str:
    """Return where a part of a JSON value stands, such as `$.events[1].rate`."""
    waiting: list[tuple[str, object]] = [("$", value)]
    while waiting:
        where, part = waiting.pop()
        if part is sought:
            return where
        if isinstance(part, dict):
            waiting += [(f"{where}.{name}", inner) for name, inner in part.items()]
        elif isinstance(part, list):
            waiting += [(f"{where}[{index}]", inner) for index, inner in enumerate(part)]
    return "$"


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) == len(pairs):
        return table
    # Python's parser would keep the last of two, others the first.
    times = Counter(name for name, _ in pairs)
    repeated = next(name for name, count in times.items() if count > 1)
    raise InvalidInput(
        f"The key `{repeated:.60}` stands twice in one object of the JSON.",
        "Two readers could take it for two different things.",
        "Keep the one that is true.",
    )


def decimal_number(source: object) -> float | None:
    """Return the float of a decimal string; None for anything else, or too long a string."""
    if not isinstance(source, str) or len(source) > MAX_DECIMAL_CHARACTERS:
        return None
    try:
        return float(source)
    except ValueError:
        return None


@remembered
def field_types(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a class's fields, by name."""
    return get_type_hints(cls)


@remembered
def field_names(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, in their order."""
    return tuple(item.name for item in fields(cls))


@remembered
def taken_apart(hint: Any) -> tuple[Any, Any]:
    """Return what a field's type is (`Union`, `Literal`, tuple, `Mapping`, else None), and of what.

    That is the type other than None, the words, the type of the elements, that of the values, or
    the type itself.

    >>> taken_apart(float | None), taken_apart(tuple[int, ...])
    ((typing.Union, <class 'float'>), (<class 'tuple'>, <class 'int'>))
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (member for member in arguments if member is not type(None))
        return Union, inner
    if origin is Literal:
        return Literal, arguments
    if origin is tuple:
        return tuple, arguments[0]
    if origin is not None and issubclass(origin, Mapping):
        return Mapping, arguments[1]
    return None, hint


def converted(
    value: object,
    hint: Any,
    where: str,
    convert: Callable[[object, Any, str], object],
    sequence: Callable[[Any], object] = tuple,
) -> object:
    """Return a value of which `convert` made the innermost parts, each from its type and place.

    This is the one walk along annotations: None or a type, lists and tables of a type.  None
    stays None; what should be a list or a table and is none goes to `convert` as a whole.

    >>> converted([1, 2], tuple[int, ...], "steps", lambda part, hint, where: f"{where}: {part}")
    ('steps[0]: 1', 'steps[1]: 2')
    """
    kind, inner = taken_apart(hint)
    if kind is Union:
        return None if value is None else converted(value, inner, where, convert, sequence)
    if kind is tuple and isinstance(value, (list, tuple)):
        return sequence(
            converted(element, inner, f"{where}[{index}]", convert, sequence)
            for index, element in enumerate(value)
        )
    if kind is Mapping and isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        if inner is object:
            return dict(value)
        return {
            str(key): converted(element, inner, f"{where}.{key}", convert, sequence)
            for key, element in value.items()
        }
    return convert(value, hint, where)


@remembered
def innermost(hint: Any) -> Any:
    """Return the type of the innermost parts of a field's type.

    >>> innermost(tuple[float, ...] | None)
    <class 'float'>
    """
    kind, inner = taken_apart(hint)
    return hint if kind in (None, Literal) else innermost(inner)
