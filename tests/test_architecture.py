"""The floors, the front door, and what importing privplan costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import privplan

ROOT = Path(__file__).parents[1]


def test_floors_hold() -> None:
    program = (
        "import sys; from importlinter.cli import lint_imports; "
        "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True))"
    )
    done = subprocess.run(
        # It draws lines, which not every locale can encode.
        [sys.executable, "-X", "utf8", "-c", program, str(ROOT / "pyproject.toml")],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_front_door_lists_what_it_offers() -> None:
    assert privplan.__all__ == sorted(privplan.__all__)
    assert len(set(privplan.__all__)) == len(privplan.__all__)
    for name in privplan.__all__:
        assert getattr(privplan, name) is not None
    assert set(privplan.__all__) <= set(dir(privplan))


def test_front_door_refuses_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'epsilon'"):
        privplan.epsilon  # noqa: B018


def test_importing_privplan_loads_nothing_heavy() -> None:
    heavy = ("numpy", "scipy", "torch", "typer", "dp_accounting", "prv_accountant")
    program = f"import sys, privplan; print([name for name in {heavy} if name in sys.modules])"
    assert _python(program) == "[]"


def test_events_need_no_numbers_library() -> None:
    program = "import sys; from privplan import events; print('numpy' in sys.modules)"
    assert _python(program) == "False"


def _python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()
