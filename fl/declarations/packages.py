"""Systems of this package, and those that others bring by entry points of `privplan.systems`.

An entry names a `Declaration`, a tuple of them, or a module or class with `SYSTEMS`.  It has the
name of a system: several may name one module, each for one of its systems.  What is wrong
with one of them is said where systems are listed and where it is asked for, and stops no other.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from .checking import require_sound
from .declaration import PRIVPLAN_PACKAGE, Declaration, Table

if TYPE_CHECKING:
    from importlib import metadata


_FOLDERS: Final = ("delm", "disco", "fedavg", "fedpower", "flame", "statistics", "uldp")
"""Folders of `fl` with systems; each has a module `declaration` with `SYSTEMS`."""


@cache
def built_in() -> dict[str, Declaration]:
    """Return the declaration of every system of this package, by its name."""
    known: dict[str, Declaration] = {}
    for folder in _FOLDERS:
        module = importlib.import_module(f"..{folder}.declaration", __package__)
        known |= {system.name: system for system in module.SYSTEMS}
    return known


def without_promise() -> tuple[str, ...]:
    """Return the names of the systems of this package that promise no privacy."""
    return tuple(name for name, system in built_in().items() if not system.promises)


ENTRY_POINT_GROUP: Final = "privplan.systems"
"""The group of entry points."""


@dataclass(frozen=True)
class ForeignSystem:
    """A system of another package, and its version; or what is wrong with it.

    `name` is the system's; that of the entry point where no declaration could be had from it.
    """

    package: str
    version: str
    name: str
    system: Declaration | None
    trouble: InvalidInput | None


@cache
def foreign_systems() -> tuple[ForeignSystem, ...]:
    """Return the systems of all other packages that are installed, by package and entry."""
    return _of(_entries())


@cache
def foreign_systems_named(name: str) -> tuple[ForeignSystem, ...]:
    """Return the systems of this name, loading only entry points that are named so themselves.

    Whatever else such an entry point brings is left out.
    """
    entries = _of([entry for entry in _entries() if entry.name == name])
    return tuple(entry for entry in entries if entry.name == name)


def has_entry(name: str) -> bool:
    """Return whether an entry point has this name: by it alone a log finds its system."""
    return any(entry.name == name for entry in _entries())


def _entries() -> list[metadata.EntryPoint]:
    from importlib import metadata  # a tenth of a second that our own systems need not wait for

    entries = set(metadata.entry_points(group=ENTRY_POINT_GROUP))
    return sorted(entries, key=lambda entry: (_package(entry), entry.name))


def _of(entries: list[metadata.EntryPoint]) -> tuple[ForeignSystem, ...]:
    listed: list[ForeignSystem] = []
    for entry in entries:  # several entry points may name one module: each system counts once
        listed += [system for system in _systems(entry) if system not in listed]
    return _without_clashes(listed)


def _package(entry: metadata.EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else entry.dist.name


def _systems(entry: metadata.EntryPoint) -> Iterator[ForeignSystem]:
    package = _package(entry)
    version = "?" if entry.dist is None else entry.dist.version
    where = f"The entry point `{entry.name}` of package {package}"

    def broken(what: str, why: str) -> ForeignSystem:
        repair = f"Repair or remove {package}; other systems run without it."
        return ForeignSystem(package, version, entry.name, None, InvalidInput(what, why, repair))

    try:
        with redirect_stdout(sys.stderr):  # what it prints is no answer of ours
            value = entry.load()
        declarations = getattr(value, "SYSTEMS", value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever another package does when it is imported
        reason = " ".join(str(error).split())
        what = f"{where} cannot be loaded: {type(error).__name__}: {reason:.200}."
        yield broken(what, "Its systems are known only once it is imported.")
        return
    several = declarations if isinstance(declarations, (tuple, list)) else (declarations,)
    if not several or not all(isinstance(system, Declaration) for system in several):
        asked = "It must name a `Declaration`, a tuple of them, or an object with `SYSTEMS`."
        yield broken(f"{where} names no declaration.", asked)
        return
    for system in several:
        whose = replace(system, package=package)
        try:
            require_sound(whose)
        except InvalidInput as error:
            name = system.name if isinstance(system.name, str) else entry.name
            yield ForeignSystem(package, version, name, None, error)
        else:
            yield ForeignSystem(package, version, system.name, whose, None)


def _without_clashes(listed: list[ForeignSystem]) -> tuple[ForeignSystem, ...]:
    """Return systems of which no two have one name, or one table with different keys."""
    ours = built_in()
    times = Counter(entry.name for entry in listed if entry.system is not None)
    tables: dict[str, Declaration] = {}
    for system in ours.values():
        if system.table is not None:
            tables.setdefault(system.table.name, system)
    # Of two systems with one name neither is taken: which ran would depend on the order of files.
    kept = []
    for entry in listed:
        if entry.system is None:
            kept.append(entry)
            continue
        try:
            if entry.name in ours or times[entry.name] > 1:
                raise _taken(entry, ours, listed)
            table = entry.system.table
            if table is not None:
                _require_same_table(entry.system, table, tables)
        except InvalidInput as error:
            entry = replace(entry, system=None, trouble=error)
        kept.append(entry)
    return tuple(kept)


def _require_same_table(system: Declaration, table: Table, known: dict[str, Declaration]) -> None:
    first = known.setdefault(table.name, system)
    if first.table != table:
        raise InvalidInput(
            f"Package {system.package}: system {system.name} has another `table` [{table.name}] "
            f"than {first.name} of package {first.package}.",
            "One table has one meaning, whoever reads a configuration.",
            f"Name the table of {system.package} after the package.",
        )


def _taken(
    entry: ForeignSystem, ours: dict[str, Declaration], listed: list[ForeignSystem]
) -> InvalidInput:
    others = sorted(
        {other.package for other in listed if other.name == entry.name} - {entry.package}
    )
    whose = (
        PRIVPLAN_PACKAGE if entry.name in ours else " and ".join(others) or "the same package again"
    )
    return InvalidInput(
        f"Package {entry.package}: the `name` {entry.name} is also that of a system of {whose}.",
        "A name says which algorithm ran, in configurations and in logs.",
        f"Remove one of the packages, or give the system of {entry.package} another name.",
    )
