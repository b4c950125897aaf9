"""The tables of a configuration as a log has it, which other versions may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...accountant.errors import InvalidInput
from ...accountant.records import RunOpen
from ..declarations.packages import built_in
from ..declarations.registry import declaration_of, system_tables
from ..declarations.toml_key import TABLE
from .schema import default_table, table_json, tables_of

LOOP_TABLE: Final = "loop"
"""The table of a log's configuration in which a training loop of others states its plan."""


def is_of_loop(opened: RunOpen) -> bool:
    """Return whether a log is of a training loop of others, which has no configuration of ours."""
    return set(opened.configuration) == {LOOP_TABLE}


def tables_in(configuration: Mapping[str, object]) -> dict[str, type[Any]]:
    """Return the type of each table of a log's configuration, as its system has them.

    Of a system that is not known here, only those that all systems share; and [training] only where
    the configuration has it, since nobody here knows whether the system trains.
    """
    run = configuration.get("run")
    name = run.get("system") if isinstance(run, Mapping) else None
    try:
        return tables_of(declaration_of(name))
    except InvalidInput:
        # Nobody here knows the system: what all systems share is all that can be read.
        shared = tables_of(None)
        if "training" not in configuration:
            del shared["training"]
        return shared


def idle_tables(configuration: Mapping[str, object]) -> tuple[str, ...]:
    """Return the tables of other families in a log's configuration that say nothing.

    Earlier versions wrote such tables for every system, with the defaults of all keys.
    """
    families = system_tables(built_in())
    mine = tables_in(configuration)
    return tuple(
        name
        for name, said in configuration.items()
        if name in families and name not in mine and _says_nothing(said, families[name].settings)
    )


def _says_nothing(said: object, kind: type[Any]) -> bool:
    usual = default_table(kind)
    defaults = {} if usual is None else table_json(usual)
    return isinstance(said, Mapping) and all(
        key in defaults and type(value) is type(defaults[key]) and value == defaults[key]
        for key, value in said.items()
    )


def users_are_private(opened: RunOpen) -> bool:
    """Return whether a log says that its run was on a table whose users nobody has counted."""
    data = opened.configuration.get("data")
    of_table = isinstance(data, Mapping) and data.get("name") == TABLE
    return of_table and list_of_users(opened) is None


def list_of_users(opened: RunOpen) -> str | None:
    """Return who says that the list of users is public, as a log has it; None where nobody does."""
    data = opened.configuration.get("data")
    source = data.get("users_public") if isinstance(data, Mapping) else None
    return source if isinstance(source, str) else None
