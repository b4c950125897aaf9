"""Packages with systems, as other people install them, for the tests of declarations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

HEAD = """
from dataclasses import dataclass
from privplan.accountant import validate
from privplan.fl.frame.declaration import Declaration, Table
from privplan.fl.frame.key import Key, between, flag

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
    from privplan.fl.frame.systems import declared
    for name, system in declared().items():
        print(name, system.package)
"""

SHOW = """
    from privplan.cli.doctor_command import foreign_systems
    from privplan.cli.run_page import run_page
    print("---", *(system["trouble"] for system in foreign_systems()), "---", run_page())
"""
"""Programs that list the systems, and show what is wrong with packages."""


def install(
    place: Path, package: str, source: str, *, version: str = "1.0", entry: str = "toy = {}:SYSTEMS"
) -> None:
    """Leave a package with one module and one entry point in a folder of `sys.path`."""
    module = package.replace("-", "_")
    place.mkdir(exist_ok=True)
    (place / f"{module}.py").write_text(textwrap.dedent(source))
    about = place / f"{module}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(f"[privplan.systems]\n{entry.format(module)}\n")


def as_pip(place: Path, project: Path, version: str = "1.0") -> Path:
    """Do with the packages of a project what pip would do: copy them, and leave its metadata."""
    described = tomllib.loads((project / "pyproject.toml").read_text())
    name = described["project"]["name"]
    for package in described["tool"]["setuptools"]["packages"]:
        if project != place:
            shutil.copytree(project / package, place / package)
    about = place / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = described["project"]["entry-points"].items()
    lines = [
        line
        for group, entries in groups
        for line in (f"[{group}]", *(f"{one} = {value}" for one, value in entries.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return place


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
