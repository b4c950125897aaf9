"""Runs with correlated noise, and what their blocks cost, for the tests of their audits."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.fl.running import Configuration, ready_new_run, ready_to_resume
from privplan.fl.running.session import execute

CONFIG = """
[run]
system = "uldp-avg"
rounds = 8
[data]
name = "breast-cancer"
users = 30
silos = 3
[privacy]
noise_multiplier = 3.0
noise = "banded"
cohorts = 4
bands = 3
blocks = 2
[training]
local_epochs = 1
[security]
aggregation = "masked"
"""
BY_RECORDS = CONFIG.replace("[training]", '[training]\nweighting = "records"')
STRATEGY = ev.ToeplitzStrategy(4, (1.0, 0.5, 0.375))
BLOCK_EVENT = ev.MatrixGaussian(3.0, STRATEGY, ev.SeparatedParticipation(1, 4))


class Stopped(Exception):
    """What ends a run in these tests."""


def carried_out(folder: Path, config: str = CONFIG, *, until: int | None = None) -> Path:
    """Begin a run in a folder, or go on with it; stop after so many rounds."""
    file = folder.parent / f"{folder.name}.toml"
    file.write_text(config)
    source = Configuration.read(file)
    ready = ready_to_resume(source, folder) if folder.exists() else ready_new_run(source, folder)

    def stop(measured: Any, _: int) -> None:
        if measured.round == until:
            raise Stopped

    with ready.writer, suppress(Stopped):
        execute(ready.prepared, folder, ready.writer, progress=ready.progress, report=stop)
    return folder


def of_blocks(count: int) -> float:
    """Return the epsilon of so many blocks."""
    return account(ev.Repeat(count, BLOCK_EVENT), delta=1e-5).epsilon.upper
