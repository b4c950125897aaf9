"""A key of a configuration: its name, range, meaning and default; and the words that keys take.

A table of a configuration is a frozen dataclass whose fields are its keys, each declared by `key`;
`keys_of` reads them off.  Nothing heavy is imported here, so that lists and pages cost nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias, Union, get_args

from ...accountant import validate
from ...accountant.decoding import field_types, taken_apart
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from ...accountant.neighbours import NEIGHBOURS, Unit
from ...accountant.toml_source import TomlReader

RATINGS: Final = "ratings"
"""The data set that is a matrix without labels: for systems that declare a use for its keys."""

TABLE: Final = "table"
"""The data set that is the user's own: records of real people, described by a public schema."""

DATASETS: Final = (
    TABLE,
    *("heart-disease", "tcga-brca", "creditcard", "mnist", "digits", "breast-cancer", "low-rank"),
    *("digits-32", "synthetic-digits", "emnist", "cifar-10"),
    RATINGS,
)

MODELS: Final = ("logistic", "cox", "softmax", "linear", "mlp", "cnn", "mlp-64", "alexnet")

LOSSES_OF_NUMBERS: Final = ("squared", "huber")
"""The losses of labels that are numbers, by name: of any model for them."""

LOSSES: Final = ("binary-cross-entropy", "cross-entropy", "cox", *LOSSES_OF_NUMBERS)
"""The losses by name."""

UNITS: Final[tuple[Unit, ...]] = get_args(Unit)

RELATIONS: Final = NEIGHBOURS

Aggregation: TypeAlias = Literal["plain", "masked", "private-weighting", "shares", "shuffle"]

AGGREGATIONS: Final[tuple[Aggregation, ...]] = get_args(Aggregation)

KEY_BITS: Final = (2048, 3072, 4096)

Fsync: TypeAlias = Literal["records", "always", "never"]


@dataclass(frozen=True)
class Key:
    """One key of a table.

    `check(name=value)` returns the value in its canonical type or raises `InvalidInput`: it is the
    key's range.  `meaning` and `default` are what a person reads; `why` is the reason for the
    range, and `words` are what may be written where that is a word.
    """

    name: str
    check: Callable[..., Any]
    meaning: str
    default: str
    why: str = ""
    words: tuple[str, ...] = ()


_DECLARED: Final = "key"
"""Under which the metadata of a field have what its key declares."""


@dataclass(frozen=True)
class _DeclaredKey:
    """What `key` says of a field."""

    meaning: str
    check: Callable[..., Any] | None
    shown: str
    why: str
    words: tuple[str, ...]


def key(
    meaning: str,
    check: Callable[..., Any] | None = None,
    *,
    default: Any = MISSING,
    shown: str = "",
    why: str = "",
    words: tuple[str, ...] = (),
) -> Any:
    """Return a field of a table that is a key of a configuration.

    `meaning` is one line for a person, `check` the range; without one the range is the field's
    type, a `Literal` of words or `bool`.  `shown` is what is said of the default, where that is not
    the field's own; `why` is the reason for the range.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Example:
    ...     rounds: int = key("how often", at_least(1), default=3)
    ...     pace: Literal["slow", "fast"] = key("how fast", default="slow")
    >>> [(each.name, each.default, each.words) for each in keys_of(Example)]
    [('rounds', '3', ()), ('pace', 'slow', ('slow', 'fast'))]
    """
    declared = _DeclaredKey(meaning, check, shown, why, words)
    return field(default=default, metadata={_DECLARED: declared})


def keys_of(table: type[Any]) -> tuple[Key, ...]:
    """Return the keys of a table: those that the class has itself, then those that it inherits."""
    mine = inspect.get_annotations(table)
    declared = [item for item in fields(table) if _DECLARED in item.metadata]
    ordered = sorted(declared, key=lambda item: item.name not in mine)
    return tuple(_key_of(item, table) for item in ordered)


@dataclass(frozen=True)
class TableReader(TomlReader):
    """Reads a TOML file whose tables are declared by keys."""

    def values(self, table: Mapping[str, Any], where: str, keys: Iterable[Key]) -> dict[str, Any]:
        """Return the values of a table, every key known and every value in its range.

        `where` names the table in messages, as "[target]".  Raises `InvalidInput`.
        """
        known = {each.name: each for each in keys}
        for name in table:
            if name not in known:
                raise self.unknown(f"has an unknown key `{name}` in {where}", name.lower(), known)
        return {name: self.value(where, known[name], value) for name, value in table.items()}

    def value(self, where: str, of: Key, value: Any) -> Any:
        """Return a value in the canonical type of its key; `InvalidInput` outside its range."""
        try:
            return of.check(**{of.name: value})
        except InvalidInput as error:
            close = nearest(str(value).lower(), self.words_of(of))
            step = f'Did you mean {of.name} = "{close}"?' if close else error.next_step
            raise InvalidInput(
                f"{self.name}, {where}: {error.what}", error.why or of.why, step or self.help
            ) from None

    def words_of(self, of: Key) -> tuple[str, ...]:
        """Return the words that a refused value may have meant."""
        return of.words


def _key_of(item: Field[Any], table: type[Any]) -> Key:
    declared: _DeclaredKey = item.metadata[_DECLARED]
    check, words = declared.check, declared.words
    if check is None and not words:
        kind, inner = taken_apart(field_types(table)[item.name])
        if kind is Union:
            kind, inner = taken_apart(inner)
        words, check = (inner, None) if kind is Literal else ((), flag)
    shown = declared.shown or _default_text(item.default)
    check = check or _word_of(words)
    return Key(item.name, check, declared.meaning, shown, declared.why, words)


def _default_text(value: object) -> str:
    if value is MISSING:
        return "required"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _word_of(words: tuple[str, ...]) -> Callable[..., str]:
    def check(**field: object) -> str:
        return validate.choice(words, **field)

    return check


def word(name: str, words: tuple[str, ...], meaning: str, default: str, why: str = "") -> Key:
    """Return a key that takes one of `words`."""

    return Key(name, _word_of(words), meaning, default, why, words)


def one_of(values: tuple[int, ...]) -> Callable[..., int]:
    """Return the range of the integers `values`."""

    def check(**field: object) -> int:
        ((name, value),) = field.items()
        if isinstance(value, bool) or value not in values:
            allowed = ", ".join(map(str, values))
            raise InvalidInput(f"`{name}` must be one of {allowed}; it is {value!r:.60}.")
        return validate.count(**field)

    return check


def between(least: int, most: int) -> Callable[..., int]:
    """Return the range of the integers from `least` to `most`."""

    def check(**field: object) -> int:
        ((name, value),) = field.items()
        integer = validate.count_from(least, **field)
        if integer > most:
            raise InvalidInput(
                f"`{name}` must be an integer from {least} to {most}; it is {value!r}."
            )
        return integer

    return check


def at_least(least: int) -> Callable[..., int]:
    """Return the range of the integers from `least`."""

    def check(**field: object) -> int:
        return validate.count_from(least, **field)

    return check


def rate(**field: object) -> float:
    """Return a number in (0, 1]."""
    ((name, value),) = field.items()
    if validate.probability(**field) == 0.0:
        raise InvalidInput(f"`{name}` must be a number in (0, 1]; it is {value!r}.")
    return validate.probability(**field)


def below_one(**field: object) -> float:
    """Return a number in [0, 1)."""
    ((name, value),) = field.items()
    if validate.probability(**field) == 1.0:
        raise InvalidInput(f"`{name}` must be a number in [0, 1); it is {value!r}.")
    return validate.probability(**field)


def text(**field: object) -> str:
    """Return a text that is not empty and holds no control characters."""
    ((name, value),) = field.items()
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidInput(
            f"`{name}` must be a text; it is {value!r:.60}.", next_step=f'Write {name} = "...".'
        )
    return value


def flag(**field: object) -> bool:
    """Return true or false."""
    ((name, value),) = field.items()
    if not isinstance(value, bool):
        raise InvalidInput(f"`{name}` must be true or false; it is {value!r:.60}.")
    return value
