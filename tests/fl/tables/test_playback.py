"""All that leaves a run is the same of neighbouring files, bit for bit, where its noise is played.

See `playback`.  Neighbours are made of the files: of one patient, who may have any rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.uldp.averaging import UldpAvg

from ...cases import for_each
from ..extras import needs
from .hospitals import MARKER, configuration
from .playback import Played, audited, left, played
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

P: dict[str, Any] = {"noise_multiplier": 2.0}
VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": 1.5}
SURVIVAL = {"column": "outcome", "kind": "survival", "range": [0, 3], "event": "note"}
SILO = {"privacy": {"unit": "silo", **P}}

FURTHER: tuple[tuple[str, Tables], ...] = (
    ("uldp-avg", {"training": {"model": "mlp", "dropout": 0.5, "batch": 2, "local_epochs": 3}}),
    ("uldp-avg", {"data": {"label": SURVIVAL}, "training": {"model": "cox"}}),
    ("uldp-avg", {"privacy": {"neighbours": "replace-one", "noise_multiplier": 4.0}}),
    ("uldp-avg", {"evaluation": VOTES}),
    ("uldp-sgd", {"evaluation": VOTES}),
    ("uldp-naive", {"security": {"aggregation": "masked"}}),
    ("uldp-naive", {"security": {"aggregation": "shares"}}),
    ("uldp-naive", {"uldp": {"as_published": True}}),
    (
        "uldp-group",
        {
            "uldp": {"group_records": 4, "record_rate": 0.5},
            "security": {"aggregation": "masked"},
        },
    ),
    ("disco", {**SILO, "disco": {"clip": "quantile"}}),
    ("disco", {**SILO, "disco": {"clip": "quantile", "clip_by": "tensor"}}),
    ("disco", {**SILO, "disco": {"clip": "previous"}}),
    ("disco", {**SILO, "disco": {"noise": "local"}}),
    ("disco", {**SILO, "security": {"aggregation": "shares"}}),
    ("statistics", {"run": {"rounds": 1}, "statistics": {"row_norm": 2.0, "noise": "laplace"}}),
    ("statistics", {"run": {"rounds": 1}, "statistics": {"row_norm": 2.0, "most_rows": 10}}),
    (
        "statistics",
        {"run": {"rounds": 1}, **SILO, "statistics": {"row_norm": 2.0, "silo_rows": 5}},
    ),
    ("fedpower-power", {**SILO, "fedpower": {"rank": 2, "row_norm": 2.0, "silo_rows": 5}}),
    (
        "fedpower-power",
        {"fedpower": {"rank": 2, "row_norm": 2.0}, "security": {"aggregation": "masked"}},
    ),
    ("fedpower-original", {"fedpower": {"rank": 2, "row_norm": 2.0, "as_published": True}}),
    (
        "fedpower-private",
        {
            "fedpower": {
                "rank": 2,
                "row_norm": 2.0,
                "as_published": True,
                "divide_by_rows": True,
                "divisor": 10,
            }
        },
    ),
    (
        "delm-basic",
        {
            "training": {"model": "mlp"},
            "delm": {"row_norm": 2.0, "pca": "wishart", "components": 4},
        },
    ),
    ("delm-enhanced", {"delm": {"row_norm": 2.0, "pca": "none", "selection": "top-k"}}),
    ("flame-simple", {"flame": {"transport": "ideal", "granularity": "tuple"}}),
    ("flame-topk", {"flame": {"transport": "ideal", "chosen": 2, "granularity": "tuple"}}),
    (
        "flame-topk",
        {"flame": {"transport": "ideal", "chosen": 2, "padded_to": 8, "overflow": "cap"}},
    ),
    ("fedavg", {}),
    ("fedavg", {"security": {"aggregation": "masked"}}),
    ("fedavg", {"evaluation": VOTES}),
    ("fedavg", {"data": {"label": SURVIVAL}, "training": {"model": "cox"}}),
)
"""Further keys that decide which numbers are made, and of what."""

OFTEN = (
    SYSTEMS[0],
    SYSTEMS[8],
    SYSTEMS[11],
    SYSTEMS[18],
    SYSTEMS[24],
    LISTED_SYSTEMS[3],
    SENT_SYSTEMS[0],
)
"""One of each kind, in the default run."""

RUNS = [
    each if any(each is one for one in OFTEN) else pytest.param(*each, marks=pytest.mark.slow)
    for each in (*SYSTEMS, *LISTED_SYSTEMS, *SENT_SYSTEMS, *FURTHER)
]


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


@for_each("system, tables", RUNS, items=8)
def test_all_that_leaves_a_run_is_that_of_neighbouring_files_where_noise_is_played(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    said = told(system, tables)
    plain = played(tmp_path / "plain", said)
    assert plain.code == 0, plain.said
    assert plain.noised
    assert_same(tmp_path, said, plain)


@for_each("system, tables", RUNS, items=8)
def test_a_run_that_is_cut_off_and_its_audits_say_the_same_of_neighbouring_files(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    said = told(system, tables)
    plain = played(tmp_path / "plain", said, cut_after=2)
    # A release that was lost is made again only where the plan pays for it twice.
    assert plain.code == 0 or "cut off" in plain.said[1], plain.said
    expected, audits = left(plain), audited(plain)
    other = played(tmp_path / "other", said, beside, plain.noised, cut_after=2)
    assert left(other) == expected
    assert audited(other) == audits


def assert_same(folder: Path, said: Tables, plain: Played) -> None:
    """Make the run on neighbouring files, its noise played; all that leaves it is the same."""
    expected = left(plain)
    for edited in EDITS:
        found = left(played(folder / edited.__name__, said, edited, plain.noised))
        assert list(found) == list(expected), edited.__name__
        for name, content in expected.items():
            assert found[name] == content, f"{name}, {edited.__name__}"


@for_each("system, tables", RUNS[:1])
def test_before_it_is_noised_a_sum_is_another_one_of_neighbouring_files(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    """The edits change what noise hides, so that where nothing is played the runs differ."""
    said = told(system, tables)
    plain = played(tmp_path / "plain", said)
    for edited in EDITS:
        other = played(tmp_path / edited.__name__, said, edited)
        assert not all(map(np.array_equal, plain.noised, other.noised)), edited.__name__
        found, expected = left(other), left(plain)
        assert {name for name in expected if found[name] != expected[name]} == {
            "log.jsonl",
            "model.npz",
        }
        assert left(other, after_noise=False) == left(plain, after_noise=False)


def in_the_model(system: UldpAvg, moved: Any) -> Any:
    """Return a model that knows how many records there are."""
    return moved[0] * (1.0 + 1e-9 * system.setup.federation.records), *moved[1:]


def on_the_screen(system: UldpAvg, moved: Any) -> Any:
    """Tell how many records there are."""
    print(f"{system.setup.federation.records} records", file=sys.stderr)
    return moved


def in_a_file(system: UldpAvg, moved: Any) -> Any:
    """Leave a file of so many bytes as there are records."""
    Path("out/cache").write_bytes(bytes(system.setup.federation.records))
    return moved


def in_the_exit_code(system: UldpAvg, moved: Any) -> Any:
    """Refuse records that are more than usual."""
    if system.setup.federation.records > 120:
        raise InvalidInput("A silo has records that cannot be read.")
    return moved


@for_each("leak", [in_the_model, on_the_screen, in_a_file, in_the_exit_code])
def test_a_leak_is_found_wherever_it_is(tmp_path: Path, leak: Callable[..., Any]) -> None:
    honest = UldpAvg.server_step

    def leaking(system: UldpAvg, *given: Any) -> Any:
        return leak(system, honest(system, *given))

    said = told("uldp-avg", {})
    with mock.patch.object(UldpAvg, "server_step", leaking):
        plain = played(tmp_path / "plain", said)
        with pytest.raises(AssertionError):
            assert_same(tmp_path, said, plain)


@for_each("system, tables", RUNS, items=2)
def test_a_forecast_says_the_same_of_neighbouring_files(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    said = told(system, tables)
    plain = played(tmp_path / "plain", said, dry=True)
    assert plain.code == 0, plain.said
    assert not plain.folder.exists()
    for edited in EDITS:
        other = played(tmp_path / edited.__name__, said, edited, dry=True)
        assert (other.code, other.said, other.folder.exists()) == (0, plain.said, False)
