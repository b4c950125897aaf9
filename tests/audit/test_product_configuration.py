"""The configuration of FedPower runs beside the facts of their products: all of them compared."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.records import Product
from privplan.audit.budget import Entry, Ledger, audit_budget
from privplan.audit.configuration.comparison import compared
from privplan.audit.configuration.first_line import Comparison
from privplan.audit.report import read as read_page
from privplan.fl.log.reader import Scan

from ..cases import for_each
from .forging import Line, each, forged
from .test_residual_products import made

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography", "msgpack")),
    reason="runs need the extra `fl`",
)

PUBLISHED = {"as_published": True, "largest_element": 1.0, "entry_clip": 0.3}

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "power": ("power", {}),
    "original": ("original", {}),
    "private": ("private", {}),
    "original as published": ("original", PUBLISHED),
    "private as published": ("private", PUBLISHED),
    "private in four steps": ("private", {**PUBLISHED, "synchronise_every": 4}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of small runs, by name."""
    base = tmp_path_factory.mktemp("products")
    return {
        name: made(base / str(number), system, rounds=1, **table)
        for number, (name, (system, table)) in enumerate(RUNS.items())
    }


def comparison(folder: Path) -> Comparison:
    return compared(Ledger.of(Entry(line.number, line.seq, line.record) for line in Scan(folder)))


@for_each("name", list(RUNS))
def test_an_honest_run_is_as_configured(runs: dict[str, Path], name: str) -> None:
    found = comparison(runs[name])
    assert found.differences == ()
    assert found.not_stated == ()


def product(**changes: Any) -> Any:
    return "round.intent", lambda line: line["contribution"]["product"].update(changes)


def configured(name: str, value: object, table: str = "fedpower") -> Any:
    def change(line: Line) -> None:
        line["configuration"][table][name] = value

    return "run.open", change


EDITS: dict[str, Any] = {
    "dimension": product(dimension=65),
    "rank": product(rank=5),
    "row_norm": product(row_norm="3.0"),
    "divisor": product(divisor="2.0"),
    "rows": product(rows=2),
    "largest_change": product(largest_change="1.0"),
    "row_bits": product(row_bits=9),
    "basis_bits": product(basis_bits=9),
    "configured rank": configured("rank", 3),
    "configured row norm": configured("row_norm", "5.0"),
    "configured divisor": configured("divisor", "2.0"),
    "configured oversampling": configured("oversampling", 1),
    "configured rows": configured("most_rows", 10**9),
    "configured noise": configured("noise_multiplier", "6.0", "privacy"),
}


def test_every_fact_is_edited() -> None:
    assert {field.name for field in fields(Product)} <= set(EDITS)


@for_each("name", list(EDITS))
@for_each("system", ["power", "original", "private"])
def test_facts_of_another_configuration_are_found(
    runs: dict[str, Path], tmp_path: Path, system: str, name: str
) -> None:
    folder = forged(runs[system], tmp_path / "forged", each(*EDITS[name]))
    assert comparison(folder).differences
    assert not audit_budget(folder).ok


@for_each("name", ["row_norm", "rank", "divisor", "largest_change"])
@for_each("value", [5.0, "nan", "many", [], None, -1])
def test_keys_that_are_no_numbers_never_crash(
    runs: dict[str, Path], tmp_path: Path, name: str, value: object
) -> None:
    folder = forged(runs["power"], tmp_path / "forged", each(*configured(name, value)))
    report = audit_budget(folder)
    found = comparison(folder)
    assert found.differences or found.not_stated or (name, value) == ("largest_change", None)
    assert not (report.ok and found.differences)


def test_facts_that_fit_each_other_do_not_fit_the_configuration(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    """Bound, sensitivity, grid and length follow from these as they did before."""

    def divided(line: Line) -> None:
        line["normaliser"]["value"] = "4.0"

    folder = forged(
        runs["power"],
        tmp_path / "forged",
        each(*product(row_norm="8.0", divisor="4.0")),
        each("round.release", divided),
    )
    assert comparison(folder).differences
    assert not audit_budget(folder).ok


@for_each("name", ["original as published", "private as published", "private in four steps"])
def test_as_published_nothing_is_proven_and_the_report_says_so(
    runs: dict[str, Path], name: str
) -> None:
    report = audit_budget(runs[name])
    assert report.total.upper == float("inf")
    assert report.supported is False
    assert "as-published" in {hazard.id for hazard in report.hazards}
    assert "own rows" in report.total.refusal
    page = read_page(runs[name])
    assert page.budget.total.upper == float("inf")
    assert not page.budget.ok


def test_without_the_mark_the_stated_event_of_a_run_as_published_counts(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    """Who takes the mark off leaves the events, and the configuration, that say the same."""

    def unmarked(line: Line) -> None:
        line["as_published"] = False

    for name in ("private as published", "private in four steps"):
        folder = forged(runs[name], tmp_path / name, each("run.open", unmarked))
        report = audit_budget(folder)
        assert report.total.upper == float("inf")
        assert not report.ok
