"""Every system that can be run, by name: those of this package, and those of other packages.

Other packages are looked for only where a name is not one of ours, and where all are listed.  Who
reads a stranger's log does so within `exactly_named`: then a name that the log gives loads no code
but that of an installed package whose entry point has this very name.  So a package that brings
several systems has an entry point for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from .declaration import Declaration, Table
from .packages import ForeignSystem, built_in, foreign_systems, foreign_systems_named
from .toml_key import Key
from .toml_keys import SHARED_KEYS

_NAMES_REQUESTED: ContextVar[set[str] | None] = ContextVar(
    "systems asked for by name", default=None
)
"""Within `exactly_named`, the names that were asked for; None outside of it."""


@contextmanager
def exactly_named() -> Iterator[None]:
    """Load, within this, no package but those whose entry points have a name that is asked for."""
    token = _NAMES_REQUESTED.set(set(_NAMES_REQUESTED.get() or ()))
    try:
        yield
    finally:
        _NAMES_REQUESTED.reset(token)


def _foreign_systems() -> tuple[ForeignSystem, ...]:
    """Return the systems of other packages: of all, or of those that were asked for by name."""
    asked = _NAMES_REQUESTED.get()
    if asked is None:
        return foreign_systems()
    return tuple(entry for name in sorted(asked) for entry in foreign_systems_named(name))


def declared() -> dict[str, Declaration]:
    """Return the declaration of every system that can be run, those of other packages last."""
    others = (entry.system for entry in _foreign_systems())
    return built_in() | {system.name: system for system in others if system is not None}


def declaration_of(system: object) -> Declaration:
    """Return the declaration of a system; raise `InvalidInput` for a name that is not known.

    A system that another package brings, and that cannot be used, is refused with the reason.
    """
    if isinstance(system, str) and system in built_in():
        return built_in()[system]
    # Ours come first: a log or configuration of ours imports no other package.
    asked = _NAMES_REQUESTED.get()
    if asked is not None and isinstance(system, str):
        asked.add(system)
    systems = declared()
    if isinstance(system, str) and system in systems:
        return systems[system]
    troubles = {
        entry.name: entry.trouble for entry in _foreign_systems() if entry.trouble is not None
    }
    if isinstance(system, str) and system in troubles:
        raise troubles[system]
    unnamed = ""
    if asked is not None and isinstance(system, str):
        unnamed = " No package here has an entry point of that name, and a log loads no other."
    close = nearest(str(system).lower(), systems)
    raise InvalidInput(
        f"`system` must be one of {', '.join(systems)}; it is {system!r:.60}.{unnamed}",
        " ".join(trouble.what for trouble in troubles.values()),
        f"Did you mean {close}?" if close else "Give `system` one of these names.",
    )


def declaration_or_none(system: str) -> Declaration | None:
    """Return the declaration of a system; None for a name that is not known."""
    try:
        return declaration_of(system)
    except InvalidInput:
        return None


def with_use_for(table: str, key: str) -> tuple[str, ...]:
    """Return the names of all systems that have a use for a key."""
    return tuple(name for name, system in declared().items() if system.has_use_for(table, key))


def system_tables(among: Mapping[str, Declaration] | None = None) -> dict[str, Table]:
    """Return the tables of a configuration that only some systems have, by name.

    `among` are the systems whose tables are meant; all that are installed, if None.
    """
    systems = declared() if among is None else among
    tables = (system.table for system in systems.values())
    return {table.name: table for table in tables if table is not None}


def system_name(**field: object) -> str:
    """Return the name of a system that can be run, of this package or another.

    It is the range of `[run] system`.  Raises `InvalidInput` as `declaration_of`.
    """
    ((_, value),) = field.items()
    return declaration_of(value).name


_KEYS_WITH_SYSTEM_NAMES: Final[Mapping[str, tuple[Key, ...]]] = {
    table: tuple(
        replace(key, check=system_name) if (table, key.name) == ("run", "system") else key
        for key in keys
    )
    for table, keys in SHARED_KEYS.items()
}
"""The keys that all systems share; `[run] system` takes the names of installed systems only."""


def keys_by_table(*, everywhere: bool = False) -> dict[str, tuple[Key, ...]]:
    """Return the keys of every table; with `everywhere`, those of other packages too."""
    families = system_tables(None if everywhere else built_in())
    return {**_KEYS_WITH_SYSTEM_NAMES, **{name: table.keys for name, table in families.items()}}
