"""From the JSON of a line to its record, quickly: rounds repeat most parts of the round before.

Nothing here is looser than `Record.from_json`: whatever does not take the short way takes that one.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...accountant.decoding import field_names, field_types
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import suggestion
from ...accountant.records import KINDS, SCHEMA, Fact, Record, RunOpen, StreamRange
from ...accountant.records.field_codec import (
    MAX_INTEGER,
    READ_WITH_NEWER,
    later_fields,
    part,
    part_to_json,
)
from .hash_chain import canonical

MAX_REMEMBERED_PARTS: Final = 4096
"""How many different parts of records are remembered at a time."""

_WITHOUT_REFERENCES: Final = 0
"""The version of marshal in which equal values have equal bytes, whatever they share."""

_RANGE_FIELDS: Final = frozenset(field_names(StreamRange))

_UNDECIDED: Final = object()
"""What a short way returns where only the long way can tell."""


@dataclass(frozen=True, eq=False)
class _Shape:
    """How lines of one kind with the same fields are read.

    `absent` are the later fields that they lack, which are None; `quick` those with a short way,
    `parts` the others, and `present` the later ones that are there.
    """

    cls: type[Record]
    absent: Mapping[str, None]
    quick: tuple[tuple[str, Callable[[object], object]], ...]
    parts: tuple[str, ...]
    present: tuple[str, ...]


class Decoder:
    """Decodes the records of one log, and remembers parts (an event, a contribution) that return.

    Parts are known by their bytes, so what is remembered is what decoding would give.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[_Shape, bytes], dict[str, object]] = {}
        self._shapes: dict[tuple[object, ...], _Shape] = {}

    def record(self, source: dict[str, Any]) -> Record:
        """Return the record of a line from which `seq`, `prev` and `hash` were taken.

        Raises `InvalidInput` for a newer format, an unknown kind or field, a value that is not
        what its field holds, or one that is not written as a log writes it.
        """
        named = source.get("type"), *source
        shape = self._shapes.get(named) if type(named[0]) is str else None
        if shape is None or shape.cls is RunOpen:
            cls = _kind(source)
            shape = _shape(cls, source)
            if shape is None:
                return _slowly(cls, source)
            self._shapes[named] = shape
        # A line that says null of a later field is none of a log.
        for name in shape.present:
            if source[name] is None:
                return _slowly(shape.cls, source)
        values: dict[str, object] = {**shape.absent}
        if shape.parts:
            values.update(self._parts(shape, source))
        for name, decode in shape.quick:
            value = decode(source[name])
            if value is _UNDECIDED:
                value = part(shape.cls, name, source[name])
            values[name] = value
        # As the constructor does, but what was checked is not checked again.
        record = object.__new__(shape.cls)
        record.__dict__.update(values)
        return record

    def _parts(self, shape: _Shape, source: dict[str, Any]) -> dict[str, object]:
        # Rounds repeat their event and contribution word for word: decoded once, looked up after.
        given = [source[name] for name in shape.parts]
        key = shape, marshal.dumps(given, _WITHOUT_REFERENCES)
        decoded = self._known.get(key)
        if decoded is None:
            sources = dict(zip(shape.parts, given, strict=True))
            decoded = {name: part(shape.cls, name, value) for name, value in sources.items()}
            # An event can be written in several ways (1 or 1.0), and a log has one of them.
            again = {name: part_to_json(shape.cls, name, value) for name, value in decoded.items()}
            if canonical(again) != canonical(sources):
                raise _other_form(shape.cls)
            if len(self._known) >= MAX_REMEMBERED_PARTS:
                self._known.clear()
            self._known[key] = decoded
        return decoded


def _kind(source: dict[str, Any]) -> type[Record]:
    name = source.get("type")
    schema = source.get("schema")
    if name == RunOpen.type and isinstance(schema, str) and schema != SCHEMA:
        raise InvalidInput(
            f"The log is written as `{schema:.40}`, and this privplan reads `{SCHEMA}`.",
            next_step="Read it with a privplan that knows the format.",
        )
    cls = KINDS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise InvalidInput(
            f"`type` is {name!r:.60}, which is no known kind of record.",
            next_step=suggestion(name, KINDS, READ_WITH_NEWER),
        )
    return cls


def _shape(cls: type[Record], source: dict[str, Any]) -> _Shape | None:
    """Return how a line is read quickly; None where only the long way can tell.

    A line that lacks a field that is no later one, or has an unknown one, is none of a log.
    """
    names, later = field_names(cls), later_fields(cls)
    absent = [name for name in names if name not in source]
    if not _only_fields(cls) or not later.issuperset(absent):
        return None
    if len(source) + len(absent) > len(names) + 1:  # and `type`
        return None
    types = field_types(cls)
    there = [name for name in names if name in source]
    quick = [
        (name, _QUICK_DECODERS[types[name]]) for name in there if types[name] in _QUICK_DECODERS
    ]
    parts = [name for name in there if types[name] not in _QUICK_DECODERS]
    present = [name for name in there if name in later]
    return _Shape(cls, dict.fromkeys(absent), tuple(quick), tuple(parts), tuple(present))


def _slowly(cls: type[Record], source: dict[str, Any]) -> Record:
    record = cls.from_json(source, cls.type)
    if canonical(record.to_json()) != canonical(source):
        raise _other_form(cls)
    return record


def _other_form(cls: type[Record]) -> InvalidInput:
    return InvalidInput(f"A part of `{cls.type}` is not written as a log writes it.")


def _text(source: object) -> object:
    return source if type(source) is str else _UNDECIDED


def _text_or_none(source: object) -> object:
    return source if source is None or type(source) is str else _UNDECIDED


def _count(source: object) -> object:
    return source if type(source) is int and 0 <= source <= MAX_INTEGER else _UNDECIDED


def _texts(source: object) -> object:
    if type(source) is dict and all(type(value) is str for value in source.values()):
        return source
    return _UNDECIDED


def _ranges(source: object) -> object:
    ranges: list[StreamRange] = []
    for item in source if type(source) is list else (None,):
        if type(item) is not dict or item.keys() != _RANGE_FIELDS:
            return _UNDECIDED
        first, last = item["first"], item["last"]
        if type(item["stream"]) is not str or type(first) is not int or type(last) is not int:
            return _UNDECIDED
        if not (0 <= first <= MAX_INTEGER and 0 <= last <= MAX_INTEGER):
            return _UNDECIDED
        stream_range = object.__new__(StreamRange)
        stream_range.__dict__.update(item)
        ranges.append(stream_range)
    return tuple(ranges)


def _only_fields(cls: type[Fact]) -> bool:
    """Return whether the fields of a fact are all that its constructor checks."""
    return cls.__post_init__ is Fact.__post_init__


_QUICK_DECODERS: Final[dict[object, Callable[[object], object]]] = {
    str: _text,
    str | None: _text_or_none,
    int: _count,
    Mapping[str, str]: _texts,
    **({tuple[StreamRange, ...]: _ranges} if _only_fields(StreamRange) else {}),
}
"""By type, for fields that differ from line to line."""
