"""All that leaves a run is the same of neighbouring files, bit for bit, where its noise is played.

See `playback`.  Neighbours are made of the files: of one patient, who may have any rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...cases import for_each
from ..extras import needs
from .hospitals import MARKER, configuration
from .playback import left, played
from .test_table_runs import (
    LISTED_SYSTEMS,
    NASTY,
    SENT_SYSTEMS,
    SYSTEMS,
    beside,
    of_nobody,
    without,
)

pytestmark = needs("torch", "pyarrow", "cryptography")

Tables = dict[str, dict[str, Any]]

RUNS: tuple[tuple[str, Tables], ...] = (
    *SYSTEMS,
    *LISTED_SYSTEMS,
    *SENT_SYSTEMS,
    ("fedavg", {}),
    ("fedavg", {"security": {"aggregation": "masked"}}),
    (
        "disco",
        {"privacy": {"unit": "silo", "noise_multiplier": 2.0}, "disco": {"clip": "quantile"}},
    ),
)


def instead(lines: list[str]) -> list[str]:
    """Give a patient of the files any rows, many of them, in place of its own."""
    rows = [line.replace(f"{MARKER},", "p7,", 1) for line in NASTY]
    rows += [f"p7,1,m,III,n,{MARKER},{word}" for word in ("yes", "no") * 20]
    return [*rows, *without(lines)]


EDITS: tuple[Callable[[list[str]], list[str]], ...] = (beside, without, instead, of_nobody)


def told(system: str, tables: Tables) -> Tables:
    """Return a configuration that keeps all that parties send, where they send messages."""
    security = tables.get("security", {})
    sent = (system, tables) in SENT_SYSTEMS or security.get("aggregation") == "masked"
    if sent:
        security = {**security, "keep_transcripts": True}
    run = {"seed": 5, **tables.get("run", {})}
    return configuration(system, **{**tables, "security": security, "run": run})


@for_each("system, tables", RUNS, items=6)
def test_all_that_leaves_a_run_is_that_of_neighbouring_files_where_noise_is_played(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    said = told(system, tables)
    plain = played(tmp_path / "plain", said)
    assert plain.noised
    expected = left(plain)
    for edited in EDITS:
        other = played(tmp_path / edited.__name__, said, edited, plain.noised)
        found = left(other)
        assert list(found) == list(expected), edited.__name__
        for name, content in expected.items():
            assert found[name] == content, f"{name}, {edited.__name__}"
