"""Runs of DELM's schemes on the hospitals' files whose records are held out, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.accountant.mechanisms import laplace

from .hospitals import SCHEMA, configuration, write

Tables = dict[str, dict[str, Any]]

NOISE = 1.5
VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": NOISE}

NOBODY = {"test": "none"}

FOUND = {"delm": {"row_norm": 2.0, "pca": "none", "sensitivity": "proven"}}
PROJECTED = {"delm": {"row_norm": 2.0, "pca": "gaussian", "sensitivity": "proven"}}
ONCE = {
    "delm": {
        **{"row_norm": 2.0, "pca": "gaussian", "objective": "once"},
        **{"training_epsilon": 3.0, "pca_epsilon": 2.0},
    }
}
REPLACED = {
    **PROJECTED,
    "privacy": {
        **{"epsilon": 8.0, "neighbours": "replace-one"},
        "observers": ["model", "server", "shuffler", "server+1"],
    },
}
SOUND: tuple[tuple[str, Tables], ...] = (
    ("delm-basic", FOUND),
    ("delm-basic", ONCE),
    ("delm-enhanced", PROJECTED),
    ("delm-enhanced", REPLACED),
)
PUBLISHED: tuple[tuple[str, Tables], ...] = (
    ("delm-basic", {"delm": {"row_norm": 2.0, "components": 4}}),
    ("delm-enhanced", {"delm": {"row_norm": 2.0, "pca": "none"}, "training": {"model": "mlp"}}),
)


def configured(system: str, tables: Tables, evaluation: Any = VOTES) -> Tables:
    """Return a configuration of rows that are nobody's: each is held out by what it holds."""
    data = {
        "users_at_most": 200,
        "columns": {**SCHEMA["columns"], "patient": {"kind": "ignored"}},
    }
    made = configuration(system, **{"evaluation": evaluation, **tables, "data": data})
    del made["data"]["user"]
    return made


def ran(folder: Path, tables: Tables) -> Path:
    """Make a run on the hospitals' files in a new folder; return where it lies."""
    folder.mkdir(exist_ok=True)
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        pp.run(tables, "out")
    return folder / "out"


def measured(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return content


def silent(patched: pytest.MonkeyPatch) -> None:
    """Take the Laplace noise of votes away, which is drawn as ever."""
    known = laplace.rounded_laplace
    patched.setattr(laplace, "rounded_laplace", lambda *given: 0 * known(*given))
