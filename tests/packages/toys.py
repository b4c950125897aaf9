"""Toy packages with systems, installed for a test as pip would do it."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privplan.fl.frame.packages import foreign

PACKAGES = Path(__file__).parent


def install(name: str, place: Path) -> Path:
    """Copy a package of this folder into one of `sys.path`, with its entry points; return that."""
    project = tomllib.loads((PACKAGES / name / "pyproject.toml").read_text())["project"]
    shutil.copytree(
        PACKAGES / name / name, place / name, ignore=shutil.ignore_patterns("__pycache__")
    )
    about = place / f"{name}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = project["entry-points"]["privplan.systems"].items()
    lines = "".join(f"{entry} = {value}\n" for entry, value in entries)
    (about / "entry_points.txt").write_text(f"[privplan.systems]\n{lines}")
    return place


@contextmanager
def installed(name: str, place: Path) -> Iterator[Path]:
    """Have a package of this folder here and now, and no longer."""
    sys.path.insert(0, str(install(name, place)))
    importlib.invalidate_caches()
    foreign.cache_clear()
    try:
        yield place
    finally:
        sys.path.remove(str(place))
        for module in [one for one in sys.modules if one.split(".")[0] == name]:
            del sys.modules[module]
        foreign.cache_clear()
