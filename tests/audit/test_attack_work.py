"""How much work an attack begins: logs that ask for too much are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.attack.tiers import (
    DEFAULT_CANARIES,
    MAX_REQUESTED_WORK,
    canary_count,
    require_feasible,
)
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from . import ledgers
from .attacked import MEMBERSHIP, Stand, configured, content, run_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of 20 rounds with noise 5, as its own code would have left its log."""
    return run_in(tmp_path / "run")


def test_a_log_cannot_ask_for_endless_work(tmp_path: Path, folder: Path) -> None:
    stand = Stand()
    with pytest.raises(InvalidInput, match="too many"):
        attack(folder, AttackRequest(canaries=MAX_REQUESTED_WORK), tier_functions=stand.tools())
    many = ledgers.opening(plan=ledgers.part(rounds=10**12))
    endless = run_in(
        tmp_path / "endless",
        change=lambda records: many(configured(run={"rounds": 10**12})(records)),
    )
    with pytest.raises(InvalidInput, match="too many"):
        attack(endless, tier_functions=stand.tools())
    assert stand.asked == []


@for_each(
    "change",
    [
        {"silos": 10**6},
        {"rounds": 10**7},
        {"system": "uldp-group", "epochs": 10**6},
        {"system": "uldp-group", "rate": 1e-300},
        {"system": "uldp-naive", "silos": 1000, "rounds": 10**4},
        {"aggregation": "masked", "silos": 1000},
        {"canaries": 10**9},
    ],
)
def test_work_without_end_is_refused(change: dict[str, Any]) -> None:
    own = parse(content(), "run.toml")
    own = replace(
        own,
        run=replace(
            own.run, system=change.get("system", "uldp-avg"), rounds=change.get("rounds", 20)
        ),
        security=replace(own.security, aggregation=change.get("aggregation", "plain")),
        training=replace(own.training, local_epochs=change.get("epochs", 10)),
        table=replace(own.table, record_rate=change.get("rate")),
    )
    with pytest.raises(InvalidInput, match="too many"):
        canary_count(own, change.get("silos", 5), rounds=None, requested=change.get("canaries"))


def test_membership_makes_no_replicas_without_end(folder: Path) -> None:
    own = parse(content(), "run.toml")
    require_feasible(own, 5)
    for name, change in (("rounds", own.run), ("local_epochs", own.training)):
        table = "run" if name == "rounds" else "training"
        with pytest.raises(InvalidInput, match="made again many times"):
            require_feasible(replace(own, **{table: replace(change, **{name: 10**9})}), 5)
    stand = Stand()
    attack(folder, replace(MEMBERSHIP, confidence=0.99), tier_functions=stand.tools())
    assert stand.call("membership")["alpha"] == pytest.approx(0.01)


def test_what_people_ask_for_is_not_refused() -> None:
    own = parse(content(), "run.toml")
    assert canary_count(own, 5, rounds=None, requested=100_000) == 100_000
    large = replace(own, run=replace(own.run, rounds=1_000))
    assert canary_count(large, 100, rounds=None, requested=None) >= 2_000
    assert canary_count(large, 5, rounds=10, requested=None) == DEFAULT_CANARIES


@for_each(
    ("system", "more", "canaries"),
    [("uldp-naive", "", 1_000), ("uldp-avg", "[security]\naggregation = 'private-weighting'", 200)],
)
def test_fewer_canaries_are_used_where_each_costs_more(
    system: str, more: str, canaries: int
) -> None:
    own = parse((content(system=system).decode() + more).encode(), "run.toml")
    assert canary_count(own, 5, rounds=None, requested=None) == canaries


def test_fewer_canaries_are_used_for_many_rounds(tmp_path: Path) -> None:
    def longer(records: ledgers.Records) -> ledgers.Records:
        planned = ledgers.opening(plan=ledgers.part(rounds=10**5))
        return planned(configured(run={"rounds": 10**5})(records))

    folder, stand = (
        run_in(tmp_path / "run", change=longer),
        Stand(rehearse=Unsupported("AttackRequest.")),
    )
    with pytest.raises(Unsupported):
        attack(folder, AttackRequest(tiers=("claim",)), tier_functions=stand.tools())
    assert stand.call("rehearse")["canaries"] == DEFAULT_CANARIES // 2**6
