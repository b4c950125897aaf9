"""Runs that take a moment, as tables, as a file, and as the command makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from typer.testing import CliRunner

from privplan.cli.main import app
from privplan.fl.running.toml_writer import toml_bytes

Tables: TypeAlias = dict[str, dict[str, Any]]


def ward(**tables: dict[str, Any]) -> Tables:
    """Return a run that takes a moment, with these keys changed."""
    usual: Tables = {
        "run": {"system": "uldp-avg", "rounds": 3},
        "data": {"name": "breast-cancer", "users": 20, "silos": 3},
        "privacy": {"noise_multiplier": 5.0, "delta": 1e-3},
        "training": {"local_epochs": 1},
    }
    for name, table in tables.items():
        usual[name] = {**usual.get(name, {}), **table}
    return usual


def command(*words: str) -> tuple[int, Any]:
    """Return the exit code and the JSON of a command."""
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, json.loads(result.stdout)


def written(tables: Tables, name: str = "run.toml") -> str:
    """Write tables into a file; return its path."""
    Path(name).write_bytes(toml_bytes(tables))
    return name
