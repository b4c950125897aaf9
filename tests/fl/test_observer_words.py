"""One table of observers in words, and everybody who speaks of them takes it from there."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from privplan.accountant import events as ev
from privplan.audit.report import page
from privplan.cli.reports import assumption_words
from privplan.fl.declarations.registry import declared
from privplan.fl.observers.names import OBSERVERS
from privplan.fl.observers.words import (
    SENTENCES,
    in_a_run,
    phrase,
    population_words,
    unit_before,
    who_is,
)

from ..cases import for_each

ROOT: Final = Path(__file__).parents[2]
SPEAKING: Final = sorted([*(ROOT / "cli").rglob("*"), *(ROOT / "audit" / "report").rglob("*")])


@for_each("name", OBSERVERS)
def test_every_observer_has_a_sentence(name: str) -> None:
    assert phrase(name) == SENTENCES[name].who == who_is(name) != name
    assert in_a_run(name, "plain")


@for_each("name", ["auditor", "silo-7", "server+0"])
def test_an_observer_that_nobody_knows_has_one_too(name: str) -> None:
    expected = f"the observer {name}"
    assert phrase(name) == who_is(name) == in_a_run(name, "plain", told_apart=True) == expected


def test_what_the_server_sees_depends_on_the_aggregation_and_on_who_takes_noise_off() -> None:
    seen = {one: in_a_run("server", one) for one in ("plain", "masked", "private-weighting")}
    assert len(set(seen.values())) == 3
    assert all(sentence.startswith("the server, which sees ") for sentence in seen.values())
    assert in_a_run("server", "another one") == "the server"
    removing = in_a_run("server", "masked", noise_removed=True)
    assert "only" not in removing
    assert "all noise but one silo's" in removing
    for other in ("model", "silo", "client"):
        assert in_a_run(other, "masked", noise_removed=True) == in_a_run(other, "masked")


def test_a_population_is_of_those_whom_a_number_is_about() -> None:
    among_peers = ("model", "peer", "coordinator")
    assert population_words(50, 20, "silo", among_peers) == "20 silos"
    assert population_words(50, 20, "record", among_peers) == "20 silos"
    assert population_words(50, 20, "user", among_peers) == "50 users, 20 silos"
    assert population_words(50, 1, "silo", ("model", "server")) == "50 users, 1 silo"
    assert population_words(1_000, 1, "user", ("model", "analyzer")) == "1,000 users"
    assert unit_before("client", "user", 1) == "user (all of its records)"
    assert unit_before("client", "user", 2) == unit_before("client", "user")


def test_the_commands_say_what_the_table_says() -> None:
    for name in SENTENCES:
        (hidden, *_) = assumption_words.assumptions(ev.Gaussian(1.0), "add-remove", "user", name)
        assert hidden.endswith(f"from {SENTENCES[name].who}.")
    assert page.phrase is phrase


def texts_in(path: Path) -> list[str]:
    """Return the texts of a file; all of it where it is no Python."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [content]
    nodes = ast.walk(ast.parse(content))
    return [
        one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def test_nobody_else_has_such_sentences() -> None:
    sentences = {
        sentence
        for row in SENTENCES.values()
        for sentence in (row.who, row.in_a_run, row.told_apart, *row.sees.values())
        if len(sentence) > len("the coordinator")
    }
    assert len(sentences) > 8
    for path in SPEAKING:
        if path.suffix in (".py", ".j2", ".txt"):
            texts = texts_in(path)
            assert [it for it in sentences if any(it in text for text in texts)] == [], path


def test_nobody_who_reports_compares_the_name_of_a_system() -> None:
    names = set(declared())
    assert "uldp-group" in names
    for path in SPEAKING:
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                parts = [*ast.walk(node)]
                texts = {one.value for one in parts if isinstance(one, ast.Constant)}
                assert not names & texts, f"{path}, line {node.lineno}"


PEERS: Final = {
    "plain": ("every peer's noisy update", "every peer's noisy update"),
    "masked": ("the released models and knows what it added", "only the sum of the peers'"),
    "shares": ("the sum and knows what it added", "who takes part, and no number of theirs"),
}
"""What a peer and the coordinator see, by aggregation."""


@for_each("aggregation", list(PEERS))
def test_what_peers_and_their_coordinator_see_depends_on_the_aggregation(aggregation: str) -> None:
    for observer, sees in zip(("peer", "coordinator"), PEERS[aggregation], strict=True):
        said = in_a_run(observer, aggregation, unit="silo")
        assert f"which sees {sees}" in said
        others = [in_a_run(observer, one, unit="silo") for one in PEERS if one != aggregation]
        assert said not in others


@for_each("observer", ["peer", "silo"])
def test_whose_records_a_number_is_for_is_said_where_a_unit_is_less_than_a_silo(
    observer: str,
) -> None:
    for aggregation in PEERS:
        apart = {unit: in_a_run(observer, aggregation, unit=unit) for unit in ("record", "user")}
        whole = in_a_run(observer, aggregation, unit="silo")
        assert set(apart.values()) == {f"{whole}, for records in other silos"}
        assert "records" not in whole
