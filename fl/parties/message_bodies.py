"""What one message holds, as values and as the bytes that travel.

Bytes from another party are read in one pass, and by the types that must stand there: a byte that
begins anything else ends the reading, before anything is made of what follows it.  So what is made
of a message takes a small multiple of its length, whatever it holds, and how long a message may be
is for its receiver to say beforehand (`Limits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, ClassVar, Final, Self, TypeAlias

from ...accountant.decoding import field_names, field_types, taken_apart
from ...accountant.errors import InvalidInput, MissingExtra, ProtocolFault, with_article


class Body:
    """What one kind of message holds: a frozen dataclass with a `kind`.

    Its fields are of type `int` (64 bits, signed), `str`, `bytes`, a tuple of one of these
    (`tuple[bytes, ...]`), or a mapping from names to one of them (`Mapping[str, bytes]`).  Numbers
    beyond 64 bits travel as bytes of a fixed length, arrays as their little-endian bytes.  A
    `Secret` is none of them: what may be seen is turned into plain `bytes` by who says so.
    """

    kind: ClassVar[str] = ""

    def pack(self) -> bytes:
        """Return the bytes that travel: MessagePack, a list of the fields in their order.

        Raises `InvalidInput`, without the value, for a field that is not of its type exactly.
        """
        schema = _schema(type(self))
        values = [getattr(self, name) for name, _ in schema]
        for value, (name, hint) in zip(values, schema, strict=True):
            if not _fits(value, hint):
                kind = with_article(repr(self.kind))
                raise InvalidInput(
                    f"`{name}` of {kind} is not of the type that it must have.",
                    "Nobody could read it, or it is a secret that must not travel as it is.",
                )
        packed: bytes = _msgpack().packb(values, use_bin_type=True)
        return packed

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Return the body that these bytes hold; `ProtocolFault` where they hold none."""
        schema = _schema(cls)
        try:
            values = _Reader(raw).values([hint for _, hint in schema])
        except (_UnreadableBytes, UnicodeDecodeError):
            values = None  # and what was found wrong, which quotes the bytes
        if values is None:
            raise _malformed(cls.kind)
        return cls(*values)


Limits: TypeAlias = Mapping[type[Body], int]
"""By kind, the most bytes of a message that a party takes; other kinds it takes none of."""

_MAX_HEADER_BYTES: Final = 9
"""Bytes that MessagePack puts before a value, at most."""


def room(*lengths: int) -> int:
    """Return the most bytes of a body of values that have so many bytes each, at most.

    An entry of a mapping is two values, a name and what it stands for; an integer has 8 bytes.
    """
    return sum(lengths) + _MAX_HEADER_BYTES * (
        len(lengths) + 3
    )  # the list, and up to two mappings in it


def named(names: Iterable[str], length: int) -> list[int]:
    """Return the lengths of the values in a mapping from these names to so many bytes each."""
    return [part for name in names for part in (len(name.encode()), length)]


def scalars(raw: bytes) -> Iterator[int | str | bytes]:
    """Yield every value in a body of any kind, in their order, names of mappings included.

    Nothing is made of lists and mappings.  Raises `ProtocolFault` for what is no such body.
    """
    reader, left = _Reader(raw), 1
    try:
        while left:
            inside, value = reader.anything()
            left += inside - 1
            if value is not None:
                yield value
        reader.end()
    except (_UnreadableBytes, UnicodeDecodeError):
        raise _malformed("message") from None


# --- reading --------------------------------------------------------------------------------------

_INT64: Final = range(-(2**63), 2**63)


class _UnreadableBytes(Exception):
    """Bytes that are not what must stand there."""


@dataclass(frozen=True)
class _Form:
    """How MessagePack begins values of one type: a short form, and those with 1, 2 or 4 bytes."""

    first: int
    short: int
    longer: Mapping[int, int]

    def begins(self, byte: int) -> bool:
        """Return whether this byte begins a value of the type."""
        return self.first <= byte < self.first + self.short or byte in self.longer


_TEXT: Final = _Form(0xA0, 32, {0xD9: 1, 0xDA: 2, 0xDB: 4})
_BYTES: Final = _Form(0, 0, {0xC4: 1, 0xC5: 2, 0xC6: 4})
_LIST: Final = _Form(0x90, 16, {0xDC: 2, 0xDD: 4})
_MAPPING: Final = _Form(0x80, 16, {0xDE: 2, 0xDF: 4})

_INTEGERS: Final[Mapping[int, tuple[int, bool]]] = {
    **{0xCC + power: (1 << power, False) for power in range(4)},
    **{0xD0 + power: (1 << power, True) for power in range(4)},
}
"""Bytes of an integer, and whether it has a sign, by the byte that begins it."""


class _Reader:
    """Reads values one after the other; raises `_UnreadableBytes` at the first wrong byte."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def values(self, hints: list[Any]) -> list[Any]:
        """Return one value of each type, and nothing after them: the list of a body's fields."""
        if self._count(_LIST) != len(hints):
            raise _UnreadableBytes
        values = [self._value(hint) for hint in hints]
        self.end()
        return values

    def end(self) -> None:
        """Return if nothing is left."""
        if self._at != len(self._raw):
            raise _UnreadableBytes

    def _value(self, hint: Any) -> Any:
        kind, inner = taken_apart(hint)
        read = _READ[inner]
        if kind is None:
            return read(self)
        if kind is tuple:
            return tuple(read(self) for _ in range(self._count(_LIST)))
        entries: dict[str, Any] = {}
        for _ in range(self._count(_MAPPING)):
            name = self.text()
            if name in entries:  # a later entry would hide the first
                raise _UnreadableBytes
            entries[name] = read(self)
        return entries

    def anything(self) -> tuple[int, int | str | bytes | None]:
        """Return how many values stand in the list or mapping that begins here, or the value."""
        first = self._raw[self._at] if self._at < len(self._raw) else 0
        for form, times in ((_LIST, 1), (_MAPPING, 2)):
            if form.begins(first):
                return times * self._count(form), None
        for form, read in ((_TEXT, self.text), (_BYTES, self.content)):
            if form.begins(first):
                return 0, read()
        return 0, self.integer()

    def integer(self) -> int:
        first = self._taken(1)[0]
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        size, signed = _INTEGERS.get(first, (0, False))
        value = int.from_bytes(self._taken(size), "big", signed=signed)
        if not size or value not in _INT64:
            raise _UnreadableBytes
        return value

    def text(self) -> str:
        return self._taken(self._count(_TEXT)).decode("utf-8")

    def content(self) -> bytes:
        return self._taken(self._count(_BYTES))

    def _count(self, form: _Form) -> int:
        """Return how many bytes or values follow: no more than there are bytes left.

        So a short message cannot claim a long list, and make its reader allocate one.
        """
        first = self._taken(1)[0]
        if not form.begins(first):
            raise _UnreadableBytes
        if first in form.longer:
            count = int.from_bytes(self._taken(form.longer[first]), "big")
        else:
            count = first - form.first
        if count > len(self._raw) - self._at:
            raise _UnreadableBytes
        return count

    def _taken(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._raw):
            raise _UnreadableBytes
        taken, self._at = self._raw[self._at : end], end
        return taken


_READ: Final[Mapping[Any, Callable[[_Reader], Any]]] = {
    int: _Reader.integer,
    str: _Reader.text,
    bytes: _Reader.content,
}


# --- types of fields ------------------------------------------------------------------------------


def _schema(kind: type[Body]) -> list[tuple[str, Any]]:
    """Return the name and the type of each field."""
    if not kind.kind or not is_dataclass(kind):
        raise InvalidInput(f"{kind.__name__} must be a dataclass with a kind.")
    return [(name, field_types(kind)[name]) for name in field_names(kind)]


def _fits(value: object, hint: Any) -> bool:
    kind, inner = taken_apart(hint)
    if kind is None:
        return type(value) is hint and (hint is not int or value in _INT64)
    if kind is tuple:
        return type(value) is tuple and all(_fits(element, inner) for element in value)
    return type(value) is dict and all(
        type(name) is str and _fits(element, inner) for name, element in value.items()
    )


def _malformed(kind: str) -> ProtocolFault:
    return ProtocolFault(
        f"A message is not a well-formed {kind!r}.",
        "What is not understood cannot be trusted.",
        "See that all parties run the same version.",
    )


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError:
        raise MissingExtra(
            "Messages between parties need the package msgpack, which is not installed.",
            "They travel in its format.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None
    return msgpack
