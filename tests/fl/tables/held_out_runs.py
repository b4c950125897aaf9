"""Runs on three hospitals' files whose users are held out, cut off too; what is read of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.audit.budget import audit_ledger
from privplan.audit.budget.report import Chain
from privplan.audit.ledger.entries import Entry, Ledger
from privplan.fl.aggregation.sums import float_sum
from privplan.fl.data.held_out import held_out
from privplan.fl.disco import system as disco
from privplan.fl.frame import held_out_release
from privplan.fl.log.reader import Scan
from privplan.fl.tables.user_names import user_name
from privplan.fl.uldp import group, naive, weighted

from .hospitals import SCHEMA, configuration, write
from .test_table_runs import MARKER, NASTY, VALUES_AFTER_NOISE

VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": 1.5}

DISCO = {"privacy": {"unit": "silo"}}

RECORDS = {
    "privacy": {"unit": "record"},
    "disco": {"divisor": 100, "noise": "local"},
    "security": {"aggregation": "plain"},
    "data": {
        "users_at_most": 200,
        "columns": {**SCHEMA["columns"], "patient": {"kind": "ignored"}},
    },
}
"""Of rows that are nobody's: each is held out by what it holds."""

GROUP = {"uldp": {"group_records": 2}}

SETTINGS: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("uldp-avg", {}),
    ("uldp-avg", {"privacy": {"noise_multiplier": 2.0, "sampling_rate": 0.5}}),
    ("uldp-avg", {"privacy": {"noise": "banded", "cohorts": 2, "noise_multiplier": 2.0}}),
    ("uldp-avg", {"privacy": {"neighbours": "replace-one", "noise_multiplier": 4.0}}),
    ("uldp-avg", {"security": {"aggregation": "masked"}, "training": {"weighting": "records"}}),
    ("uldp-avg", {"security": {"aggregation": "shares"}}),
    ("uldp-sgd", {"training": {"weighting": "records"}}),
    ("uldp-naive", {}),
    ("uldp-naive", {"privacy": {"neighbours": "replace-one"}}),
    ("uldp-naive", {"security": {"aggregation": "masked", "dropouts": 1}}),
    ("uldp-naive", {"security": {"aggregation": "shares"}}),
    ("uldp-group", GROUP),
    ("uldp-group", {**GROUP, "security": {"aggregation": "masked", "colluders": 1}}),
    ("disco", DISCO),
    ("disco", {**DISCO, "disco": {"clip": "quantile"}}),
    ("disco", RECORDS),
    ("disco", {**DISCO, "disco": {"noise": "local"}, "security": {"aggregation": "plain"}}),
    ("disco", {**DISCO, "disco": {"noise": "local"}, "security": {"aggregation": "masked"}}),
    ("fedavg", {}),
)


def configured(system: str, tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a configuration whose rows are of users, unless their column is a feature."""
    made = configuration(system, **{"evaluation": VOTES, **tables})
    if "patient" in made["data"]["columns"]:
        del made["data"]["user"]
    return made


def out_and_in() -> tuple[str, str]:
    """Return a patient of the files who is held out, and one who is not."""
    patients = [f"p{number}" for number in range(1, 20)]
    chosen = held_out(np.array([user_name(who, 0) for who in patients]), VOTES["held_out"], 0)  # type: ignore[arg-type]
    return patients[int(np.argmax(chosen))], patients[int(np.argmin(chosen))]


OUT, IN = out_and_in()


def gone(patient: str) -> Callable[[list[str]], list[str]]:
    """Take one patient out of all files."""
    return lambda lines: [line for line in lines if not line.startswith(f"{patient},")]


def other(patient: str) -> Callable[[list[str]], list[str]]:
    """Give one patient whatever rows a file can hold, in place of its own."""
    rows = [line.replace(f"{MARKER},", f"{patient},", 1) for line in NASTY]
    rows += [f"{patient},1,m,III,n,{MARKER},{word}" for word in ("yes", "no") * 20]
    return lambda lines: [*rows, *gone(patient)(lines)]


def nobody(_: list[str]) -> list[str]:
    """Leave no row in any file."""
    return []


EDITS = (gone(OUT), gone(IN), other(OUT), other(IN), nobody)


def ran(
    folder: Path, tables: dict[str, Any], edited: Any = None, played: list[Any] | None = None
) -> tuple[Path, list[Any]]:
    """Make a run; return its folder, and each noised sum.  `played` takes the place of these."""
    folder.mkdir()
    write(folder, edited)
    sums: list[Any] = []
    adding = held_out_release.noisy_sum

    def summed(*args: Any, **named: Any) -> Any:
        arrived = adding(*args, **named)
        if played is not None:
            arrived = replace(arrived, total=played[len(sums)])
        sums.append(arrived.total)
        return arrived

    def summed_noisy(*args: Any, **named: Any) -> Any:  # what has its noise already
        sums.append(float_sum(*args, **named) if played is None else played[len(sums)])
        return sums[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for module in (weighted, naive, disco, held_out_release):
            patched.setattr(module, "noisy_sum", summed)
        patched.setattr(group, "float_sum", summed_noisy)
        pp.run(tables, "out")
    return folder / "out", sums


def shown(folder: Path, *, after_noise: bool) -> list[dict[str, Any]]:
    """Return the lines of a log without hashes, times and commitments; or without noised values."""
    gone = {"hash", "prev", "run_id", "opened", "sealed", "dataset", "head"}
    if not after_noise:
        gone |= {*VALUES_AFTER_NOISE, "metrics"}
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [
        {
            **{key: value for key, value in line.items() if key not in gone},
            "keys": sorted(line),
            "sealed": sorted(line.get("sealed") or ()),
            "told": sorted(line.get("metrics") or ()),
        }
        for line in lines
    ]


def measured(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in content.items() if name != "run_id"}


def stored(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "model.npz") as model:
        return {name: model[name].tobytes() for name in model.files if name != "about"}


def planned(folder: Path, tables: dict[str, dict[str, Any]]) -> Any:
    """Return the plan of a run on the hospitals' files, without running."""
    folder.mkdir(exist_ok=True)
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return pp.plan_run(tables).prepared.plan


def is_out(patient: str) -> bool:
    """Return whether a patient is held out, by its id alone."""
    name = np.array([user_name(patient, 0)])
    return bool(held_out(name, VOTES["held_out"], 0)[0])  # type: ignore[arg-type]


def audited(ledger: Ledger) -> Any:
    return audit_ledger(ledger, Chain(ledger.records, "f" * 64))


def ledger_of(folder: Path) -> Ledger:
    return Ledger.of([Entry(line.number, line.seq, line.record) for line in Scan(folder)])


class Stop(BaseException):
    """A kill."""


def cut(folder: Path, tables: dict[str, Any], where: tuple[Any, str], before: bool) -> None:
    """Begin a run, and cut it off before or after a function of the release of votes."""
    owner, name = where
    known = getattr(owner, name)

    def stopping(*args: Any, **named: Any) -> Any:
        if not before:
            known(*args, **named)
        raise Stop

    stopped(folder, tables, owner, name, stopping)


Patch = Callable[[pytest.MonkeyPatch], object]


def stopped(
    folder: Path,
    tables: dict[str, Any],
    owner: Any,
    name: str,
    by: Callable[..., Any],
    patch: Patch = bool,
) -> None:
    """Begin a run that ends where `by`, in the place of a function, raises `Stop`."""
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patch(patched)
        patched.setattr(owner, name, by)
        with pytest.raises(Stop):
            pp.run(tables, "out")


def resumed(folder: Path, patch: Patch = bool) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patch(patched)
        return pp.resume("out")


def never_voted_again(folder: Path) -> Path:
    """Resume a run whose votes were begun and lost; return the folder of its log."""
    log = folder / "out"
    assert votes_in(log) == (1, 0, 0)
    outcome = resumed(folder)
    assert outcome.result.held_out is None
    assert outcome.result.rounds == 2
    assert votes_in(log) == (1, 0, 0)
    return log


def votes_in(folder: Path) -> tuple[int, int, int]:
    """Return how many intents, releases and evaluations of votes a log has."""
    ledger = ledger_of(folder)
    of_votes = [spent for spent in ledger.spent if spent.intent.phase == "held-out"]
    return (
        len(of_votes),
        sum(len(spent.releases) for spent in of_votes),
        len(ledger.evaluations),
    )
