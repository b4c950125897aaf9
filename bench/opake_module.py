"""opake's compiled module: its numbers without its Python layer, which not every Python imports.

The functions are those that the layer itself calls.  opake is no dependency.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

DISTRIBUTION = "opake-accounting"

MODULE = "opake_accounting"


def _path() -> Path | None:
    try:
        listed = files(DISTRIBUTION) or []
    except PackageNotFoundError:
        return None
    for each in listed:
        if each.name in {MODULE + suffix for suffix in EXTENSION_SUFFIXES}:
            return Path(str(each.locate()))
    return None


def installed() -> bool:
    """Return whether the compiled module is there."""
    return _path() is not None


def name() -> str:
    """Return what a column is called."""
    return f"opake {version(DISTRIBUTION)}" if installed() else "opake"


@lru_cache(maxsize=1)
def load() -> Any:
    """Return the compiled module."""
    path = _path()
    if path is None:
        raise ModuleNotFoundError(f"{DISTRIBUTION} is not installed.")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
