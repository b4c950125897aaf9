"""Runs of every system, aggregation and sampling, as an earlier version left them.

`earlier/runs.zip` holds their folders, cut off and resumed ones among them, and `expected.json`
what that version's audits said of them.  Honest logs keep their numbers, verdicts and exit codes;
what may change stands below, by name.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import pytest

from privplan.audit.budget import BudgetReport, audit_budget
from privplan.audit.verify import verify

from ..cases import for_each

HERE: Final = Path(__file__).parent / "earlier"
EXPECTED: Final[dict[str, Any]] = json.loads((HERE / "expected.json").read_text())
SEEDED: Final = "avg-seeded"
"""A seeded run has an error, so its log supports nothing; it said `supported` before.  So has a
run with a large delta."""

CLOSE: Final = 1e-9
"""Relative difference of the same number on two processors."""

LARGE_DELTA: Final = {"avg-delta": ({"delta-too-large": ("warning", "error")}, (True, False))}
"""A delta of .05 for 40 users: its severity before and now, and whether the audit passes."""


def near(expected: dict[str, float]) -> Any:
    return pytest.approx(expected, rel=CLOSE)


def require_numbers_and_verdict(name: str, found: BudgetReport, own: dict[str, Any]) -> None:
    expected = EXPECTED[name]
    assert own["epsilon"] == near(expected["epsilon"])
    same = ("claimed", "rounds", "released", "dangling")
    assert {key: own[key] for key in same} == {key: expected[key] for key in same}
    changed, (before, now) = LARGE_DELTA.get(name, ({}, (expected["ok"],) * 2))
    assert (expected["ok"], found.ok) == (before, now)
    hazards = {hazard["id"]: hazard["severity"] for hazard in own["hazards"]}
    for hazard, (warned, severity) in changed.items():
        assert (dict(expected["hazards"])[hazard], hazards[hazard]) == (warned, severity)
        hazards[hazard] = warned
    assert sorted(map(list, hazards.items())) == expected["hazards"]
    if name in (SEEDED, *LARGE_DELTA):
        assert (expected["supported"], own["supported"]) == (True, False)
    else:
        assert own["supported"] == expected["supported"]


Change = tuple[float | None, float]
"""The upper end of an epsilon that an earlier version derived (None: no such row), and of now."""

NOTHING: Final = math.inf


def told(name: str, number: float, holds: float) -> dict[str, Change]:
    """Return the rows of a coalition: without records of the unit, and with some."""
    return {name: (None, number), f"{name}-with-records": (None, holds)}


def resumed(name: str, last: int) -> tuple[str, ...]:
    return tuple(f"{name}-resumed-{count}" for count in range(1, last + 1))


CHANGED: Final[dict[tuple[str, ...], dict[str, Change]]] = {
    # What was said of `silo` was of any silo; one with records of the user knows how many it has,
    # and one without has half of that shift.
    ("avg-records-plain", "avg-sampled", "avg-unfinished-dangling", "sgd-records-plain"): {
        "silo": (2.875925, 1.326231),
        "silo-with-records": (2.875925, NOTHING),
    },
    ("avg-unfinished-going", "avg-unfinished-torn"): {
        "silo": (1.948195, 0.905837),
        "silo-with-records": (1.948195, NOTHING),
    },
    ("avg-moments", "avg-records-plain-aborted"): {
        "silo": (3.622876, 1.65997),
        "silo-with-records": (3.622876, NOTHING),
    },
    ("avg-replace",): {"silo-with-records": (None, NOTHING)},
    # Likewise, and masks that are made for colluding silos have a number for these.
    ("avg-records-masked", "avg-signed", "sgd-records-masked"): {
        "silo": (2.875925, 1.326231),
        "silo-with-records": (2.875925, NOTHING),
        **told("server+1", 1.326231, NOTHING),
    },
    ("avg-records-masked-aborted", *resumed("avg-records-masked", 11)): {
        "silo": (3.622876, 1.65997),
        "silo-with-records": (3.622876, NOTHING),
        **told("server+1", 1.65997, NOTHING),
    },
    ("avg-sampled-masked", "avg-uniform-masked", "naive-masked", "sgd-uniform-masked"): told(
        "server+1", 0.849218, 0.849218
    ),
    ("avg-moments-masked",): told("server+1", 1.06079, 1.06079),
    resumed("avg-moments-masked", 12): told("server+1", 1.242795, 1.242795),
    ("avg-dropouts",): told("server+2", 0.885793, 0.885793),
    # Flags of uldp-group were drawn from all records of a user, and who holds some saw whether
    # these were flagged.
    ("group-plain", "group-rate"): {"silo-with-records": (None, NOTHING)},
    ("group-masked",): {
        "silo-with-records": (None, NOTHING),
        **told("server+1", 6.891005, NOTHING),
    },
    # Nothing is promised to begin with, or private weighting, which admits no coalition.
    ("avg-private", "avg-private-sampled", "avg-private-slots", "avg-published"): told(
        "server+1", NOTHING, NOTHING
    ),
    ("fedavg-masked", "sgd-private"): told("server+1", NOTHING, NOTHING),
}
"""Rows that are not what an earlier version derived: its value, and that of now."""

EXCEPTIONS: Final = {name: rows for names, rows in CHANGED.items() for name in names}


def named(row: dict[str, Any]) -> str:
    """Return the name of the observer of a row of JSON."""
    if "colluders" not in row:
        return str(row["observer"])
    return f"{row['observer']}+{row['colluders']}" + "-with-records" * row["holds"]


@for_each("name", sorted(EXPECTED))
def test_an_earlier_log_is_whole_and_keeps_its_numbers(runs: Path, name: str) -> None:
    verified = verify(runs / name)
    same = ("records", "head", "complete", "ok")
    assert {key: getattr(verified, key) for key in same} == EXPECTED[name]["verified"]
    report = audit_budget(runs / name, sealed=(runs / name / "sealed.jsonl").exists())
    own = json.loads(json.dumps(report.to_json()))
    require_numbers_and_verdict(name, report, own)
    require_observers(name, own)


def require_observers(name: str, own: dict[str, Any]) -> None:
    found = {named(row): row["epsilon"] for row in own["observers"]}
    expected, changed = EXPECTED[name]["observers"], EXCEPTIONS.get(name, {})
    for observer, (before, now) in changed.items():
        assert found[observer]["upper"] == pytest.approx(now, rel=1e-5), observer
        if before is None:
            assert observer not in expected
        else:
            assert expected[observer]["upper"] == pytest.approx(before, rel=1e-5), observer
    new = [observer for observer, (before, _) in changed.items() if before is None]
    assert [observer for observer in found if observer not in new] == list(expected)
    for observer, epsilon in expected.items():
        if observer not in changed:
            assert found[observer] == near(epsilon), observer


def test_exceptions_are_of_logs_that_there_are() -> None:
    assert set(EXCEPTIONS) <= set(EXPECTED)
    assert len(EXCEPTIONS) == sum(map(len, CHANGED))
