"""FLAME's runs before the shuffler, edited: its dummies and the choice hide nobody from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("cryptography")

import privplan as pp
from privplan.accountant import events as ev
from privplan.audit.budget import audit_budget
from privplan.audit.budget.report import BudgetReport
from privplan.fl.observers.stated_assumptions import ASSUMED_PREFIX, BLIND_SHUFFLER

from ..cases import for_each
from ..fl.flame_runs import flame, run
from .forging import Edit, each, forged

EXACT: Final = 1.0 - 1e-9
CHOSEN: Final = 15
COLLUDERS: Final = 3
RUN: Final[dict[str, dict[str, str]]] = {
    "data": {"users": "80"},
    "privacy": {"noise_multiplier": "0.5"},
    "security": {"colluders": str(COLLUDERS)},
    "flame": {"chosen": str(CHOSEN)},
}
LOCAL: Final = ev.Repeat(2 * CHOSEN, ev.Laplace(0.5))
DELTA: Final = 1e-5


@dataclass(frozen=True)
class Audited:
    """A run's folder, what the run says that it cost, and what an audit of its log says."""

    folder: Path
    planned: dict[str, float]
    report: BudgetReport

    def number(self, observer: str) -> float:
        return number(self.report, observer)


def number(report: BudgetReport, observer: str) -> float:
    (row,) = (row for row in report.rows if row.observer == observer)
    return row.total.upper


def account(event: ev.Event) -> float:
    return pp.account(event, delta=DELTA, neighbours="replace-one").epsilon.upper


def finished(folder: Path, system: str = "flame-double", **tables: dict[str, str]) -> Audited:
    given = {name: {**RUN.get(name, {}), **tables.get(name, {})} for name in (*RUN, *tables)}
    if system == "flame-simple":
        del given["flame"]["chosen"]
    result = run(flame(system, **given), folder)
    planned = {name: bound.epsilon.upper for name, bound in result.guarantees.items()}
    return Audited(folder, planned, audit_budget(folder))


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return finished(tmp_path_factory.mktemp("double") / "out")


def found(report: BudgetReport) -> set[str]:
    return {hazard.id for hazard in report.hazards} - {"seeded"}


# --- the honest runs ------------------------------------------------------------------------------


def test_the_audit_has_the_number_of_the_run(double: Audited) -> None:
    assert not found(double.report)
    for observer, planned in double.planned.items():
        assert double.number(observer) == planned
    assert double.number("shuffler") < account(LOCAL) / 5
    assert double.number("colluding") == account(LOCAL)


@for_each(
    ("system", "table", "expected"),
    [
        ("flame-double", {"transport": '"ideal"'}, "sums"),
        ("flame-double", {"transport": '"ideal"', "overflow": '"cap"', "padded_to": "30"}, "sums"),
        ("flame-double", {"transport": '"ideal"', "randomizer": '"responses"'}, "each"),
        ("flame-double", {"granularity": '"tuple"', "transport": '"ideal"'}, "each"),
        ("flame-simple", {}, "model"),
        ("flame-simple", {"transport": '"ideal"', "randomizer": '"responses"'}, "model"),
        ("flame-topk", {"transport": '"ideal"'}, "none"),
    ],
    items=4,
)
def test_the_number_before_the_shuffler(
    tmp_path: Path, system: str, table: dict[str, str], expected: str
) -> None:
    own = finished(tmp_path / "out", system, flame=table, security={"colluders": "0"})
    assert "reach-contradicted" not in found(own.report)
    least = own.number("shuffler")
    assert least == own.planned["shuffler"]
    if expected == "none":
        assert math.isinf(least)
    elif expected == "model":
        assert least == own.number("analyzer")
    elif expected == "each":
        assert least == own.number("colluding")
    else:
        assert least < own.number("colluding") / 3
    if "ideal" in table.get("transport", "") and expected in ("sums", "model"):
        (row,) = (row for row in own.report.rows if row.observer == "shuffler")
        assert f"{ASSUMED_PREFIX}{BLIND_SHUFFLER}" in row.rests_on


# --- edits that say that it sees less -------------------------------------------------------------


def reaches(change: Callable[[dict[str, Any]], None], rounds: tuple[int, ...]) -> Edit:
    def edit(line: Any) -> None:
        if line["round"] in rounds:
            change(line["reaches"])

    return each("round.intent", edit)


def cut(observer: str, rounds: tuple[int, ...]) -> Edit:
    return reaches(lambda own: own.pop(observer, None), rounds)


def told(observer: str, rounds: tuple[int, ...], **fields: Any) -> Edit:
    full = {"also": [], "colluders": 0, "dropouts": 0, "holds": "nothing"}
    stated = {**full, "knows_sample": False, "rests_on": [], **fields}
    return reaches(lambda own: own.update({observer: stated}), rounds)


def as_model(observer: str) -> Edit:
    """State for an observer what is stated for the model, in plan, rounds and close."""

    def opened(line: Any) -> None:
        line["plan"]["events"][observer] = line["plan"]["events"]["model"]

    def intent(line: Any) -> None:
        line["views"][observer] = line["event"]

    def closed(line: Any) -> None:
        for name in ("epsilon", "events"):
            line[name][observer] = line[name]["model"]

    edits = each("run.open", opened), each("round.intent", intent), each("run.close", closed)

    def edit(lines: Any) -> Any:
        for part in edits:
            lines = part(lines)
        return lines

    return edit


BOTH: Final = (1, 2)


@pytest.mark.quick(6)
@for_each("observer", ["shuffler", "colluding", "coordinator"])
@for_each("rounds", [BOTH, (1,)])
@for_each("sees", [None, "nothing", "sum"])
def test_who_is_said_to_see_nothing_sees_each_message(
    double: Audited, tmp_path: Path, observer: str, rounds: tuple[int, ...], sees: str | None
) -> None:
    """Dummies and a choice that it knows are no cover before who mixes."""
    if observer == "coordinator" and sees is None:
        return  # nobody speaks of it
    edit = cut(observer, rounds) if sees is None else told(observer, rounds, sees=sees)
    report = audit_budget(forged(double.folder, tmp_path / "out", edit, as_model(observer)))
    own = number(report, observer)
    assert found(report)  # that the model's number is stated for it
    if observer == "shuffler" and rounds != BOTH:
        honest = double.number("shuffler")
        assert honest + account(ev.Repeat(CHOSEN, ev.Laplace(0.5))) / 3 < own
    else:
        assert own >= account(LOCAL) * EXACT


def test_where_all_is_sent_sums_without_a_word_of_dummies_count_as_messages(tmp_path: Path) -> None:
    """Then no fact says that who knows the order of all messages gets their sums alone."""
    own = finished(tmp_path / "out", "flame-simple", flame={"transport": '"ideal"'})
    assert own.number("shuffler") == own.number("model")
    edit = told("shuffler", BOTH, sees="sum")
    report = audit_budget(forged(own.folder, tmp_path / "edited", edit, as_model("shuffler")))
    assert number(report, "shuffler") >= own.number("colluding") * EXACT


@for_each("dimensions", [31, 15])
def test_decoys_that_nobody_sent_are_no_cover(tmp_path: Path, dimensions: int) -> None:
    """The configuration says how many there are, and who mixes says how many coordinates."""
    given = {"flame": {"transport": '"ideal"'}, "security": {"colluders": "0"}}
    own = finished(tmp_path / "out", "flame-topk", **given)
    filled = {"dimensions": dimensions, "chosen": dimensions, "selection": "oblivious"}
    edit = told("shuffler", BOTH, sees="each", also=["identities", "sizes"], **filled)
    report = audit_budget(forged(own.folder, tmp_path / "edited", edit))
    assert not report.ok
    assert "configuration-mismatch" in found(report)


# --- edits of other facts -------------------------------------------------------------------------


def every(rounds: tuple[int, ...] = BOTH, **fields: Any) -> Edit:
    """Change fields wherever a reach has them."""

    def change(own: dict[str, Any]) -> None:
        for reach in own.values():
            reach.update({name: value for name, value in fields.items() if name in reach})

    return reaches(change, rounds)


def security(**fields: Any) -> Edit:
    return each("run.open", lambda line: line["security"].update(fields))


def population(**fields: Any) -> Edit:
    return each("run.open", lambda line: line["population"].update(fields))


def noise(**fields: Any) -> Edit:
    return each("round.intent", lambda line: line["noise"].update(fields))


def mixer(**fields: Any) -> Edit:
    return reaches(lambda own: own["shuffler"].update(fields), BOTH)


MORE: Final = security(parties=800, fewest=800)
EDITS: Final[dict[str, tuple[Edit, ...]]] = {
    "more users": (every(users=800),),
    "more parties": (MORE,),
    "more parties and users": (MORE, every(users=800)),
    "more of all": (MORE, every(users=800), population(users=800)),
    "fewer users": (every(users=60),),
    "more users once": (every((1,), users=800),),
    "fewer dimensions": (every(dimensions=16),),
    "more dimensions": (every(dimensions=60),),
    "more chosen": (every(chosen=30),),
    "more chosen and drawn": (every(chosen=30), noise(draws=30)),
    "one chosen": (every(chosen=1),),
    "one chosen and drawn": (every(chosen=1), noise(draws=1)),
    "one chosen by the shuffler": (mixer(chosen=1),),
    "fewer places": (every(padded_to=20),),
    "more places": (every(padded_to=800),),
    "whole tuples": (every(granularity="tuple"),),
    "data choose": (every(selection="data-dependent"),),
    "data choose, to the shuffler": (mixer(selection="data-dependent"),),
    "no colluders before it": (mixer(colluders=0),),
    "no colluders in the protocol": (security(colluders=0),),
    "no colluders at all": (security(colluders=0), every(colluders=0)),
    "more colluders": (mixer(colluders=20),),
    "missing users": (mixer(dropouts=20),),
    "no key": (security(key_bits=0),),
    "a short key": (security(key_bits=1024),),
    "a shuffler that lies": (security(server="malicious"),),
    "less of a grid": (noise(grid="0.0"),),
    "more noise": (noise(std="0.5", share_std="0.5"),),
    "no index sets": (mixer(also=["identities", "sizes", "dummies"]),),
    "no dummies": (mixer(also=["identities", "sizes", "index-sets"]),),
    "dummies that the analyzer knows": (
        reaches(lambda own: own["analyzer"].update(also=["dummies"]), BOTH),
    ),
}


@pytest.mark.quick(12)
@for_each("name", EDITS)
def test_no_edited_fact_lowers_a_number_unnoticed(
    double: Audited, tmp_path: Path, name: str
) -> None:
    report = audit_budget(forged(double.folder, tmp_path / "out", *EDITS[name]))
    for row in report.rows:
        smaller = row.total.upper < double.number(row.observer) * EXACT
        named = any(text.startswith(ASSUMED_PREFIX) for text in row.rests_on)
        assert not smaller or found(report) - {"reach-assumed"} or named, row.observer


def test_without_a_key_it_is_supposed_that_it_does_not_read(
    double: Audited, tmp_path: Path
) -> None:
    report = audit_budget(forged(double.folder, tmp_path / "out", security(key_bits=0)))
    (row,) = (row for row in report.rows if row.observer == "shuffler")
    assert row.total.upper == double.number("shuffler")
    assert f"{ASSUMED_PREFIX}{BLIND_SHUFFLER}" in row.rests_on
    weak = audit_budget(forged(double.folder, tmp_path / "weak", security(key_bits=1024)))
    assert "reach-contradicted" in found(weak)
    assert number(weak, "shuffler") >= account(LOCAL) * EXACT


def test_known_dummies_hide_nobody_from_the_analyzer(double: Audited, tmp_path: Path) -> None:
    edit = EDITS["dummies that the analyzer knows"]
    report = audit_budget(forged(double.folder, tmp_path / "out", *edit))
    assert number(report, "analyzer") >= account(LOCAL) * EXACT
