"""Small runs of FLAME for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privplan.fl.log import LogWriter
from privplan.fl.running.preparation import prepare
from privplan.fl.running.run_records import RunResult
from privplan.fl.running.session import execute
from privplan.fl.settings.schema import Settings

from .configured import read

USERS = 12
"""Of a run here."""


def flame(system: str = "flame-double", **tables: dict[str, str]) -> Settings:
    """Return settings of a small run; `tables` change them."""
    chosen = {} if system == "flame-simple" else {"chosen": "5"}
    own = {
        "run": {"rounds": "2", "seed": "7"},
        "data": {"name": '"breast-cancer"', "users": str(USERS)},
        "training": {"model": '"logistic"', "local_epochs": "1"},
        "flame": chosen,
    }
    merged = {name: {**own.get(name, {}), **tables.get(name, {})} for name in own | tables}
    return read(system, **merged)


def run(settings: Settings, folder: Path, **network: Any) -> RunResult:
    """Make a whole run; `network` sets what its network does with messages."""
    prepared = prepare(settings)
    for name, value in network.items():
        setattr(prepared.system.network, name, value)  # type: ignore[attr-defined]
    with LogWriter.create(folder) as writer:
        return execute(prepared, folder, writer)
