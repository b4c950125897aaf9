"""The page of five systems: page, bench and notebook say what was measured, and no more."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from privplan.accountant import rounding
from privplan.accountant.claims import table as tables
from privplan.fl.declarations.registry import declared
from privplan.fl.running.configuration import Configuration

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "explanation" / "five-systems.md").read_text(encoding="utf-8")
FILE: Final = ROOT / "bench" / "five_systems.json"
ROWS: Final[list[dict[str, Any]]] = json.loads(FILE.read_text())["rows"]
TITLES: Final = ("Uldp-FL", "FLAME", "DISCO", "FedPower", "DELM")


def bench(name: str) -> ModuleType:
    """Return a module of `bench/`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def ids(row: dict[str, Any]) -> str:
    """Return the name of a row."""
    return f"{row['data']}-{row['system']}"


def test_the_table_of_the_page_is_that_of_the_file(tmp_path: Path) -> None:
    writer = bench("five_systems_table")
    shown = PAGE.split(writer.BEGIN)[1].split(writer.END)[0].strip()
    assert shown == writer.table(FILE)
    copied = tmp_path / "page.md"
    copied.write_text(PAGE.replace(shown, "| 1 |"), encoding="utf-8")
    writer.write_table(FILE, copied)
    assert copied.read_text(encoding="utf-8") == PAGE


def test_all_five_are_there_in_both_forms_on_data_that_come_along() -> None:
    rows = {(row["data"], row["paper"], row["form"]) for row in ROWS}
    assert len(rows) == len(ROWS)
    for data in ("digits", "breast-cancer"):
        for paper in tables.SYSTEMS:
            assert (data, paper, "sound") in rows
            # A published form is there as soon as a system that runs it is declared.
            runs = paper != "delm" or "delm-basic" in declared()
            assert ((data, paper, "as published") in rows) == runs


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_what_was_measured_is_what_the_bench_would_run(row: dict[str, Any]) -> None:
    cases = bench("five_systems_cases").cases()
    known = {(case.data, case.paper, case.form): case for case in cases}
    case = known.get((row["data"], row["paper"], row["form"]))
    if case is None:
        pytest.skip(f"the files of {row['data']} are not here")
    configuration = json.loads(json.dumps(case.configuration, default=str))
    configuration["data"].pop("path", None)
    assert row["configuration"] == configuration
    assert Configuration.of(case.configuration).settings.run.system == row["system"]


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_a_row_claims_no_more_than_it_proves_unless_as_published(row: dict[str, Any]) -> None:
    proven = float(row["proven"][row["observer"]])
    measured, attacked = row["measured"], "canaries" in row["measured"]
    assert row["as_published"] == (row["form"] == "as published")
    if row["form"] == "sound":
        assert row["supported"]
        assert proven <= row["claimed"]
        assert attacked
        assert not measured["contradicted"]
    else:
        assert not row["supported"]
        assert "as-published" in row["hazards"]
    if attacked:  # 95 %: a bound above the truth would be one in 20, and none is here
        assert float(measured["value"]) <= proven
    assert row["processor_seconds"]["mean"] > 0.0
    assert row["bytes_of_client"] > 0


@pytest.mark.parametrize(
    "system",
    [
        pytest.param(system, marks=() if system == "disco" else pytest.mark.slow)
        for system in tables.SYSTEMS
    ],
)
def test_what_holds_is_said_in_numbers_of_the_table_of_claims(system: str) -> None:
    title = TITLES[tables.SYSTEMS.index(system)]
    (body,) = re.findall(rf"^- \*\*{title}\*\*: (.*?)(?=^- |^\n|\n\n)", PAGE, re.M | re.S)
    known = set[str]()
    for claim in tables.table(system):
        known |= {claim.printed, *re.findall(r"[\d.]+", claim.setting)}
        known |= {f"{claim.claimed:.{digits}g}" for digits in (2, 3, 4)}
        for digits in (2, 3, 4):
            if claim.proven is not None and math.isfinite(claim.proven):
                known |= {rounding.up(claim.proven, digits)}
            if claim.lower is not None and math.isfinite(claim.lower):
                known |= {rounding.down(claim.lower, digits)}
    numbers = re.findall(r"(?<![\w.,])\d[\d,]*\.\d+", body)
    assert numbers
    assert [number for number in numbers if number not in known] == []


def test_links_to_notebooks_lead_to_notebooks() -> None:
    links = re.findall(r"notebooks/[\w.]+\.ipynb", PAGE)
    assert "notebooks/11_five_systems.ipynb" in links
    assert [link for link in links if not (ROOT / link).is_file()] == []
    names = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert {"14_numbers.ipynb", "15_any_model.ipynb", "16_canaries.ipynb"} <= set(names)


def test_make_makes_the_table_again() -> None:
    recipe = re.search(r"^systems:\n\t(.+)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe is not None
    assert recipe[1].endswith("python bench/five_systems.py")
