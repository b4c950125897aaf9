"""Rows that a program hands over: what a configuration says of them is what their table is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ...accountant.errors import InvalidInput, kind_of
from ..declarations.data_table import DataSettings
from ..declarations.toml_key import TABLE
from ..settings.schema import Settings
from ..tables.schema_text import schema_text, with_schema
from ..tables.table import Table

ROWS_OF_PROGRAM: Final = "program"
"""What `rows` in [data] says where no file has the rows."""


def with_rows_of(
    tables: Mapping[str, Mapping[str, object]], table: Table
) -> Mapping[str, Mapping[str, object]]:
    """Return the tables of a configuration with all of [data] that a table of a program says.

    Raises `InvalidInput` for what is no table, and where [data] says another one.
    """
    if not isinstance(table, Table):
        raise InvalidInput(
            f"`data` is {kind_of(table)}.",
            "It is a table: whose rows they are and what is public of them is said with it.",
            "Give data=pp.Table.from_frame(frame, schema=..., user=..., label=...).",
        )
    data = tables.get("data", {}) if isinstance(tables, Mapping) else None
    if not isinstance(data, Mapping):
        return tables  # which is refused where tables are checked
    said = with_schema(data, "The configuration") if data.get("name", TABLE) == TABLE else data
    public = _public(table)
    silos = said.get("silos")
    if isinstance(silos, (list, tuple)):
        said = {**said, "silos": list(silos)}
    other = [key for key, value in said.items() if key in public and value != public[key]]
    if other:
        raise other_table(other)
    of_table = {key: value for key, value in public.items() if value is not None}
    return {**tables, "data": {**said, **of_table}}


def _public(table: Table) -> dict[str, Any]:
    """Return what [data] says of a table, by key; None for what it must not say."""
    return {
        "name": TABLE,
        "silos": list(table.sources),
        "user": table.columns.user,
        "label": table.columns.label,
        "silo": table.columns.silo,
        "schema": schema_text(table.schema),
        "rows": ROWS_OF_PROGRAM,
        "path": None,
    }


def other_table(keys: list[str]) -> InvalidInput:
    """Return why a configuration and a table do not go together, by the keys of [data]."""
    return InvalidInput(
        f"The configuration says {', '.join(f'`{key}`' for key in keys)} in [data] otherwise than "
        "the table of data=.",
        f'With rows of a program [data] is about name = "{TABLE}", and what it says is what the '
        "table was made with.",
        "Leave the key out, or make the table so: pp.Table.from_frame(frame, schema=..., ...).",
    )


def require_rows_of_program(data: DataSettings) -> None:
    """Raise `InvalidInput` for a run that reads files, where a program hands rows over."""
    if data.rows is None:
        raise other_table(["rows"])


def holding(settings: Settings, table: Table | None) -> Settings:
    """Return settings that hold the table of a program; for None, that hold none."""
    return replace(settings, data=replace(settings.data, handed_over=table))


def table_handed_over(settings: Settings) -> Table | None:
    """Return the table that settings hold; None where files have the rows."""
    table = settings.data.handed_over
    return table if isinstance(table, Table) else None
