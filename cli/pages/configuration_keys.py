"""What `privplan explain run` says of systems and keys, from their declarations."""

from __future__ import annotations

import textwrap
from typing import Final

PAGE_LINE_CHARACTERS: Final = 92
TEXT_COLUMN: Final = 22
"""Column of a key's meaning, behind its name."""

_TABLE_SUMMARIES: Final = {
    "run": "what is run",
    "data": "which records, and how they are dealt to users and silos",
    "privacy": "what is promised; not for a system that promises nothing",
    "training": "how models are trained; not for a system that trains none",
    "security": "what the server sees",
    "evaluation": "what the model is measured on",
    "log": "how the log is kept; not part of what is run",
}


def filled(page: str) -> str:
    """Return the page with the declared systems and keys in the place of {systems} and {tables}."""
    return page.replace("{systems}", _systems()).replace("{tables}", _tables())


def _systems() -> str:
    """Return the list of systems, and what is wrong with those of other packages."""
    from ...fl.declarations.declaration import PRIVPLAN_PACKAGE
    from ...fl.declarations.packages import foreign_systems
    from ...fl.declarations.registry import declared

    lines = ["Systems"]
    for name, system in declared().items():
        whose = "" if system.package == PRIVPLAN_PACKAGE else f" (package {system.package})"
        lines += _entry(name, f"{system.summary}{whose}")
    # A package that cannot be loaded is listed too: its author reads here why.
    for entry in foreign_systems():
        if entry.trouble is not None:
            lines += _entry(entry.name, f"cannot be used.  {entry.trouble.what}")
    return "\n".join(lines)


def _tables() -> str:
    """Return every table of a configuration with its keys, an empty line between tables."""
    from ...fl.declarations.registry import keys_by_table, system_tables

    families = system_tables()
    tables = []
    for name, keys in keys_by_table(everywhere=True).items():
        about = families[name].about if name in families else _TABLE_SUMMARIES[name]
        lines = [f"[{name}]  {about}"]
        for key in keys:
            text = f"{key.meaning}{_for_whom(name, key.name)}.  Default: {key.default}."
            lines += _entry(key.name, text)
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _for_whom(table: str, key: str) -> str:
    """Return which systems have a use for a shared key, where not all have one."""
    from ...fl.declarations.registry import declared, with_use_for
    from ...fl.declarations.toml_keys import OPTIONAL_KEYS

    if (table, key) not in OPTIONAL_KEYS:
        return ""
    users = with_use_for(table, key)
    concerned = [name for name, each in declared().items() if each.trains or table != "training"]
    others = [name for name in concerned if name not in users]
    # Whichever list is shorter says it.
    listed = f"not for {', '.join(others)}" if len(others) < len(users) else ", ".join(users)
    return f" ({listed})" if others else ""


def _entry(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=PAGE_LINE_CHARACTERS,
        initial_indent=f"  {name:<{TEXT_COLUMN - 2}}",
        subsequent_indent=" " * TEXT_COLUMN,
        break_on_hyphens=False,
    )
