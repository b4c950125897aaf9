"""Packages with systems, as other people install them, for the tests of declarations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from privplan.fl.declarations.packages import ENTRY_POINT_GROUP, built_in

ROOT = Path(__file__).parents[2]
BROUGHT = Path(__file__).parent / "brought"

HEAD = """
from dataclasses import dataclass
from privplan.accountant import validate
from privplan.fl.declarations.declaration import Declaration, Table
from privplan.fl.declarations.toml_key import Key, between, flag

@dataclass(frozen=True, kw_only=True)
class ToySettings:
    share: float = 0.5

SHARE = Key("share", validate.positive, "how much of a step is taken", "0.5")

def table(**changes):
    given = dict(name="toy", about="what only toys have", settings=ToySettings, keys=(SHARE,))
    return Table(**{**given, **changes})

def system(**changes):
    given = dict(name="toy-avg", summary="a toy", make="toy_system:make", table=table())
    return Declaration(**{**given, **changes})
"""
"""A sound declaration, of which tests change one thing."""

LIST = """
    from privplan.fl.declarations.registry import declared
    for name, system in declared().items():
        print(name, system.package)
"""

SHOW = """
    from privplan.cli.commands.doctor import foreign_systems
    from privplan.cli.pages import topics
    print("---", *(system["trouble"] for system in foreign_systems()), "---", topics.page("run"))
"""
"""Programs that list the systems, and show what is wrong with packages."""


def install(
    place: Path, package: str, source: str, *, version: str = "1.0", entry: str = "toy = {}:SYSTEMS"
) -> None:
    """Leave a package with one module and one entry point in a folder of `sys.path`."""
    module = package.replace("-", "_")
    place.mkdir(exist_ok=True)
    (place / f"{module}.py").write_text(textwrap.dedent(source))
    _described(place, package, version, f"[{ENTRY_POINT_GROUP}]\n{entry.format(module)}\n")


def as_pip(place: Path, project: Path, version: str = "1.0") -> Path:
    """Do with the packages of a project what pip would do: copy them, and leave its metadata."""
    described = tomllib.loads((project / "pyproject.toml").read_text())
    for package in described["tool"]["setuptools"]["packages"]:
        if project != place:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(project / package, place / package, ignore=ignored)
    lines = [
        line
        for group, entries in described["project"]["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    _described(place, described["project"]["name"], version, "\n".join(lines) + "\n")
    return place


def _described(place: Path, package: str, version: str, entries: str) -> None:
    about = place / f"{package.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(entries)


def killed(place: Path) -> Path:
    """Return the folder of a run of `run.toml` that was cut off after its first round."""
    program = """
        import os
        from privplan.cli.main import app
        from privplan.fl.running.checkpoint import Checkpoint
        kept = Checkpoint.write
        def write(self, path):
            kept(self, path)
            if self.round == 1 and "checkpoint" in str(path):
                print("killed", flush=True)
                os._exit(0)
        Checkpoint.write = write
        app(["run", "run.toml", "--out", "out"])
    """
    assert "killed" in python(place, program)
    return place / "out"


@contextmanager
def brought() -> Iterator[Any]:
    """Have the systems of `brought/` declared; give the module that makes runs of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BROUGHT))
        import conducting

        for name in conducting.SYSTEMS:
            patch.setitem(built_in(), name, None)
        conducting.enter()
        yield conducting


def python(place: Path, program: str, *, check: bool = True) -> str:
    """Return what a program prints in a process that has the packages of a folder."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return started(place, command, check=check).stdout


def privplan(place: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return how a command ended in a process that has the packages of a folder."""
    program = [sys.executable, "-m", "privplan.cli", *words]
    return started(place, program, check=False, cwd=cwd)


def started(
    place: Path, program: list[str], *, check: bool = True, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Return how a process ended that has the packages of a folder."""
    path = os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        program,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd or place,
        env={**os.environ, "PYTHONPATH": path},
        timeout=240,
    )
    assert not check or done.returncode == 0, done.stderr
    return done
