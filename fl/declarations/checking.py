"""Whether a declaration is sound: each complaint names the package, the system and the field."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..observers.names import OBSERVERS
from .dataset_defaults import DATASETS_WITH_DEFAULTS, Defaults
from .declaration import DECLARATION_VERSION, HELD_OUT, NORMALISE, Declaration, Table
from .toml_key import AGGREGATIONS, UNITS, Key
from .toml_keys import (
    ANY_AGGREGATION_KEYS,
    KEYS_LOGGED_IF_TRUE,
    OPTIONAL_KEYS,
    SHARED_KEYS,
    UNLOGGED_KEYS,
)

KNOWN_VERSIONS: Final = tuple(range(1, DECLARATION_VERSION + 1))

_SYSTEM_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_NAME_CHARACTERS: Final = 60
"""Most characters of a name."""

_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9_]*")
_REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

_VALUE_TYPES: Final = (bool, int, float, str)
"""What a value of a key may be; any of them or None, a `Literal` of words, or a tuple of texts."""


def require_sound(system: Declaration) -> None:
    """Raise `InvalidInput`, naming package and field, where a declaration cannot be used."""
    if (
        not isinstance(system.name, str)
        or len(system.name) > _MAX_NAME_CHARACTERS
        or not _SYSTEM_NAME.fullmatch(system.name)
    ):
        raise _unsound(system, "name", "must be small letters, digits and hyphens", system.name)
    if system.version not in KNOWN_VERSIONS or isinstance(system.version, bool):
        must = f"must be one that this privplan knows, {' or '.join(map(str, KNOWN_VERSIONS))}"
        raise _unsound(system, "version", must, system.version)
    if not isinstance(system.summary, str) or not system.summary.strip():
        raise _unsound(system, "summary", "must say in one line what it is", system.summary)
    for field in ("make", "data", "measure", "determines", "carrier", "canary_work", "study"):
        reference = getattr(system, field)
        if field != "make" and reference is None:
            continue
        if not isinstance(reference, str) or not _REFERENCE.fullmatch(reference):
            raise _unsound(system, field, 'must be a reference, "module:attribute"', reference)
    for field in ("promises", "trains"):
        if not isinstance(getattr(system, field), bool):
            raise _unsound(system, field, "must be true or false", getattr(system, field))
    for field in ("adjust", "sealed"):
        value = getattr(system, field)
        if value is not None and not callable(value):
            raise _unsound(system, field, "must be a function", value)
    if not isinstance(system.rules, tuple) or not all(map(callable, system.rules)):
        raise _unsound(system, "rules", "must be a tuple of functions", system.rules)
    _require_phases(system)
    if system.rounds is not None:
        _checked(system, "rounds", validate.count, system.rounds)
    _require_canaries(system)
    _require_words(system, "aggregations", AGGREGATIONS)
    _require_words(system, "units", UNITS)
    _require_words(system, "observers", OBSERVERS)
    _require_keys(system)
    if system.trains:
        _require_defaults(system)


def _require_phases(system: Declaration) -> None:
    names = system.phases
    if callable(names):
        return
    words = isinstance(names, tuple) and all(
        isinstance(name, str) and _SYSTEM_NAME.fullmatch(name) for name in names
    )
    if not words or not names or len(set(names)) < len(names):
        raise _unsound(
            system, "phases", "must be a tuple of names, each once, or a function", names
        )
    for name in (NORMALISE, HELD_OUT):
        if name in names:
            raise _unsound(system, "phases", "must not name the phase of all systems", name)


def _require_canaries(system: Declaration) -> None:
    usual = system.canaries
    if usual is None:
        return
    numbers = usual if isinstance(usual, Mapping) else {"plain": usual}
    for aggregation, number in numbers.items():
        if aggregation not in AGGREGATIONS:
            raise _unsound(system, "canaries", "must be by aggregation", aggregation)
        _checked(system, "canaries", validate.count, number)


def require_table(system: Declaration, table: Table) -> None:
    """Raise `InvalidInput` where the table of a system is none, or one of its keys is none."""
    if not isinstance(table, Table):
        raise _unsound(system, "table", "must be a `Table`", table)
    if not isinstance(table.name, str) or not _IDENTIFIER.fullmatch(table.name):
        raise _unsound(system, "table.name", "must be small letters, digits and _", table.name)
    if table.name in SHARED_KEYS:
        raise _unsound(system, "table.name", "must not be a table of all systems", table.name)
    if not isinstance(table.about, str) or not table.about.strip():
        raise _unsound(system, "table.about", "must say what the table is about", table.about)
    kind = table.settings
    if not isinstance(kind, type) or not is_dataclass(kind) or not _is_frozen(kind):
        raise _unsound(system, "table.settings", "must be a frozen dataclass", kind)
    if not isinstance(table.keys, tuple) or not all(isinstance(key, Key) for key in table.keys):
        raise _unsound(system, "table.keys", "must be a tuple of `Key`", table.keys)
    names = [key.name for key in table.keys]
    kept = [item.name for item in fields(kind)]
    if sorted(map(str, names)) != sorted(kept) or not names:
        raise _unsound(
            system, "table.keys", f"must be the fields of {kind.__name__}, each once", names
        )
    if table.group is not None and table.group not in names:
        raise _unsound(system, "table.group", "must be a key of the table", table.group)
    hints = _hints(system, kind)
    for key in table.keys:
        item = next(item for item in fields(kind) if item.name == key.name)
        _require_key(system, table, key, hints[key.name], item.default)


def _require_key(system: Declaration, table: Table, key: Key, hint: Any, default: object) -> None:
    where = f"table.keys, [{table.name}] {key.name}"
    # A key with words always says one of them, which is logged.
    lost = (*UNLOGGED_KEYS, *(() if key.words else KEYS_LOGGED_IF_TRUE))
    if key.name in lost:
        raise _unsound(
            system, where, "must have a name of its own: that one is kept out of logs", ""
        )
    if not callable(key.check):
        raise _unsound(system, where, "must have a range, `check`", key.check)
    for part in ("meaning", "default"):
        said = getattr(key, part)
        if not isinstance(said, str) or not said.strip():
            raise _unsound(system, f"{where}, {part}", "must be a text for a person", said)
    if not _is_known(hint):
        raise _unsound(system, where, "must be a truth value, a number, a word, or texts", hint)
    if default is not None and default is not MISSING:
        value = _checked(system, f"{where}, default", key.check, default, name=key.name)
        # A default is used unchecked, so it must already be what its range returns.
        if value != default:
            raise _unsound(system, where, "must have a range that returns what it checked", value)


def _require_keys(system: Declaration) -> None:
    if system.table is not None:
        require_table(system, system.table)
    names = () if system.table is None else tuple(key.name for key in system.table.keys)
    some = tuple(f"{table}.{key}" for table, key in (*OPTIONAL_KEYS, *ANY_AGGREGATION_KEYS))
    for field, known in (("ignores", names), ("uses", some)):
        value = getattr(system, field)
        if not isinstance(value, tuple) or not all(word in known for word in value):
            allowed = ", ".join(known) or "nothing, without a table"
            raise _unsound(system, field, f"must be a tuple, out of {allowed}", value)
    if not system.trains and any(word.startswith("training.") for word in system.uses):
        raise _unsound(
            system, "uses", "must not name [training], as `trains` is false", system.uses
        )


def _require_words(system: Declaration, field: str, known: tuple[str, ...]) -> None:
    value = getattr(system, field)
    if not isinstance(value, tuple) or not value or not all(word in known for word in value):
        raise _unsound(system, field, f"must be a tuple, out of {', '.join(known)}", value)


def _require_defaults(system: Declaration) -> None:
    """Try how the system trains on each data set: it must be what a configuration may say."""
    for dataset in DATASETS_WITH_DEFAULTS:
        where = f"adjust, on {dataset}"
        try:
            defaults = system.defaults(dataset)
        except (Exception, SystemExit) as error:  # whatever a function of another package does
            raise _unsound(
                system, where, f"must give defaults ({type(error).__name__})", ""
            ) from None
        if not isinstance(defaults, Defaults):
            raise _unsound(system, where, "must give `Defaults`", defaults)
        for table in ("run", "data", "training"):
            for key in SHARED_KEYS[table]:
                value = getattr(defaults, key.name, None)
                if value is not None and (
                    (table, key.name) not in OPTIONAL_KEYS or system.has_use_for(table, key.name)
                ):
                    _checked(system, f"{where}: {key.name}", key.check, value, name=key.name)


def _checked(
    system: Declaration, field: str, check: Callable[..., Any], value: object, name: str = ""
) -> object:
    """Return what a range makes of a value; raise `InvalidInput` where it refuses it, or fails."""
    try:
        return check(**{name or field: value})
    except InvalidInput as error:
        raise InvalidInput(
            f"Package {system.package}: system {system.name}, `{field}` is out of its range: "
            f"{error.what}",
            "A default is used as if it had been written.",
            f"Repair or remove {system.package}; other systems run without it.",
        ) from None
    except (Exception, SystemExit) as error:  # whatever a range of another package does
        raise _unsound(
            system, field, f"must have a range that can be asked ({type(error).__name__})", value
        ) from None


def _hints(system: Declaration, kind: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception as error:  # a name that is not there
        raise _unsound(system, "table.settings", f"must have types ({error})", kind) from None


def _is_known(hint: Any) -> bool:
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint) == (str, ...)
    parts = typing.get_args(hint) if _is_union(hint) else (hint,)
    kinds = [part for part in parts if part is not types.NoneType]
    return len(kinds) == 1 and (
        kinds[0] in _VALUE_TYPES
        or (
            typing.get_origin(kinds[0]) is typing.Literal
            and all(isinstance(word, str) for word in typing.get_args(kinds[0]))
        )
    )


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _is_frozen(kind: type[Any]) -> bool:
    return bool(kind.__dataclass_params__.frozen)


def _unsound(system: Declaration, field: str, must: str, value: object) -> InvalidInput:
    given = "" if value == "" else f"; it is {value!r:.80}"
    return InvalidInput(
        f"Package {system.package}: system {system.name!s:.60}, `{field}` {must}{given}.",
        "What a system declares is what its configurations are checked by.",
        f"Repair or remove {system.package}; other systems run without it.",
    )
