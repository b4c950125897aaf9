"""One value of a logged configuration: its type and its range."""

from __future__ import annotations

import math
from typing import Any, Final, Literal, Union

from ...accountant import validate
from ...accountant.decoding import decimal_number, taken_apart
from ...accountant.errors import InvalidInput
from ...accountant.records import RunOpen
from ...fl.declarations.registry import declaration_of, keys_by_table

WHY_REFUSED: Final = "An attack repeats a run as it was configured, and judges what it promised."


def value_of(where: str, source: object, hint: Any) -> object:
    """Return a value of its field's type; numbers with a fraction stand there as texts."""
    kind, inner = taken_apart(hint)
    if kind is Union:
        return None if source is None else value_of(where, source, inner)
    if kind is tuple and isinstance(source, (list, tuple)):
        if all(type(element) is str for element in source):
            return tuple(source)
    elif hint is float:
        number = decimal_number(source)
        # Only the shortest decimal form is accepted, so that one number has one text.
        if number is not None and repr(number) == source:
            return number
    elif (isinstance(source, str) and source in inner) if kind is Literal else type(source) is hint:
        return source
    raise refused(f"{where} of the log's configuration cannot be {source!r:.60}.")


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
