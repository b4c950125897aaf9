"""One value of a logged configuration: its type and its range."""

from __future__ import annotations

import math
import typing
from types import NoneType
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.records import RunOpen
from ...fl.declarations.registry import declaration_of, keys_by_table

WHY_REFUSED: Final = "An attack repeats a run as it was configured, and judges what it promised."

MAX_DECIMAL_CHARACTERS: Final = 40
"""Most characters of a decimal string."""


def value_of(where: str, source: object, hint: Any) -> object:
    """Return a value of its field's type; numbers with a fraction stand there as texts."""
    if typing.get_origin(hint) is tuple:
        if not isinstance(source, (list, tuple)) or any(
            type(element) is not str for element in source
        ):
            raise refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
        return tuple(source)
    kinds = typing.get_args(hint) if NoneType in typing.get_args(hint) else (hint,)
    if source is None and NoneType in kinds:
        return None
    if typing.get_origin(hint) is tuple:
        return _words(where, source)
    (kind,) = (kind for kind in kinds if kind is not NoneType)
    if typing.get_origin(kind) is typing.Literal:
        fits = isinstance(source, str) and source in typing.get_args(kind)
    elif kind is float:
        return _decimal(where, source)
    else:
        fits = type(source) is kind
    if not fits:
        raise refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
    return source


def _words(where: str, source: object) -> tuple[str, ...]:
    if not isinstance(source, (list, tuple)) or not all(isinstance(word, str) for word in source):
        raise refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
    return tuple(source)


def _decimal(where: str, source: object) -> float:
    number = None
    if isinstance(source, str) and len(source) <= MAX_DECIMAL_CHARACTERS:
        try:
            number = float(source)
        except ValueError:
            number = None
    # Only the shortest decimal form is accepted, so that one number has one text.
    if number is None or repr(number) != source:
        raise refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
    return number


def in_range(table: str, name: str, value: object, opened: RunOpen) -> None:
    """Raise `InvalidInput` for a value that no configuration may have."""
    if value is None or (value == math.inf and _unused(table, name, opened)):
        return  # what clips nothing has an infinite bound
    keys = keys_by_table(everywhere=table not in keys_by_table())
    key = next((declared for declared in keys[table] if declared.name == name), None)
    try:
        if key is None:
            validate.count(**{name: value})  # `group`, which a file says under [uldp]
        else:
            key.check(**{name: value})
    except InvalidInput as error:
        raise refused(f"In [{table}] of the log's configuration: {error.what}") from None


def _unused(table: str, name: str, opened: RunOpen) -> bool:
    """Return whether the system of a log has no use for a key."""
    try:
        return not declaration_of(opened.system).has_use_for(table, name)
    except InvalidInput:
        return False


def refused(what: str, why: str = WHY_REFUSED) -> InvalidInput:
    return InvalidInput(what, why, "Give the folder of a run as privplan left it.")
