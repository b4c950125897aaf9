"""Programs and commands that see the packages of a folder, in the process of the test."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privplan.cli.main import app
from privplan.fl.declarations.packages import foreign_systems, foreign_systems_named


def _forget(place: Path) -> None:
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(place)):
            del sys.modules[name]
    foreign_systems.cache_clear()
    foreign_systems_named.cache_clear()


@contextmanager
def packages_of(place: Path) -> Iterator[None]:
    """Have the packages of a folder, which is where one works, and no longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.syspath_prepend(str(place))
        patch.setattr(sys, "dont_write_bytecode", True)  # a test may write a module again
        _forget(place)
        try:
            yield
        finally:
            _forget(place)


def python(place: Path, program: str) -> str:
    """Return what a program prints that has the packages of a folder."""
    said = io.StringIO()
    with packages_of(place), redirect_stdout(said):
        exec(textwrap.dedent(program), {})
    return said.getvalue()


def privplan(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return how a command ended that has the packages of a folder."""
    with packages_of(place):
        done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def command(place: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Return how a command ended, which must be with such a code."""
    done = privplan(place, *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done
