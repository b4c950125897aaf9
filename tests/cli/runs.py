"""Configurations of small runs, and what runs leave in their folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("PRIVPLAN_DATA", ROOT / ".." / "shared" / "data"))

NOISY_TRAINING = """\
[privacy]
noise_multiplier = 5.0
[training]
local_rate = 0.1
local_epochs = 1
batch = 64
"""

CONFIG = """\
[run]
system = "{system}"
rounds = 3
{run}
[data]
name = "breast-cancer"
users = 6
silos = {silos}
[privacy]
{privacy}
[training]
local_rate = 0.1
local_epochs = 1
{more}
"""


def written(
    name: str = "run.toml",
    *,
    system: str = "uldp-avg",
    run: str = "",
    privacy: str = "noise_multiplier = 5.0",
    more: str = "",
    silos: int = 2,
) -> str:
    given = {"system": system, "run": run, "privacy": privacy, "more": more, "silos": silos}
    Path(name).write_text(CONFIG.format(**given))
    return name


def log_of(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]


def content_of(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
