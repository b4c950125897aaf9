"""`privplan --help` answers at once, and every command says what it is for."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer.main

from privplan.cli.main import KEYS_BY_TABLE, app

from ..cases import for_each
from .conftest import Run

COMMANDS = (
    "data",
    "account",
    "audit",
    "calibrate",
    "check",
    "claims",
    "doctor",
    "examples",
    "flower",
    "guard",
    "network",
    "explain",
    "ledger",
    "plan",
    "plot",
    "report",
    "run",
    "serve",
)
HEAVY = (
    "numpy",
    "scipy",
    "torch",
    "rich",
    "dp_accounting",
    "prv_accountant",
    "pandas",
    "matplotlib",
)
ROOT = Path(__file__).parents[2]
TYPER = tuple(int(part) for part in version("typer").split(".")[:2])


def loaded_after(*words: str) -> set[str]:
    """Return the heavy packages that running `words` loads, beyond what Typer itself does."""
    program = (
        "import sys, json, typer.main\n"
        "before = set(sys.modules)\n"
        "from privplan.cli.main import app\n"
        "try:\n"
        f"    app({list(words)!r})\n"
        "except SystemExit as end:\n"
        "    assert end.code in (None, 0), end.code\n"
        "loaded = set(sys.modules) - before\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in loaded]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    # Older versions of Typer load rich for every help, whatever is asked of them.
    return loaded - {"rich"} if TYPER < (0, 21) else loaded


@for_each(
    "words",
    [
        ["--help"],
        ["check", "--help"],
        ["explain", "check"],
        ["calibrate", "--help"],
        ["audit", "log", "--help"],
        ["plot", "noise", "--help"],
        ["explain", "delta"],
    ],
)
def test_what_needs_no_numbers_loads_no_heavy_package(words: list[str]) -> None:
    assert loaded_after(*words) == set()


def test_version(run: Run) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    outcome = run("--version")
    assert outcome.code == 0
    assert outcome.out == f"privplan {version}\n"


def test_every_command_and_option_has_help(run: Run) -> None:
    group = typer.main.get_command(app)
    assert set(group.commands) == set(COMMANDS)  # type: ignore[attr-defined]
    check_help(run, group, ())


def check_help(run: Run, group: Any, words: tuple[str, ...]) -> None:
    """Check the commands of a group, and of the groups in it."""
    for name, command in group.commands.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", ""), f"{name} {parameter.name}"
        assert name in run(*words, "--help").out
        outcome = run(*words, name, "--help")
        assert outcome.code == 0
        if hasattr(command, "commands"):
            check_help(run, command, (*words, name))
        else:
            assert "--json" in outcome.out
            assert "--quiet" in outcome.out


def test_the_file_knows_exactly_the_options_of_its_commands() -> None:
    group = typer.main.get_command(app)
    for name, keys in KEYS_BY_TABLE.items():
        command = group.commands[name]  # type: ignore[attr-defined]
        options = {item.name for item in command.params if item.param_type_name == "option"}
        # No file accepts for good; a claim, a file that is written, or an attack, is of one run.
        once = {"as_json", "quiet", "routes", "help", "accept_delta", "claimed", "curve", "plot"}
        once |= {"risk", "fpr", "prior", "guesses", "from_fpr", "advantage", "tpr", "bayes"}
        assert options - once == set(keys)
