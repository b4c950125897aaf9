"""Runs of FLAME on three hospitals' files whose users are held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.preparation import prepare

from .hospitals import configuration, write

Tables = dict[str, dict[str, Any]]

NOISE = 1.5

SHARE = 0.4

VOTES: dict[str, Any] = {"test": "held-out", "held_out": SHARE, "held_out_noise": NOISE}

IDEAL = {"transport": "ideal"}

WORDS = {"randomizer": "responses", "steps": 4}

SETTINGS: tuple[tuple[str, Tables], ...] = (
    ("flame-simple", {"flame": IDEAL}),
    ("flame-simple", {"security": {"keep_transcripts": True}}),
    ("flame-simple", {"flame": {**IDEAL, **WORDS}}),
    ("flame-simple", {"flame": {**IDEAL, "granularity": "tuple"}}),
    ("flame-simple", {"flame": IDEAL, "security": {"colluders": 3}}),
    ("flame-double", {"flame": {**IDEAL, "chosen": 4, "padded_to": 22}}),
    ("flame-double", {"flame": {**IDEAL, **WORDS, "chosen": 4}}),
    ("flame-topk", {"flame": {**IDEAL, "chosen": 2, "decoys": 3}}),
    (
        "flame-topk",
        {
            "flame": {"chosen": 2, "decoys": 1},
            "security": {"keep_transcripts": True},
        },
    ),
)
"""Each protocol, either randomizer and transport, and what else decides who sees what."""

UNPROVEN: tuple[tuple[str, Tables], ...] = (
    ("flame-topk", {"flame": {**IDEAL, "chosen": 2, "granularity": "tuple"}}),
    ("flame-topk", {"flame": {**IDEAL, "chosen": 2, "padded_to": 8, "overflow": "cap"}}),
)
"""Rounds of which nothing is proven: votes have their noise, and the run no number."""


def configured(system: str, tables: Tables, **more: dict[str, Any]) -> Tables:
    """Return a configuration of a run whose users vote."""
    return configuration(system, **{"evaluation": VOTES, **tables, **more})


def ran(folder: Path, tables: Tables, edited: Any = None) -> tuple[Path, Any]:
    """Make a run in a new folder with the files; return its folder and what it came to."""
    folder.mkdir()
    write(folder, edited)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return folder / "out", pp.run(tables, "out")


def prepared(folder: Path, tables: Tables) -> Any:
    """Return a run that may begin, and nothing of which is released."""
    folder.mkdir(exist_ok=True)
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return prepare(Configuration.of(tables).settings)
