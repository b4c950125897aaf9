"""One registry of rules: each a function of named facts, tried where all of them are known."""

from __future__ import annotations

import inspect
from collections import defaultdict
from pathlib import Path

import pytest

from privplan.accountant.guarantee import Bounds
from privplan.audit import edits, hazards
from privplan.audit.check import causes
from privplan.audit.findings import (
    FACTS,
    RULES,
    Finding,
    Match,
    NotStated,
    Severity,
    apply_rules,
    registry,
    rule,
    worst_first,
)
from privplan.audit.hazards import RECORDS, search_hazards

from .fault_table import TABLE
from .ledgers import evidence


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rule is registered."""
    monkeypatch.setattr(registry, "RULES", [])


def test_a_fact_has_one_type_in_all_rules() -> None:
    types = defaultdict(set)
    for each in RULES:
        for name, parameter in inspect.signature(each.check).parameters.items():
            types[name].add(parameter.annotation)
    assert types.keys() == FACTS.keys()
    assert {name: len(said) for name, said in types.items()} == dict.fromkeys(types, 1)


def test_every_rule_stands_in_a_room_that_lists_it() -> None:
    assert {each.id for each in RULES} == {*causes.CAUSE_RULES, *hazards.LOG_RULES}
    assert all(each.why.endswith((".", "?")) and each.why[0].isupper() for each in RULES)


def test_a_log_is_read_the_same_whatever_else_is_imported() -> None:
    """What `audit log` knows of a log is all that rules outside of its room do not need."""
    known = {*edits.FACTS_OF_FOLDERS}
    for each in RULES:
        in_room = each.check.__module__.startswith(edits.__name__)
        assert in_room == (set(each.needs) <= known), each.id


def test_rules_of_descriptions_and_of_logs_never_meet() -> None:
    for each in RULES:
        assert each.needs == ("case",) or "case" not in each.needs
    assert set(RECORDS) < set(FACTS)


@pytest.mark.usefixtures("empty")
def test_a_rule_is_skipped_where_a_fact_is_unknown() -> None:
    @rule("one", why="One.")
    def one(folder: str) -> Match:
        return Match(f"Seen {folder}.")

    @rule("both", why="Both.", severity="warning")
    def both(folder: str, sidecar: str) -> Match:
        return Match(f"Seen {folder} and {sidecar}.")

    def seen(**facts: object) -> list[str]:
        return [each.says for each in apply_rules(facts).findings]

    assert seen() == []
    assert seen(folder="a") == ["Seen a."]
    assert seen(sidecar="b") == []
    assert seen(folder="a", sidecar="b") == ["Seen a.", "Seen a and b."]
    (about,) = apply_rules({"folder": "a", "sidecar": "b"}, about="sidecar").findings
    assert (about.id, about.severity, about.rests_on) == ("both", "warning", ("folder", "sidecar"))


@pytest.mark.usefixtures("empty")
def test_a_finding_is_that_of_its_rule_but_for_what_was_found() -> None:
    other = Match("Other.", (3,), Bounds(1.0, 2.0), "note", "Wait.", "So.")

    @rule("some", why="Why.", next_step="Next.")
    def some(folder: str) -> list[Match]:
        return [Match(f"Plain {folder}.", tuple(range(12))), other]

    @rule("silent", why="Why.")
    def silent(folder: str) -> NotStated:
        return NotStated(f"Whether it is so: {folder} does not say it.")

    search = apply_rules({"folder": "a"})
    lines = tuple(range(12))
    plain = Finding("some", "error", "Plain a.", "Why.", "Next.", None, lines, ("folder",))
    changed = Finding("some", "note", "Other.", "So.", "Wait.", Bounds(1, 2), (3,), ("folder",))
    assert search.findings == (plain, changed)
    assert search.not_stated == ("Whether it is so: a does not say it.",)
    assert plain.to_json() == {
        "id": "some",
        "severity": "error",
        "what": "Plain a.",
        "why": "Why.",
        "next": "Next.",
        "epsilon": None,
        "lines": list(range(10)),
        "count": 12,
    }
    assert changed.to_json()["epsilon"] == 2.0


@pytest.mark.usefixtures("empty")
def test_a_rule_of_no_fact_and_a_second_of_the_same_are_refused() -> None:
    def strange(weather: str) -> None: ...

    def known(folder: str) -> None: ...

    with pytest.raises(TypeError, match="weather"):
        rule("some", why="Why.")(strange)
    rule("some", why="Why.")(known)
    with pytest.raises(TypeError, match="some"):
        rule("some", why="Why.")(known)


def test_the_worst_come_first_and_others_stay_in_order() -> None:
    words: tuple[Severity, ...] = ("note", "error", "info", "warning", "error")
    findings = [Finding(str(place), word, "", "", "") for place, word in enumerate(words)]
    assert [each.id for each in worst_first(findings)] == ["1", "4", "3", "0", "2"]


def test_what_lies_beside_a_log_is_no_reason_why_it_has_no_number(tmp_path: Path) -> None:
    make, fault, _ = TABLE["no-number"]
    records = evidence(fault(make()))
    assert "no-number" in {each.id for each in search_hazards(records).findings}
    (tmp_path / "model.npz").write_bytes(b"none")
    found = {each.id for each in search_hazards(records, {"folder": tmp_path}).findings}
    assert {"no-number", "foreign-model"} <= found
