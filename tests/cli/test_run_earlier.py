"""Runs that an earlier version began: they go on, and are attacked, as before.

`tests/audit/earlier/runs.zip` holds logs without the keys `observer`, `observers`, `colluders`.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import Refused, Run

for name in ("torch", "sklearn", "cryptography"):
    pytest.importorskip(name)

RUNS = Path(__file__).parents[1] / "audit" / "earlier" / "runs.zip"


@pytest.fixture
def earlier(tmp_path: Path) -> Any:
    """Return a function that unpacks a run, cut off after so many lines."""

    def unpacked(name: str, lines: int | None = None) -> Path:
        with zipfile.ZipFile(RUNS) as packed:
            members = [member for member in packed.namelist() if member.startswith(f"{name}/")]
            packed.extractall(tmp_path, members)
        folder = tmp_path / name
        if lines is not None:
            log = folder / "log.jsonl"
            kept = log.read_text().splitlines(keepends=True)[:lines]
            log.write_text("".join(kept))
            for left in ("model.npz", "metrics.json"):
                (folder / left).unlink(missing_ok=True)
        return folder

    return unpacked


def named(row: dict[str, Any]) -> str:
    if "colluders" not in row:
        return str(row["observer"])
    return f"{row['observer']}+{row['colluders']}" + "-with-records" * row["holds"]


def numbers(result: dict[str, Any]) -> dict[str, float]:
    return {named(row): float(row["epsilon"]["upper"]) for row in result["observers"]}


CUT = [
    ("avg-records-plain", 1),
    ("avg-records-plain", 2),
    ("avg-records-masked", 2),
    ("avg-moments-masked", 1),
    ("avg-dropouts", 1),
    ("avg-sampled", 2),
    ("naive-masked", 1),
    ("group-masked", 1),
    ("avg-moments", 1),
]


@pytest.mark.parametrize(("name", "lines"), CUT)
def test_a_run_goes_on_as_its_log_announced_it(
    name: str, lines: int, earlier: Any, run: Run
) -> None:
    folder = earlier(name, lines)
    announced = json.loads((folder / "log.jsonl").read_text().splitlines()[0])
    said = run("run", "--resume", "--out", str(folder), "--json").json["result"]
    audit = run("audit", "budget", str(folder), "--json")
    assert audit.code == 0
    result = audit.json["result"]
    assert not [hazard for hazard in result["hazards"] if hazard["severity"] == "error"]
    assert {hazard["id"] for hazard in result["hazards"]} <= {"dangling"}
    stated, derived = numbers(said), numbers(result)
    assert set(stated) == set(derived)
    for who, upper in stated.items():
        assert derived[who] == pytest.approx(upper, rel=1e-9), who
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert records[-1]["events"] == announced["plan"]["events"]
    views = [set(record["views"]) for record in records if record["type"] == "round.intent"]
    assert all(record == set(announced["plan"]["events"]) - {"model"} for record in views)
    told = (announced["security"] or {}).get("colluders", 0) if "security" in announced else 0
    assert (f"server+{told}" in derived) == bool(told)


def test_what_was_said_of_any_silo_is_not_said_any_more(earlier: Any, run: Run) -> None:
    folder = earlier("avg-records-masked", 1)
    said = numbers(run("run", "--resume", "--out", str(folder), "--json").json["result"])
    assert said["silo"] == pytest.approx(1.326231, rel=1e-5)
    assert math.isinf(said["silo-with-records"])


def told(folder: Path, table: str, line: str) -> None:
    """Write one more line into a table of a folder's configuration."""
    config = folder / "config.toml"
    config.write_text(config.read_text().replace(f"[{table}]", f"[{table}]\n{line}"))


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("privacy", "observer", '"server"'),
        ("privacy", "observers", '["model"]'),
        ("security", "colluders", "1"),
    ],
)
def test_a_key_that_is_added_is_a_change(
    table: str, key: str, value: str, earlier: Any, refused: Refused
) -> None:
    folder = earlier("avg-dropouts", 1)  # masks that bear two
    told(folder, table, f"{key} = {value}")
    text = refused("run", "--resume", "--out", str(folder))
    assert f"changed: [{table}] {key}" in text


@pytest.mark.parametrize("line", ["colluders = 0", "colluders = 2"])
def test_a_key_that_says_what_was_so_is_none(line: str, earlier: Any, run: Run) -> None:
    folder = earlier("avg-dropouts", 1)
    told(folder, "security", line)
    assert run("run", "--resume", "--out", str(folder)).code == 0


@pytest.mark.parametrize("observer", ["model", "server", "silo"])
@pytest.mark.parametrize("name", ["avg-records-plain", "avg-records-masked", "avg-dropouts"])
def test_an_earlier_run_is_attacked(name: str, observer: str, earlier: Any, run: Run) -> None:
    folder = earlier(name)
    words = ("--observer", observer, "--tier", "claim", "--canaries", "100", "--json")
    outcome = run("audit", "attack", str(folder), *words)
    assert outcome.code in (0, 1)  # chance may contradict
    assert outcome.json["result"]["observer"] == observer
    shutil.rmtree(folder)


def test_an_earlier_log_that_announces_less_than_its_silo_sees_is_refused(earlier: Any) -> None:
    """One number for any silo may be more than what one without the user sees, and no less."""
    from privplan.accountant import events as ev
    from privplan.accountant.errors import InvalidInput
    from privplan.accountant.records import RunOpen
    from privplan.audit.configuration.logged_settings import require_same_event
    from privplan.fl.log import read

    opened = next(iter(read(earlier("avg-records-plain")))).record
    assert isinstance(opened, RunOpen)
    seen = ev.Repeat(2, ev.Gaussian(5.0 * math.sqrt(2 / 3)))
    require_same_event(seen, opened, "silo", cut=False)
    more = ev.Repeat(2, ev.Gaussian(5.0 * math.sqrt(2 / 3) / 2.1))
    with pytest.raises(InvalidInput, match="announces other rounds"):
        require_same_event(more, opened, "silo", cut=False)
    with pytest.raises(InvalidInput, match="announces other rounds"):
        require_same_event(seen, opened, "server", cut=False)
