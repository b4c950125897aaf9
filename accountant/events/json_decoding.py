"""From JSON to events: an object with `type` and the fields of the class, both in closed lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Final, cast

from ..decoding import (
    NestedTooDeeply,
    converted,
    field_names,
    field_types,
    innermost,
    parsed_json,
    remembered,
)
from ..errors import InvalidInput, kind_of
from ..nearest_names import require_fields, suggestion
from .definitions import (
    MAX_DEPTH,
    PARTICIPATIONS,
    STRATEGIES,
    TYPES,
    Event,
    Participation,
    Strategy,
    TypedValue,
)


def from_json(source: object) -> Event:
    """Return the event that a JSON text, or an object already parsed from one, describes.

    Raises `InvalidInput` for text that is not JSON, an unknown `type`, an unknown, missing or
    repeated field, a value outside its range, and nesting deeper than `MAX_DEPTH`.

    >>> from_json('{"type": "gaussian", "noise_multiplier": 1}')
    Gaussian(noise_multiplier=1.0)
    """
    if isinstance(source, (str, bytes)):
        source = _parse(source)
    return _decode(source, path="event", depth=0)


def _parse(text: str | bytes) -> object:
    try:
        return parsed_json(text)
    except NestedTooDeeply:
        raise _too_deep() from None
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(
            "This is not JSON.",
            f"{error}.",
            'An event looks like {"type": "gaussian", "noise_multiplier": 1.0}.',
        ) from None


def _too_deep() -> InvalidInput:
    return InvalidInput(
        f"The event is nested more than {MAX_DEPTH} levels deep.",
        next_step="Flatten it: Compose and Repeat can hold the same steps in fewer levels.",
    )


_CLOSED_LISTS: Final[Mapping[object, tuple[str, Mapping[str, type[TypedValue]]]]] = {
    Event: ("event", TYPES),
    Strategy: ("strategy", STRATEGIES),
    Participation: ("participation", PARTICIPATIONS),
}
"""Annotation of a field -> what it holds, and the closed list of that."""


_OTHER_NAMES: Final[Mapping[str, str]] = {
    "blt": "buffered-toeplitz",
    "bandmf": "banded",
    "dp-ftrl": "matrix-gaussian",
    "min-sep": "separated",
    "subsampled": "poisson",
}
"""What a `type` is called elsewhere, where the nearest name says something else."""


def _decode(source: object, path: str, depth: int) -> Event:
    return cast(Event, _decoded(source, path, depth, *_CLOSED_LISTS[Event]))


def _decoded(
    source: object, path: str, depth: int, noun: str, types: Mapping[str, type[TypedValue]]
) -> TypedValue:
    if depth > MAX_DEPTH:
        raise _too_deep()
    if not isinstance(source, dict):
        raise InvalidInput(
            f"`{path}` must be a JSON object with a `type`; it is "
            f"{'null' if source is None else kind_of(source)}.",
            next_step=f"Give one of these types: {', '.join(sorted(types))}.",
        )
    name = source.get("type")
    cls = types.get(name) if isinstance(name, str) else None
    if cls is None:
        meant = _OTHER_NAMES.get(str(name).lower().replace("_", "-"), name)
        raise InvalidInput(
            f"`{path}.type` is {name!r}, which is not a known {noun}.",
            next_step=suggestion(meant, types, f"Known types: {', '.join(sorted(types))}."),
        )
    # Closed lists: a field that is not known, or not there, is refused before any is read.
    for key in source:
        if not isinstance(key, str):
            raise InvalidInput(f"`{path}` has a field name that is not text: {key!r}.")
    names = sorted(source.keys() - {"type"})
    expected = sorted(
        item.name for item in fields(cls) if item.name in source or not item.metadata["optional"]
    )
    every = ", ".join(sorted(item.name for item in fields(cls)))
    listed = f"The fields of {cls.type}: {every}." if every else f"`{cls.type}` has no fields."
    require_fields(names, expected, path, otherwise=listed, if_missing=listed)

    given = {key: source[key] for key in expected}
    for key, hint in _nested_fields(cls):
        if key in given:
            inner = partial(_inner, depth=depth + 1)
            given[key] = converted(source[key], hint, f"{path}.{key}", inner)
    try:
        return cls(**given)
    except InvalidInput as error:
        raise InvalidInput(f"In `{path}`: {error.what}", error.why, error.next_step) from None


def _inner(value: object, hint: Any, where: str, depth: int) -> object:
    """Return a part of an event, from a closed list of its own."""
    if hint in _CLOSED_LISTS:
        return _decoded(value, where, depth, *_CLOSED_LISTS[hint])
    raise InvalidInput(f"`{where}` must be a list of events.")


@remembered
def _nested_fields(cls: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a class that hold events or parts of one, with their annotations.

    Numbers, words and lists of them are checked where the value is made.
    """
    hints = ((name, field_types(cls)[name]) for name in sorted(field_names(cls)))
    return tuple((name, hint) for name, hint in hints if innermost(hint) in _CLOSED_LISTS)
