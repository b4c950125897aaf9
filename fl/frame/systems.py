"""Every system that can be run: those of this package, by name."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

from ...accountant import validate
from .declaration import Declaration

_FOLDERS: Final = ("fedavg", "uldp")
"""Folders of `fl` with systems; each has a module `declaration` with `SYSTEMS`."""


@cache
def declared() -> dict[str, Declaration]:
    """Return the declaration of every system, by its name."""
    found: dict[str, Declaration] = {}
    for folder in _FOLDERS:
        module = importlib.import_module(f"..{folder}.declaration", __package__)
        found |= {one.name: one for one in module.SYSTEMS}
    return found


def declaration_of(system: str) -> Declaration:
    """Return the declaration of a system; raise `InvalidInput` for a name that is not known."""
    known = declared()
    return known[validate.choice(tuple(known), system=system)]
