"""`privplan.toml` in the working directory: defaults for the options of its commands.

A flag wins over a `PRIVPLAN_*` variable, which wins over this file.  An unknown table or key is
refused, because a misspelt key would silently change a number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import typer

from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import suggestion
from ...accountant.regular_file import regular_content
from ...accountant.toml_source import MAX_TOML_BYTES, WHY_NAMES_ARE_CLOSED, toml_tables
from ...fl.ledger_client import KEYS_VARIABLE, TOKEN_VARIABLE

PREFIX: Final = "PRIVPLAN_"
DEBUG: Final = "PRIVPLAN_DEBUG"
"""Shows where an error of privplan's own arose; no option."""


_SAID_OF: Final = {"ENVIRONMENT": "the environment", "DEFAULT_MAP": "privplan.toml"}
"""Sources of an option that a line of the command does not show."""

DEFAULTS_FILE: Final = "privplan.toml"
"""Name of the file, in the working directory."""

_SILENCED: Final = "privplan.silenced"
"""Where a context keeps the names of options that were not used."""

Tables = Mapping[str, Sequence[str]]
"""The tables that the file may hold, and the keys of each."""

_TABLE_OF: Final = {
    "account": "account",
    "calibrate": "calibrate",
    "explain": "account",
    "plan": "plan",
}
"""From a command to its table; `explain` shares that of `account`, whose number it explains."""


def defaults(arguments: Sequence[str], known: Tables) -> dict[str, dict[str, str]]:
    """Return {command: {option: text}} for the command in `arguments`, as Click's `default_map`.

    Empty where the command takes no defaults, where help is asked for, and where there is no file.
    Raises `InvalidInput` as `load` does.
    """
    # A broken file must stop neither help nor the commands that take no defaults.
    command = next((word for word in arguments if not word.startswith("-")), "")
    asks_for_help = "--help" in arguments or "-h" in arguments
    if command not in _TABLE_OF or asks_for_help or not os.path.lexists(DEFAULTS_FILE):
        return {}
    tables = load(known)
    return {command: tables.get(_TABLE_OF[command], {})}


def sources(context: typer.Context) -> str:
    """Return which options of a call came from the file or the environment; empty if none did.

    What a stronger source silenced (`silence`) was not used, and is not named.
    """
    named: dict[str, list[str]] = {}
    silent = context.meta.get(_SILENCED, ())
    for parameter in context.command.params:
        if parameter.name in silent:
            continue
        source = context.get_parameter_source(parameter.name or "")
        where = _SAID_OF.get("" if source is None else source.name)
        if where is not None:
            given = f"{parameter.opts[0]} {context.params[parameter.name or '']}"
            named.setdefault(where, []).append(given)
    return "; ".join(f"from {where}: {', '.join(given)}" for where, given in named.items())


def silence(context: typer.Context, names: Iterable[str]) -> None:
    """Note options whose values are not used, because something stronger excludes them."""
    context.meta.setdefault(_SILENCED, set()).update(names)


def read_variables(command: str, parameters: Iterable[Any], known: Tables) -> None:
    """Let each option of a command that the file may hold be set by its variable as well."""
    keys = known.get(_TABLE_OF.get(command, ""), ())
    for parameter in parameters:
        if parameter.name in keys:
            parameter.envvar = PREFIX + parameter.name.upper()
            parameter.show_envvar = False


def require_known_variables(known: Callable[[], Iterable[str]]) -> None:
    """Raise `InvalidInput` for a variable PRIVPLAN_... that no option reads, as if it were one."""
    # An option would show a token to who lists processes.
    no_options = (DEBUG, TOKEN_VARIABLE, KEYS_VARIABLE)
    given = [name for name in os.environ if name.startswith(PREFIX) and name not in no_options]
    if not given:
        return
    names = sorted(known())
    for name in sorted(given):
        if name not in names:
            raise InvalidInput(
                f"The variable {name} sets no option.",
                "What it was to do would silently not be done.",
                suggestion(name, names, f"Take it away: unset {name}"),
            )


def load(known: Tables) -> dict[str, dict[str, str]]:
    """Return every table of the file, with its values as texts, as on the command line.

    Raises `InvalidInput` for a file that cannot be read, is not TOML, or holds an unknown table,
    an unknown key or a value that is neither number nor text.
    """
    try:
        content = toml_tables(regular_content(DEFAULTS_FILE, MAX_TOML_BYTES))
    except OSError as error:
        raise InvalidInput(f"{DEFAULTS_FILE} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{DEFAULTS_FILE} is not UTF-8 text.") from None
    except (ValueError, RecursionError) as error:  # also for an integer of too many digits
        raise InvalidInput(
            f"{DEFAULTS_FILE} is not TOML.",
            f"{error}.",
            f"Correct the line, or remove {DEFAULTS_FILE}.",
        ) from None
    for name, table in content.items():
        if name not in known or not isinstance(table, dict):
            raise InvalidInput(
                f"{DEFAULTS_FILE} has an unknown table or key `{name}`.",
                WHY_NAMES_ARE_CLOSED,
                suggestion(name, known, f"Known tables: {', '.join(known)}."),
            )
        keys = known[name]
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
