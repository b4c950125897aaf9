"""Packages with systems, as other people install them, for the tests of declarations."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
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


def python(place: Path, program: str, **more: str) -> str:
    """Return what a program prints in a process that has the packages of a folder."""
    return _done(place, [sys.executable, "-c", textwrap.dedent(program)], **more).stdout


def privplan(place: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return how a command ended in a process that has the packages of a folder."""
    program = [sys.executable, "-m", "privplan.cli", *words]
    return _done(place, program, check=False, cwd=cwd)


def _done(
    place: Path, program: list[str], *, check: bool = True, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
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
