"""Batches of what nobody counted contradict nothing, and a true fact more never widens the ends.

The runs are made here, whole and without contradiction; a description is a part of one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

import privplan as pp
from privplan.audit.check.check_result import CheckResult

from ..cases import for_each

CLAIM = {"delta": 1e-5, "neighbours": "add-remove"}
METHODS = ("poisson", "shuffled", "fixed-size", "with-replacement", "full")

SATISFIABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a batch of records beside few users": (
        {"claim.unit": "record", "data.users": 5, "sampling.batch": 32},
        {"data.records": 320},
    ),
    "a rate of records that nobody counted": (
        {
            "claim.unit": "user",
            "data.users": 100,
            "data.records_per_user": 2,
            "sampling.sampled": "records",
            "sampling.batch": 8,
            "sampling.rate": 0.04,
        },
        {"data.records": 200},
    ),
    "all of some users in silos": (
        {
            "claim.unit": "silo",
            "sampling.sampled": "users",
            "sampling.method": "full",
            "sampling.batch": 10,
            "data.records": 999,
        },
        {"data.users": 10},
    ),
    "half of the silos, that nobody counted": (
        {
            "claim.unit": "silo",
            "sampling.method": "poisson",
            "sampling.batch": 10,
            "sampling.rate": 0.5,
            "data.records": 999,
        },
        {"data.silos": 20},
    ),
    "one step over all users, that nobody counted": (
        {
            "claim.unit": "user",
            "sampling.sampled": "users",
            "sampling.batch": 20,
            "data.records": 60,
            "schedule.epochs": 1,
            "schedule.steps": 1,
        },
        {"data.users": 20},
    ),
    "more records in a batch than there are users": (
        {
            "claim.unit": "user",
            "data.users": 20,
            "data.records_per_user": 5,
            "sampling.sampled": "records",
            "sampling.batch": 43,
        },
        {"data.records": 86},
    ),
}


def checked(facts: Mapping[str, Any]) -> CheckResult:
    run: dict[str, dict[str, Any]] = {"claim": dict(CLAIM), "noise": {"noise_multiplier": 1.0}}
    for key, value in facts.items():
        table, _, name = key.partition(".")
        run.setdefault(table, {})[name] = value
    return pp.check(run)


def contradicts(result: CheckResult) -> bool:
    return any(cause.id == "contradiction" for cause in result.causes)


@for_each("name", list(SATISFIABLE))
def test_a_run_whose_population_nobody_counted_is_no_contradiction(name: str) -> None:
    facts, counted = SATISFIABLE[name]
    facts = {"sampling.method": "poisson", "schedule.steps": 3, **facts}
    assert not contradicts(checked(facts))
    assert not contradicts(checked({**facts, **counted}))


def test_what_no_population_has_is_refused_or_a_contradiction() -> None:
    users = {"claim.unit": "user", "data.users": 20, "sampling.batch": 143}
    with pytest.raises(pp.errors.InvalidInput, match="143 cannot be drawn from 20 users of 5"):
        checked({**users, "data.records_per_user": 5, "sampling.sampled": "records"})
    with pytest.raises(pp.errors.InvalidInput, match="143 cannot be drawn from 20 users"):
        checked({**users, "sampling.sampled": "users"})
    said = {"claim.unit": "user", "data.users": 20, "data.records": 60, "sampling.batch": 10}
    assert contradicts(checked({**said, "sampling.rate": 0.3, "schedule.steps": 3}))
    assert contradicts(checked({**said, "sampling.method": "full", "schedule.steps": 3}))


def a_run(draw: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is said of a run in any case, and the other facts that are true of it."""
    unit, method = draw.choice(("record", "user", "user", "silo")), draw.choice(METHODS)
    users, of_user = draw.choice((5, 20, 60, 100)), draw.choice((1, 2, 5))
    records, silos = draw.randint(users, users * of_user), draw.choice((2, 5, 10))
    sampled = "records" if unit == "record" else draw.choice(("users", "records"))
    units = users if unit == "user" else silos
    size = records if sampled == "records" else units
    batch = size if method == "full" else draw.randint(1, max(1, size // draw.choice((1, 2, 5))))
    always: dict[str, Any] = {"claim.unit": unit, "schedule.steps": draw.choice((1, 5, 12))}
    facts: dict[str, Any] = {"data.records": records, "sampling.method": method}
    facts |= {"sampling.batch": batch, "sampling.rate": batch / size}
    if unit != "record":
        facts |= {"sampling.sampled": sampled}
    if unit == "user":
        always["data.records_per_user"] = of_user
        facts |= {"data.users": users, "noise.clip_bounds": draw.choice(("unit", "record"))}
    elif unit == "silo":
        facts["data.silos"] = silos
    return always, facts


@for_each("seed, runs", [(36_010, 30), pytest.param(36_011, 130, marks=pytest.mark.slow)])
def test_a_true_fact_more_contradicts_nothing_and_moves_no_end_outwards(
    seed: int, runs: int
) -> None:
    """Whoever states one more fact of a run learns no less of it.

    Lower ends that are small may move by what rounding to whole batches takes.
    """
    draw = random.Random(seed)
    compared = 0
    for _ in range(runs):
        always, facts = a_run(draw)
        order = draw.sample(sorted(facts), len(facts))
        cut = draw.randint(1, len(order) - 1)
        before = checked({**always, **{key: facts[key] for key in order[:cut]}})
        after = checked({**always, **{key: facts[key] for key in order[: cut + 1]}})
        assert not contradicts(before), facts
        assert not contradicts(after), facts
        if before.proven is None or after.proven is None:
            continue
        compared += 1
        assert after.proven.upper <= before.proven.upper * 1.001 + 1e-4, (always, facts, order, cut)
        assert after.proven.lower >= before.proven.lower * 0.999 - 1e-4, (always, facts, order, cut)
    assert compared > 0.6 * runs
