"""The configuration in a log's first line: whether all of it stands there, and in its file.

Nothing is computed here, so that `audit log` can look as well, and stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from ...accountant.errors import PrivplanError
from ...accountant.records import RunOpen
from ...accountant.toml_source import toml_tables
from ...fl.declarations.registry import exactly_named
from ...fl.declarations.toml_keys import UNLOGGED_KEYS, may_be_unlogged
from ...fl.settings.logged_tables import is_of_loop, tables_in
from ...fl.settings.toml_file import content_of, parse

CONFIG_FILE: Final = "config.toml"

MAX_DIFFERENCES_SHOWN: Final = 3
"""Most differences that are named."""

MAX_VALUE_CHARACTERS: Final = 60
"""Most characters of a value that are shown."""

ADDED_KEYS: Final = (
    ("privacy", "observer"),
    ("privacy", "observers"),
    ("privacy", "accept_delta"),
    ("security", "colluders"),
    ("evaluation", "test"),
    ("evaluation", "source"),
)
"""Keys that configurations did not always have: a log with one of them is of this version."""


@dataclass(frozen=True)
class Difference:
    """One fact that is not what the configuration makes it, and the line that states it."""

    fact: str
    expected: str
    stated: str
    line: int
    said_by: str = "the configuration"

    def __str__(self) -> str:
        """Return one clause that names both values."""
        return (
            f"{self.said_by} says {self.fact} {self.expected}, line {self.line:,} states "
            f"{self.stated}"
        )


@dataclass(frozen=True)
class Comparison:
    """What differs, in the order of the lines, and what could not be compared."""

    differences: tuple[Difference, ...]
    not_stated: tuple[str, ...]


def is_current(opened: RunOpen) -> bool:
    """Return whether a first line has anything that earlier versions did not write."""
    tables = {
        name: table for name, table in opened.configuration.items() if isinstance(table, Mapping)
    }
    return opened.sealed is not None or any(key in tables.get(name, {}) for name, key in ADDED_KEYS)


def missing_from_first_line(opened: RunOpen) -> tuple[Difference, ...]:
    """Return what was taken out of a first line: this version writes every key, and what it seals.

    A log of an earlier version, which may have had fewer keys, lacks nothing.
    """
    if not is_current(opened):
        return ()
    if not opened.configuration:
        return (_taken("the configuration"),)
    if is_of_loop(opened):
        return ()  # the plan of a loop is no configuration of ours
    taken_out = []
    for name, cls in tables_in(opened.configuration).items():
        source = opened.configuration.get(name, {})
        keys = [
            item.name
            for item in fields(cls)
            if item.name not in UNLOGGED_KEYS and not may_be_unlogged(name, item.name)
        ]
        if isinstance(source, Mapping):
            taken_out += [_taken(f"[{name}] {key}") for key in keys if key not in source]
    if opened.sealed is None:
        taken_out.append(_taken("sealed"))
    return tuple(taken_out)


def _taken(what: str) -> Difference:
    return Difference(what, "something", "nothing of it", 1, "every run")


@exactly_named()
def compare_with_file(folder: str | Path, opened: RunOpen) -> Comparison:
    """Return the configuration in a log's first line against the file that its folder holds.

    A key that the file writes stands in the log as well; one that neither the file writes nor the
    log has is not compared, nor are those that never reach a log.
    """
    file = Path(folder) / CONFIG_FILE
    if not file.is_file():
        return Comparison((), ())
    try:
        content = content_of(file, within=file.parent)
        settings = parse(content, CONFIG_FILE)
    except PrivplanError:
        return Comparison((), (CONFIG_FILE,))
    if not opened.configuration:
        return Comparison(
            (Difference("the configuration", "all of it", "none", 1, CONFIG_FILE),), ()
        )
    written = toml_tables(content)
    differences = []
    if settings.log.fsync != opened.fsync:
        differences.append(
            Difference("[log] fsync", settings.log.fsync, opened.fsync, 1, CONFIG_FILE)
        )
    for table, keys in settings.to_json().items():
        source = opened.configuration.get(table, {})
        logged = source if isinstance(source, Mapping) else {}
        for key, value in keys.items():
            as_logged = list(value) if isinstance(value, tuple) else value
            # A key that is absent on one side is a difference only if the file really writes it.
            if key in logged and logged[key] != as_logged:
                pair = shown(value), shown(logged[key])
            elif key not in logged and key in written.get(table, {}):
                pair = shown(value), "nothing of it"
            else:
                continue
            differences.append(Difference(f"[{table}] {key}", *pair, 1, CONFIG_FILE))
    return Comparison(tuple(differences), ())


def sentence_of(differences: Sequence[Difference]) -> str:
    """Return the first differences in one sentence, and how many more there are."""
    clauses = "; ".join(str(difference) for difference in differences[:MAX_DIFFERENCES_SHOWN])
    more = (
        f"; and {len(differences) - MAX_DIFFERENCES_SHOWN:,} more"
        if len(differences) > MAX_DIFFERENCES_SHOWN
        else ""
    )
    return f"{clauses[0].upper()}{clauses[1:]}{more}."


def shown(value: object) -> str:
    """Return a value as a sentence shows it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    for word in ("protocol", "kind"):
        if hasattr(value, word):
            return str(getattr(value, word))
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {', '.join(items)}" for name, items in value.items())
    return f"{value}"[:MAX_VALUE_CHARACTERS]
