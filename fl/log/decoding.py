"""From the JSON of a line to its record, quickly: rounds repeat most parts of the round before.

Nothing here is looser than `Record.from_json`: whatever does not take the short way takes that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...accountant.decoding import suggestion
from ...accountant.errors import InvalidInput
from ...accountant.records import KINDS, SCHEMA, Fact, Record, RunOpen, StreamRange
from ...accountant.records.field_codec import (
    MAX_INTEGER,
    READ_WITH_NEWER,
    field_names,
    hints,
    later_fields,
    part,
    part_to_json,
)
from .canonical import canonical

MAX_REMEMBERED_PARTS: Final = 4096
"""How many different parts of records are remembered at a time."""

_UNDECIDED: Final = object()
"""What a short way returns where only the long way can tell."""


class Decoder:
    """Decodes the records of one log, and remembers parts (an event, a contribution) that return.

    Parts are known by their canonical text, so what is remembered is what decoding would give.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[type[Record], str], dict[str, object]] = {}

    def record(self, source: dict[str, Any]) -> Record:
        """Return the record of a line from which `seq`, `prev` and `hash` were taken.

        Raises `InvalidInput` for a newer format, an unknown kind or field, a value that is not
        what its field holds, or one that is not written as a log writes it.
        """
        cls = _kind(source)
        absent = _absent(cls, source)
        if cls not in _FIELDS or absent is None:
            return _slowly(cls, source)
        quick, parts = _FIELDS[cls]
        values: dict[str, object] = dict.fromkeys(absent)
        values.update(self._parts(cls, {name: source[name] for name in parts if name in source}))
        for name, decode in quick.items():
            if name in source:
                value = decode(source[name])
                values[name] = part(cls, name, source[name]) if value is _UNDECIDED else value
        # As the constructor does, but what was checked is not checked again.
        record = object.__new__(cls)
        record.__dict__.update(values)
        return record

    def _parts(self, cls: type[Record], sources: dict[str, object]) -> dict[str, object]:
        # Rounds repeat their event and contribution word for word: decoded once, looked up after.
        key = (cls, canonical(sources))
        decoded = self._known.get(key)
        if decoded is None:
            decoded = {name: part(cls, name, source) for name, source in sources.items()}
            # An event can be written in several ways (1 or 1.0), and a log has one of them.
            again = {name: part_to_json(cls, name, value) for name, value in decoded.items()}
            if canonical(again) != key[1]:
                raise _other_form(cls)
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


def _absent(cls: type[Record], source: dict[str, Any]) -> frozenset[str] | None:
    """Return the later fields that a line lacks; None where its fields are not those of a log.

    A line that lacks another field, has an unknown one, or says null of a later one is none.
    """
    absent = _NAMES[cls] - source.keys()
    later = later_fields(cls)
    strange = len(source) + len(absent) > len(_NAMES[cls])
    if strange or not absent <= later or any(source[name] is None for name in later - absent):
        return None
    return absent


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
        if type(item) is not dict or item.keys() != {"stream", "first", "last"}:
            return _UNDECIDED
        if type(item["stream"]) is not str:
            return _UNDECIDED
        if _UNDECIDED in (_count(item["first"]), _count(item["last"])):
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


def _fields(cls: type[Record]) -> tuple[dict[str, Callable[[object], object]], tuple[str, ...]]:
    """Return the fields of a kind: those with a short way, and the parts that return."""
    types = hints(cls)
    known = _QUICK_DECODERS
    quick = {name: known[types[name]] for name in field_names(cls) if types[name] in known}
    return quick, tuple(name for name in field_names(cls) if name not in quick)


_FIELDS: Final = {cls: _fields(cls) for cls in KINDS.values() if _only_fields(cls)}
_NAMES: Final = {cls: frozenset(("type", *field_names(cls))) for cls in KINDS.values()}
