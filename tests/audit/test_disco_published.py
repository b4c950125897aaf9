"""Runs of DISCO as published, audited: no number for anybody, and edits that would give one."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import RoundIntent, RunClose, RunOpen
from privplan.audit.budget import Entry, Ledger, audit_budget
from privplan.audit.configuration.comparison import compared
from privplan.audit.configuration.first_line import Comparison
from privplan.audit.residual import residual_tier
from privplan.fl.log.reader import Scan

from ..cases import for_each
from .forging import Edit, Line, each, forged

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography", "msgpack")),
    reason="runs need the extra `fl`",
)

EPSILON, MULTIPLIER = {"epsilon": 10.0}, {"noise_multiplier": 21.7}

RUNS: dict[str, tuple[str, dict[str, float]]] = {
    "plain": ("plain", EPSILON),
    "masked": ("masked", EPSILON),
    "shares": ("shares", EPSILON),
    "plain, by noise": ("plain", MULTIPLIER),
}
OBSERVERS = {"model", "peer", "coordinator"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of small runs, by name."""
    base = tmp_path_factory.mktemp("disco")
    folders = {}
    for number, (name, (aggregation, privacy)) in enumerate(RUNS.items()):
        folders[name] = base / str(number)
        pp.run(
            {
                "run": {"system": "disco", "rounds": 2},
                "data": {"name": "breast-cancer", "silos": 5},
                "privacy": privacy,
                "disco": {"noise": "as_published"},
                "security": {"aggregation": aggregation},
            },
            folders[name],
        )
    return folders


def comparison(folder: Path) -> Comparison:
    return compared(Ledger.of(Entry(line.number, line.seq, line.record) for line in Scan(folder)))


def records_of(folder: Path, kind: type[Any]) -> list[Any]:
    return [line.record for line in Scan(folder) if isinstance(line.record, kind)]


@for_each("name", RUNS)
def test_the_log_says_as_published_and_nothing_is_public_of_the_bound(
    runs: dict[str, Path], name: str
) -> None:
    assert comparison(runs[name]) == Comparison((), ())
    (opened,) = records_of(runs[name], RunOpen)
    assert opened.as_published
    intents = records_of(runs[name], RoundIntent)
    assert {one.contribution.source for one in intents} == {"private"}
    (closed,) = records_of(runs[name], RunClose)
    assert set(closed.epsilon) == OBSERVERS
    assert all(math.isinf(epsilon) for epsilon in closed.epsilon.values())


@for_each("name", RUNS)
def test_the_published_epsilon_stands_beside_no_guarantee(runs: dict[str, Path], name: str) -> None:
    report = audit_budget(runs[name])
    assert not report.ok
    by_formula = 2.0 * math.sqrt(2.0 * math.log(1.25 * 2 / 1e-5)) * 2 / 21.7
    found = report.to_json()
    wanted = RUNS[name][1].get("epsilon", by_formula)
    assert found["claimed"] == pytest.approx(wanted, rel=1e-5)
    assert not found["supported"]
    rows = found["observers"]
    assert {row["observer"] for row in rows} == OBSERVERS  # there is no server, and no other silo
    assert [row["epsilon"]["upper"] for row in rows] == [math.inf] * len(rows)
    floats = [hazard for hazard in report.hazards if hazard.id == "float-shares"]
    expected = {"private-bound", "as-published"} | {hazard.id for hazard in floats}
    assert {hazard.id for hazard in report.hazards} == expected
    assert [hazard.says for hazard in floats] == (
        ["As published, shares are of floats, in no ring, and hide nothing."]
        if name == "shares"
        else []
    )


def test_noise_that_follows_the_update_is_compared_with_nothing(runs: dict[str, Path]) -> None:
    with pytest.raises(InvalidInput, match="sealed no statistics of their noise") as caught:
        residual_tier(runs["plain"])
    assert "earlier version" not in str(caught.value.why)


# --- edits --------------------------------------------------------------------------------------


def opening(**changes: object) -> Edit:
    return each("run.open", lambda line: line.update(changes))


def intent(part: str, **changes: object) -> Edit:
    return each("round.intent", lambda line: line[part].update(changes))


def configured(table: str, **changes: object) -> Edit:
    return each("run.open", lambda line: line["configuration"][table].update(changes))


def promising(line: Line) -> None:
    """Let every event be that of the noise that is stated."""
    event = {"noise_multiplier": 0.5, "type": "gaussian"}
    if line["type"] == "round.intent":
        line["event"] = event
        line["views"] = dict.fromkeys(line["views"], event)
    else:
        planned = {"count": 2, "event": event, "type": "repeat"}
        line["plan"]["events"] = dict.fromkeys(line["plan"]["events"], planned)


EDITS: dict[str, tuple[Edit, ...]] = {
    "as published left out": (opening(as_published=False),),
    "a public bound": (intent("contribution", source="public"),),
    "a released bound": (intent("contribution", source="released"),),
    "both": (opening(as_published=False), intent("contribution", source="public")),
    "a bound for one tensor": (intent("contribution", bound="0.3"),),
    "more noise": (intent("noise", std="100.0"),),
    "another number of shares": (intent("noise", shares=4),),
    "another clip": (configured("training", clip="0.2"),),
    "another target": (configured("privacy", epsilon="1.0"),),
    "another noise rule": (configured("disco", noise="local"),),
    "a promise": (
        opening(as_published=False),
        intent("contribution", source="public"),
        each("run.open", promising),
        each("round.intent", promising),
    ),
    "another sum": (each("round.release", lambda line: line["normaliser"].update(value="1.0")),),
}


@for_each("name", EDITS)
@for_each("run", ["plain", "masked", "shares"])
def test_an_edited_log_is_not_as_configured(
    runs: dict[str, Path], tmp_path: Path, run: str, name: str
) -> None:
    folder = forged(runs[run], tmp_path / "forged", *EDITS[name])
    assert comparison(folder).differences
    report = audit_budget(folder)
    assert not report.ok
    assert "configuration-mismatch" in {hazard.id for hazard in report.hazards}


def test_a_noise_multiplier_is_compared_too(runs: dict[str, Path], tmp_path: Path) -> None:
    edit = configured("privacy", noise_multiplier="21.8")
    assert comparison(forged(runs["plain, by noise"], tmp_path / "forged", edit)).differences


def test_shares_that_are_called_a_ring_are_found(runs: dict[str, Path], tmp_path: Path) -> None:
    edit = each("run.open", lambda line: line["security"].update(ring_bits=64))
    folder = forged(runs["shares"], tmp_path / "forged", edit)
    assert [one.fact for one in comparison(folder).differences] == ["security.ring_bits"]
    assert not audit_budget(folder).ok


def test_commitments_that_were_taken_out_are_missed(runs: dict[str, Path], tmp_path: Path) -> None:
    edit = each("round.release", lambda line: line["sealed"].pop("norm_largest"))
    report = audit_budget(forged(runs["plain"], tmp_path / "forged", edit))
    assert "stripped-commitments" in {hazard.id for hazard in report.hazards}
