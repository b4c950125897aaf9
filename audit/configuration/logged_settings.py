"""The settings of a run, out of its log: read as a stranger's, and held against what it promised.

A log says how its run was configured and what it promises.  An attack repeats the first and judges
the second, so where they do not belong together there is nothing to attack.  Paths and keys never
stand in a log, so none is taken from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from ...accountant.decoding import field_types
from ...accountant.errors import InvalidInput
from ...accountant.records import RunOpen
from ...fl.declarations.registry import declaration_of, exactly_named
from ...fl.declarations.toml_keys import UNLOGGED_KEYS
from ...fl.running.resumption import require_same_settings
from ...fl.settings.file import content_of, parse
from ...fl.settings.logged_tables import idle_tables, tables_in
from ...fl.settings.schema import NO_TRAINING, Settings
from .first_line import CONFIG_FILE, compare_with_file, sentence_of
from .logged_configuration import in_range, logged_value, refused


@exactly_named()
def settings_in(opened: RunOpen) -> Settings:
    """Return the settings under which a run was opened, checked key by key.

    They lack what never reaches a log (`fl.declarations.toml_keys.UNLOGGED_KEYS`).  Whether the log
    keeps to them is the question of `comparison`.  Raises `InvalidInput`, naming the key, for a
    configuration that is missing, incomplete, of a newer version or out of range.
    """
    if not opened.configuration:
        raise refused("The log does not say how its run was configured.")
    tables = tables_in(opened.configuration)
    idle = idle_tables(opened.configuration)
    unknown = sorted(name for name in opened.configuration if name not in (*tables, *idle))
    if unknown:
        raise refused(f"The log's configuration has an unknown table {unknown[0]!r:.60}.")
    read = {
        name: _table(name, cls, opened.configuration.get(name, {}), opened)
        for name, cls in tables.items()
    }
    try:
        system = declaration_of(read["run"].system)
    except InvalidInput as error:
        raise refused(f"In [run] of the log's configuration: {error.what}") from None
    special = None if system.table is None else read.pop(system.table.name)
    return Settings(**{"training": NO_TRAINING, **read}, table=special)


@exactly_named()
def require_same_file(folder: Path, opened: RunOpen) -> None:
    """Raise `InvalidInput` where a folder's own configuration is not that of its log."""
    file = folder / CONFIG_FILE
    if file.is_file():
        kept = parse(content_of(file, within=folder), CONFIG_FILE)
        require_same_settings(opened, kept.to_json())
        differences = compare_with_file(folder, opened).differences
        if differences:
            raise refused(
                sentence_of(differences), "One of them was edited, or they are of two runs."
            )


@exactly_named()
def path_in(folder: Path) -> Path | None:
    """Return the path of the data that a folder's configuration names, if any; nothing is read."""
    file = folder / CONFIG_FILE
    if not file.is_file():
        return None
    return parse(content_of(file, within=folder), CONFIG_FILE).data.path


def _table(name: str, cls: type[Any], source: object, opened: RunOpen) -> Any:
    assert is_dataclass(cls)
    if not isinstance(source, Mapping):
        raise refused(f"[{name}] of the log's configuration is no table.")
    known = {item.name: item for item in fields(cls) if item.name not in UNLOGGED_KEYS}
    unknown = sorted(str(key) for key in source if key not in known)
    if unknown:
        raise refused(f"The log's configuration has an unknown key {unknown[0]!r:.60} in [{name}].")
    hints = field_types(cls)
    given: dict[str, Any] = {}
    for key, item in known.items():
        if key in source:
            given[key] = logged_value(f"[{name}] {key}", source[key], hints[key])
            in_range(name, key, given[key], opened)
        elif item.default is MISSING:
            raise refused(f"The log's configuration lacks `{key}` in [{name}].")
    return cls(**given)
