"""Toy packages with systems, installed for a test as pip would do it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from privplan.fl.declarations.packages import foreign_systems

from ..fl.foreign import as_pip

PACKAGES = Path(__file__).parent


def install(name: str, place: Path) -> Path:
    """Copy a package of this folder into one of `sys.path`, with its entry points; return that."""
    place.mkdir(exist_ok=True)
    return as_pip(place, PACKAGES / name)


def for_each_test(name: str) -> Any:
    """Return a fixture that has a package of this folder installed for every test of a module."""

    @pytest.fixture(autouse=True)
    def toy(tmp_path: Path) -> Iterator[None]:
        with installed(name, tmp_path / "site"):
            yield

    return toy


@contextmanager
def installed(name: str, place: Path) -> Iterator[Path]:
    """Have a package of this folder here and now, and no longer."""
    sys.path.insert(0, str(install(name, place)))
    importlib.invalidate_caches()
    foreign_systems.cache_clear()
    try:
        yield place
    finally:
        sys.path.remove(str(place))
        for module in [one for one in sys.modules if one.split(".")[0] == name]:
            del sys.modules[module]
        foreign_systems.cache_clear()
