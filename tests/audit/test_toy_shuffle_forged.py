"""Each false statement of what reaches whom is found, counted as each message, or assumed aloud."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("cryptography")

from privplan.audit.budget import audit_budget
from privplan.audit.budget.report import BudgetReport
from privplan.fl.running import run

from ..cases import for_each
from ..packages import shuffled
from ..packages.toys import installed
from .forging import Edit, each, forged

OBSERVERS: Final = ("model", "analyzer", "shuffler")
EXACT: Final = 1.0 - 1e-9

Outcome = Literal["error", "each", "assumed", "more", "none", "same"]
"""What becomes of a statement: an error stands; the observer counts as who sees each message; an
assumption stands beside the number; the number is larger, or there is none; nothing changes."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of an honest run, of which two users may collude with the analyzer."""
    place = tmp_path_factory.mktemp("toy")
    with installed("toy_shuffle", place / "site"):
        run(shuffled.settings(colluders=2), place / "out")
        yield place / "out"


def reach(*observers: str, **fields: Any) -> Edit:
    """State other fields in the reach of some observers; None leaves a field out."""

    def change(line: Any) -> None:
        for observer in observers:
            own = line["reaches"][observer]
            own.update(fields)
            for name in [name for name, value in own.items() if value is None]:
                del own[name]

    return each("round.intent", change)


def told(observer: str, stated: dict[str, Any] | None) -> Edit:
    """State another reach, or none."""

    def change(line: Any) -> None:
        full = dict(line["reaches"]["shuffler"], also=[], dimensions=None, chosen=None)
        line["reaches"].pop(observer, None)
        if stated is not None:
            own = dict(full, **{"selection": None, **stated})
            line["reaches"][observer] = {k: v for k, v in own.items() if v is not None}

    return each("round.intent", change)


def security(**fields: Any) -> Edit:
    return each("run.open", lambda line: line["security"].update(fields))


def opened(**fields: Any) -> Edit:
    return each("run.open", lambda line: line.update(fields))


def unprotected() -> Edit:
    """Take out what is said of the protocol, as in a run without one."""
    return each("run.open", lambda line: line.pop("security"))


def noise(**fields: Any) -> Edit:
    return each("round.intent", lambda line: line["noise"].update(fields))


def contribution(**fields: Any) -> Edit:
    return each("round.intent", lambda line: line["contribution"].update(fields))


def first_only(edit: Edit) -> Edit:
    """Make an edit in the first round alone."""

    def apart(lines: Any) -> Any:
        numbers = [line.get("round") for line in lines]
        kept = [line for line in lines if line.get("round") == 1]
        changed = iter(edit(kept))
        return [
            next(changed) if number == 1 else line
            for number, line in zip(numbers, lines, strict=True)
        ]

    return apart


def nobody(line: Any) -> None:
    line["reaches"]["auditor"] = dict(line["reaches"]["shuffler"])


def unstated(line: Any) -> None:
    del line["reaches"]


@dataclass(frozen=True)
class Statement:
    """A false statement: how it is written into the log, about whom, and what becomes of it."""

    name: str
    observer: str
    outcome: Outcome
    edits: tuple[Edit, ...]


BOTH: Final = ("model", "analyzer")
STATEMENTS: Final = (
    Statement("more users than parties", "analyzer", "error", (reach(*BOTH, users=1000),)),
    Statement("fewer users than parties", "analyzer", "more", (reach(*BOTH, users=15),)),
    Statement("no users", "analyzer", "error", (reach(*BOTH, users=None),)),
    Statement("more places", "analyzer", "error", (reach(*BOTH, padded_to=2000),)),
    Statement("fewer places", "analyzer", "more", (reach(*BOTH, padded_to=6),)),
    Statement("no places", "analyzer", "error", (reach(*BOTH, padded_to=None),)),
    Statement("more dimensions", "analyzer", "error", (reach(*OBSERVERS, dimensions=1200),)),
    Statement("fewer dimensions", "analyzer", "error", (reach(*OBSERVERS, dimensions=6),)),
    Statement("no dimensions", "analyzer", "error", (reach(*BOTH, dimensions=None),)),
    Statement("one coordinate", "analyzer", "error", (reach(*OBSERVERS, chosen=1),)),
    Statement("one coordinate, to some", "analyzer", "error", (reach(*BOTH, chosen=1),)),
    Statement("more coordinates", "analyzer", "error", (reach(*OBSERVERS, chosen=6),)),
    Statement("whole tuples", "analyzer", "each", (reach(*BOTH, granularity="tuple"),)),
    Statement("no granularity", "analyzer", "error", (reach(*BOTH, granularity=None),)),
    Statement("data choose", "analyzer", "more", (reach(*BOTH, selection="data-dependent"),)),
    Statement("data choose", "shuffler", "none", (reach(*BOTH, selection="data-dependent"),)),
    Statement(
        "data choose, all", "shuffler", "none", (reach(*OBSERVERS, selection="data-dependent"),)
    ),
    Statement("no selection", "analyzer", "error", (reach(*BOTH, selection=None),)),
    Statement("a cap", "analyzer", "more", (reach(*BOTH, overflow="cap"),)),
    Statement("no overflow", "analyzer", "error", (reach(*BOTH, overflow=None),)),
    Statement("no colluders", "analyzer", "error", (reach(*BOTH, colluders=0),)),
    Statement("more colluders", "analyzer", "more", (reach(*BOTH, colluders=5),)),
    Statement("all collude", "analyzer", "error", (reach(*BOTH, colluders=20),)),
    # Dummies stand in for who is missing; a message takes no other's noise along.
    Statement("some are missing", "analyzer", "same", (reach(*BOTH, dropouts=2),)),
    Statement("knows a sample", "analyzer", "same", (reach(*BOTH, knows_sample=True),)),
    Statement(
        "a sample that nobody drew", "shuffler", "same", (reach("shuffler", knows_sample=True),)
    ),
    Statement("holds a part", "analyzer", "same", (reach(*BOTH, holds="part"),)),
    Statement("also nothing", "shuffler", "same", (reach("shuffler", also=[]),)),
    Statement("the analyzer left out", "analyzer", "error", (told("analyzer", None),)),
    Statement("the shuffler left out", "shuffler", "each", (told("shuffler", None),)),
    Statement("nobody stated", "analyzer", "error", (each("round.intent", unstated),)),
    Statement("left out once", "analyzer", "error", (first_only(told("analyzer", None)),)),
    Statement(
        "stated otherwise once", "analyzer", "error", (first_only(reach(*BOTH, users=1000)),)
    ),
    Statement("somebody unknown", "analyzer", "error", (each("round.intent", nobody),)),
    Statement(
        "a blind shuffler",
        "shuffler",
        "error",
        (told("shuffler", {"sees": "nothing"}), security(key_bits=0)),
    ),
    Statement("no key", "shuffler", "same", (security(key_bits=0),)),
    Statement(
        "a short key",
        "shuffler",
        "error",
        (told("shuffler", {"sees": "nothing"}), security(key_bits=1024)),
    ),
    Statement(
        "a blind shuffler with a key",
        "shuffler",
        "each",
        (told("shuffler", {"sees": "nothing"}),),
    ),
    Statement(
        "a shuffler that mixes nothing",
        "shuffler",
        "error",
        (told("shuffler", {"sees": "sum"}), security(key_bits=0)),
    ),
    Statement(
        "a shuffler with a key that sees the sum",
        "shuffler",
        "each",
        (told("shuffler", {"sees": "sum"}),),
    ),
    Statement(
        "a shuffler that is mixed",
        "shuffler",
        "error",
        (
            each(
                "round.intent",
                lambda line: line["reaches"].update(shuffler=dict(line["reaches"]["analyzer"])),
            ),
        ),
    ),
    Statement("a blind analyzer", "analyzer", "error", (told("analyzer", {"sees": "nothing"}),)),
    Statement("an analyzer of sums", "analyzer", "error", (told("analyzer", {"sees": "sum"}),)),
    Statement(
        "an analyzer of a share", "analyzer", "error", (told("analyzer", {"sees": "one-share"}),)
    ),
    Statement("a blind model", "model", "same", (told("model", {"sees": "nothing"}),)),
    Statement("a model of sums", "model", "same", (told("model", {"sees": "sum"}),)),
    Statement("a model of more users", "model", "error", (reach("model", users=1000),)),
    Statement("a model of more places", "model", "error", (reach("model", padded_to=2000),)),
    Statement("no protocol", "analyzer", "assumed", (unprotected(),)),
    Statement(
        "no protocol, and blind",
        "shuffler",
        "each",
        (unprotected(), told("shuffler", {"sees": "nothing"})),
    ),
    Statement("another protocol", "analyzer", "error", (security(protocol="pairwise-masks"),)),
    Statement("more parties", "analyzer", "error", (security(parties=1000, fewest=1000),)),
    Statement(
        "more parties and users",
        "analyzer",
        "error",
        (security(parties=1000, fewest=1000), reach(*BOTH, users=1000)),
    ),
    Statement("fewer parties", "analyzer", "error", (security(parties=10, fewest=10),)),
    Statement("one message is enough", "analyzer", "error", (security(fewest=1),)),
    Statement("a shuffler that lies", "analyzer", "error", (security(server="malicious"),)),
    Statement(
        "colluders kept quiet",
        "analyzer",
        "error",
        (security(colluders=0), reach(*BOTH, colluders=0)),
    ),
    Statement("summed in the clear", "analyzer", "error", (opened(aggregation="plain"),)),
    Statement("summed under masks", "analyzer", "error", (opened(aggregation="masked"),)),
    Statement("shared noise", "analyzer", "error", (contribution(terms="unit"),)),
    Statement("half of the noise", "analyzer", "error", (noise(std="2.0"),)),
    Statement("fewer draws", "analyzer", "error", (noise(draws=1),)),
    Statement(
        "fewer draws, all of one",
        "analyzer",
        "error",
        (noise(draws=1), reach(*OBSERVERS, chosen=1)),
    ),
)


def number(report: BudgetReport, observer: str) -> float:
    (row,) = (row for row in report.rows if row.observer == observer)
    return row.total.upper


def assumed(report: BudgetReport, observer: str) -> bool:
    (row,) = (row for row in report.rows if row.observer == observer)
    return any(text.startswith("assumed: ") for text in row.rests_on)


@pytest.fixture(scope="module")
def proven(honest: Path) -> dict[str, float]:
    """What the honest log proves, by observer."""
    report = audit_budget(honest)
    assert report.ok
    return {name: number(report, name) for name in OBSERVERS}


@pytest.mark.quick(24)
@for_each("stated", STATEMENTS, ids=lambda one: f"{one.name}-{one.observer}")
def test_a_false_statement_is_found_counted_or_assumed(
    stated: Statement, honest: Path, proven: dict[str, float], tmp_path: Path
) -> None:
    report = audit_budget(forged(honest, tmp_path / "out", *stated.edits))
    least, worst = proven[stated.observer], proven["shuffler"]
    found = number(report, stated.observer)
    expected: dict[Outcome, Callable[[], bool]] = {
        "error": lambda: bool(report.errors) and not report.ok,
        "each": lambda: found >= worst * EXACT,
        "assumed": lambda: assumed(report, stated.observer),
        "more": lambda: least * EXACT <= found < math.inf,
        "none": lambda: math.isinf(found),
        "same": lambda: found == pytest.approx(least, rel=1e-9),
    }
    assert expected[stated.outcome](), (found, least, report.errors)
    for name, honestly in proven.items():
        smaller = number(report, name) < honestly * EXACT
        assert not smaller or report.errors or assumed(report, name), name
