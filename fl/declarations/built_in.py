"""The systems of this package, by name."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

from .declaration import Declaration

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
