"""The rows of a run on a table, for the tier that reads them: a person says where they are.

files       the run's configuration, which names them: the copy in its folder, or the file it began
            from; it must say the very settings of the log
a program   the table itself, from Python
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.records import RunOpen
from ...fl.declarations.toml_key import TABLE
from ...fl.running.resumption import require_same_settings
from ...fl.running.rows_from_program import holding, with_rows_of
from ...fl.running.toml_writer import toml_bytes
from ...fl.settings.schema import Settings
from ...fl.settings.toml_file import content_of, parse, tables_in
from ...fl.tables.table import Table
from ..configuration.first_line import CONFIG_FILE
from ..configuration.logged_settings import path_in

PUBLIC_DATASETS: Final = (
    *("digits", "breast-cancer", "low-rank"),
    *("digits-32", "synthetic-digits"),
)
"""Data sets that come with the package: what is measured on their records is no secret."""

_WHY_ASKED = (
    "It trains on the rows of the table without noise, so it asks for their place; a log names "
    "none."
)

_FROM_PYTHON = (
    'From Python: attack(folder, AttackRequest(tiers=("membership",), data=table)), of '
    "privplan.audit.attack, with the table that the run was given."
)


def with_own_table(
    settings: Settings, opened: RunOpen, folder: Path, given: Path | Table | None
) -> Settings:
    """Return settings of a log that say where the table's rows are; none of them is read here.

    `given` is the configuration that names the files, or a table; `folder` is the run's, whose copy
    of the configuration says the rest of what a table does not (a public test file, for example).
    Raises `InvalidInput` where nothing is given, where the rows are in no file, and for a table or
    a configuration that says otherwise than the log.
    """
    if given is None:
        raise _missing(settings, folder)
    said = _of_table(given, folder) if isinstance(given, Table) else _of_file(given)
    require_same_settings(opened, said.to_json())
    # The code of a model stays what a person gave: a configuration only names it.
    return replace(settings, data=said.data, evaluation=said.evaluation)


def require_place(
    settings: Settings, opened: RunOpen, folder: Path, given: Path | Table | None
) -> None:
    """Raise `InvalidInput` unless a person says where the records are, if they are files."""
    name = settings.data.name
    if name == TABLE:
        with_own_table(settings, opened, folder, given)
        return
    if isinstance(given, Table):
        raise InvalidInput(
            f"`data` is a table, and the run is on {name}.",
            "What is found out about other records says nothing about it.",
            "Leave it out, or give the path of the records.",
        )
    if (name in PUBLIC_DATASETS) == (given is None):
        return
    if name in PUBLIC_DATASETS:
        raise InvalidInput(
            f"`data` is given, and {name} comes with privplan.",
            "The run was made on those records.",
            "Leave it out.",
        )
    named = path_in(folder)
    hint = "" if named is None else f"; the run's own configuration names {str(named)!r}"
    raise InvalidInput(
        f"`data` is missing: membership reads the records of {name}.",
        "It trains on them without noise, so it asks for their place; a log names none.",
        f"Give the file or folder of the records as `data`{hint}.",
    )


def place_of(given: Path | Table) -> str:
    """Return in words where the rows were read, without naming a file of theirs."""
    if isinstance(given, Table):
        return "the rows of the table that a program gave"
    return f"the rows of the files that {given} names"


def _of_file(given: object) -> Settings:
    if not isinstance(given, Path):
        raise InvalidInput(
            f"`data` is {kind_of(given)}, and the run is on a table.",
            _WHY_ASKED,
            "Give the path of the run's configuration, or its table: "
            "pp.Table.from_frame(frame, schema=...).",
        )
    file = given / CONFIG_FILE if given.is_dir() else given
    said = parse(content_of(file), file.name)
    if said.data.rows is not None:
        raise _in_no_file()
    return said


def _of_table(table: Table, folder: Path) -> Settings:
    """Return what the folder's copy says with the rows of a table."""
    tables: Mapping[str, Mapping[str, object]]
    tables = tables_in(content_of(folder / CONFIG_FILE, within=folder), CONFIG_FILE)
    data = tables.get("data")
    if not isinstance(data, Mapping) or "rows" not in data:
        raise InvalidInput(
            "`data` is a table, and the run read its rows from files.",
            _WHY_ASKED,
            f"Give the configuration that names them: {folder / CONFIG_FILE}",
        )
    content = toml_bytes(with_rows_of(tables, table))
    return holding(parse(content, "The configuration"), table)


def _missing(settings: Settings, folder: Path) -> InvalidInput:
    if settings.data.rows is not None:
        return _in_no_file()
    return InvalidInput(
        "`data` is missing: membership reads the rows of the table.",
        _WHY_ASKED,
        "Give the configuration that names its files, from the folder where the run was begun: "
        f"--data {folder / CONFIG_FILE}",
    )


def _in_no_file() -> InvalidInput:
    return InvalidInput(
        "The rows of the table are in no file, so membership cannot read them from here.",
        'That is what rows = "program" in [data] says: a program handed them over.',
        _FROM_PYTHON,
    )
