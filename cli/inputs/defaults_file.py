"""`privplan.toml` in the working directory: defaults for the options of its commands.

A flag wins over a `PRIVPLAN_*` variable, which wins over this file.  An unknown table or key is
refused, because a misspelt key would silently change a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ...accountant.decoding import suggestion
from ...accountant.errors import InvalidInput
from ...accountant.toml_source import WHY_NAMES_ARE_CLOSED

DEFAULTS_FILE: Final = "privplan.toml"
"""Name of the file, in the working directory."""

_ACCOUNT: Final = ("delta", "epsilon", "neighbours", "group", "engine")
KEYS_BY_TABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "account": (
        *(*_ACCOUNT, "units", "records", "batch", "epochs", "rate", "rounds"),
        *("noise_multiplier", "mechanism", "sampling"),
    ),
    "calibrate": (
        *("epsilon", "delta", "records", "batch", "epochs", "rate", "rounds"),
        *("sampling", "mechanism", "neighbours", "group", "engine", "units"),
        *("release", "dimension", "classes", "label_weight", "by_class"),
        *("rows_per_user", "silo_rows", "unit"),
    ),
    "plan": (
        *("epsilon", "delta", "records", "batch", "epochs", "rates", "rounds"),
        *("mechanism", "neighbours", "group_sizes", "split", "cost", "sampling"),
    ),
}
"""The tables that the file may hold, and the keys of each."""

_TABLE_OF: Final = {
    "account": "account",
    "calibrate": "calibrate",
    "explain": "account",
    "plan": "plan",
}
"""From a command to its table; `explain` shares that of `account`, whose number it explains."""


def defaults(arguments: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return {command: {option: text}} for the command in `arguments`, as Click's `default_map`.

    Empty where the command takes no defaults, where help is asked for, and where there is no file.
    Raises `InvalidInput` as `load` does.
    """
    # A broken file must stop neither help nor the commands that take no defaults.
    command = next((word for word in arguments if not word.startswith("-")), "")
    if command not in _TABLE_OF or "--help" in arguments or not Path(DEFAULTS_FILE).is_file():
        return {}
    tables = load()
    return {command: tables.get(_TABLE_OF[command], {})}


def load() -> dict[str, dict[str, str]]:
    """Return every table of the file, with its values as texts, as on the command line.

    Raises `InvalidInput` for a file that cannot be read, is not TOML, or holds an unknown table,
    an unknown key or a value that is neither number nor text.
    """
    import tomllib

    try:
        content = tomllib.loads(Path(DEFAULTS_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{DEFAULTS_FILE} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{DEFAULTS_FILE} is not UTF-8 text.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"{DEFAULTS_FILE} is not TOML.",
            f"{error}.",
            f"Correct the line, or remove {DEFAULTS_FILE}.",
        ) from None
    for name, table in content.items():
        if name not in KEYS_BY_TABLE or not isinstance(table, dict):
            raise InvalidInput(
                f"{DEFAULTS_FILE} has an unknown table or key `{name}`.",
                WHY_NAMES_ARE_CLOSED,
                suggestion(name, KEYS_BY_TABLE, f"Known tables: {', '.join(KEYS_BY_TABLE)}."),
            )
        keys = KEYS_BY_TABLE[name]
        for key in table:
            if key not in keys:
                raise InvalidInput(
                    f"{DEFAULTS_FILE} has an unknown key `{key}` in [{name}].",
                    WHY_NAMES_ARE_CLOSED,
                    suggestion(key, keys, f"The keys of [{name}]: {', '.join(keys)}."),
                )
    return {
        name: {key: _option_text(name, key, value) for key, value in table.items()}
        for name, table in content.items()
    }


def _option_text(table: str, key: str, value: object) -> str:
    """Return a value as text; raise `InvalidInput` unless it is a number or a text."""
    # `bool` is a subclass of `int` in Python, but `true` is no number here.
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InvalidInput(
            f"{DEFAULTS_FILE}: `{key}` in [{table}] must be a number or a text; it is {value!r}.",
            next_step=f"Write `{key}` as on the command line.",
        )
    return value if isinstance(value, str) else repr(value)
