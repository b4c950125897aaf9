"""A budget of work: descriptions that leave too much open are refused before any is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privplan import check
from privplan.accountant import events as ev
from privplan.accountant.event_tree import events_inside
from privplan.accountant.work_limit import work_of
from privplan.audit.check import bounds, proving
from privplan.audit.check.check_result import CheckResult
from privplan.audit.check.proving import MOST_CHECK_WORK

from ..cases import for_each

OPEN_USERS = """\
[claim]
epsilon = 1.2
delta = 1e-5
unit = "user"
[noise]
noise_multiplier = 1.1
[sampling]
batch = 256
[data]
records = 60000
records_per_user = 5
[schedule]
epochs = 15
accumulation = 8
microbatches = 64
restarts = 3
[tuning]
runs = 5
[[releases]]
what = "x"
noise_multiplier = 3.0
count = 10
"""


def history(rows: int) -> str:
    """Return the state of an accountant: phases of noise multiplier, rate and steps."""
    phases = [[round(1.0 + i / 100, 2), round((i + 1) / 1000, 3), 1000] for i in range(rows)]
    return json.dumps({"history": phases, "mechanism": "rdp"})


CLAIM: dict[str, Any] = {"claimed": 2.0, "delta": 1e-5}
STARTS: dict[str, Any] = {"accumulation": 4, "restarts": 3, "records_per_user": 5}
TOO_MUCH: dict[str, tuple[str, str, dict[str, Any]]] = {
    "open users": ("a.toml", OPEN_USERS, {}),
    "many phases": ("b.json", history(20), CLAIM),
    "many phases of users": (
        "b.json",
        history(20),
        {**CLAIM, "unit": "user", "records_per_user": 5},
    ),
    "few phases of clients": (
        "c.json",
        history(3),
        {**CLAIM, "users": 100, "records_per_user": 5, "clients_rate": 0.3},
    ),
    "few phases of starts": ("c.json", history(4), CLAIM | STARTS),
    "few phases of a loader": (
        "c.json",
        history(4),
        {**CLAIM, "records": 100_000, "accumulation": 8, "restarts": 3},
    ),
}


@pytest.fixture
def accounted(monkeypatch: pytest.MonkeyPatch) -> list[ev.Event]:
    """Return the events that bounds are asked for from now on; none is known from before."""
    asked: list[ev.Event] = []
    ask = bounds.bounds_on_epsilon

    def counting(event: ev.Event, *how: Any, **more: Any) -> Any:
        asked.append(event)
        return ask(event, *how, **more)

    bounds._epsilon.cache_clear()
    monkeypatch.setattr(bounds, "bounds_on_epsilon", counting)
    return asked


def of_file(tmp_path: Path, name: str, content: str, **facts: Any) -> CheckResult:
    (tmp_path / name).write_text(content)
    return check(str(tmp_path / name), **facts)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", list(TOO_MUCH))
def test_what_leaves_too_much_open_is_refused_before_anything_is_accounted_for(
    tmp_path: Path, accounted: list[ev.Event], name: str, strict: bool
) -> None:
    file, content, facts = TOO_MUCH[name]
    result = of_file(tmp_path, file, content, **facts, strict=strict)
    assert accounted == []
    assert f"the limit is {MOST_CHECK_WORK:,}" in result.lacks
    assert result.proven is not None
    assert (result.proven.lower, result.proven.upper) == (0.0, float("inf"))
    assert not result.verdict.startswith("holds")
    assert result.verdict != "false"
    if "sampling" not in content and "method" not in facts:
        assert [each.key for each in result.missing if each.deciding] == ["sampling.method"]


def test_a_sampler_makes_the_same_phases_little_work(
    tmp_path: Path, accounted: list[ev.Event]
) -> None:
    result = of_file(tmp_path, "b.json", history(20), **CLAIM, method="poisson")
    assert result.proven is not None
    assert 0.0 < result.proven.lower <= result.proven.upper < float("inf")
    # That events are counted here is what the other tests rest on.
    assert 0 < sum(map(work_of, set(accounted))) <= 40


@for_each(
    "rows, facts",
    [
        (1, {"method": "shuffled", "records": 100_000}),
        (3, {"method": "poisson", "accumulation": 4}),
        (3, {"method": "poisson", "unit": "user", "records_per_user": 5}),
    ],
)
def test_a_budget_counts_what_is_then_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, facts: dict[str, Any]
) -> None:
    counted: list[int] = []
    work = proving._work_of

    def counting(event: ev.Event) -> int:
        counted.append(work(event))
        return counted[-1]

    asked: list[ev.Event] = []
    ask = bounds.bounds_on_epsilon

    def asking(event: ev.Event, *how: Any, **more: Any) -> Any:
        asked.append(event)
        return ask(event, *how, **more)

    bounds._epsilon.cache_clear()
    monkeypatch.setattr(proving, "_work_of", counting)
    monkeypatch.setattr(bounds, "bounds_on_epsilon", asking)
    of_file(tmp_path, "c.json", history(rows), **CLAIM, neighbours="add-remove", **facts)
    assert 0 < sum(map(work_of, set(asked))) <= sum(counted)


LONG = {
    "noise": {"noise_multiplier": 0.3, "clip": 0.1, "clip_source": "constant"},
    "data": {"records": 549_367},
    "sampling": {"method": "shuffled", "batch": 32},
    "schedule": {"epochs": 1_000_000, "accumulation": 4},
}


def test_what_other_settings_would_prove_is_asked_only_where_it_is_little_work(
    accounted: list[ev.Event],
) -> None:
    """Poisson batches of as many steps leave 28 runs open, each on the largest grids."""
    claim = {"epsilon": 20.7, "delta_rule": "1/batches", "library": "opacus"}
    result = check({"claim": claim, **LONG})
    assert result.verdict == "false"
    assert 0 < sum(map(proving._work_of, set(accounted))) <= MOST_CHECK_WORK
    short = {**LONG, "schedule": {"epochs": 10, "accumulation": 4}}
    causes = {each.id: each for each in check({"claim": claim, **short}).causes}
    assert "Poisson sampling would prove" in causes["shuffled-loader"].says


def test_many_releases_of_different_laplace_noise_are_refused(accounted: list[ev.Event]) -> None:
    """130 of them, in 8 kB of text, took 32 s: their losses add up to ever more values."""
    few, many = (
        ev.Compose([ev.Laplace(1.0 + index / 10) for index in range(count)]) for count in (10, 130)
    )
    assert work_of(few) < 100
    assert work_of(many) > MOST_CHECK_WORK
    releases = [
        {"what": f"r{index}", "family": "laplace", "noise_multiplier": 1.0 + index / 10}
        for index in range(130)
    ]
    result = check(
        {
            "claim": {"epsilon": 3.0, "delta": 1e-5},
            "noise": {"noise_multiplier": 1.03},
            "sampling": {"method": "poisson", "rate": 0.013},
            "schedule": {"steps": 100},
            "releases": releases,
        }
    )
    assert all(work_of(event) < 100 for event in accounted)
    assert result.proven is not None
    assert result.proven.upper == float("inf")


def test_noise_on_many_listed_integers_is_refused(
    tmp_path: Path, accounted: list[ev.Event]
) -> None:
    """40 of them, in 4 kB of text, took 24 s and 3.4 GB: each lists two million integers."""
    releases = [ev.TruncatedDiscreteGaussian(200.0 + i, 1000, 1_000_000) for i in range(40)]
    content = json.dumps(ev.Compose(releases).to_json())
    result = of_file(tmp_path, "a.json", content, **CLAIM, method="full", unit="record")
    assert accounted == []
    assert result.proven is not None
    assert result.proven.upper == float("inf")
    assert "limit" in result.lacks
    # A sum of little numbers stays little work.
    few = [ev.TruncatedDiscreteGaussian(20.0 + i, 10, 1_000) for i in range(40)]
    assert work_of(ev.Compose(few)) < MOST_CHECK_WORK


@for_each(
    "event, at_least",
    [
        (ev.TruncatedDiscreteGaussian(200.0, 1000, 1_000_000), 200),
        (ev.Group(1000, ev.TruncatedDiscreteGaussian(200.0, 1000, 500_000)), 300),
        (ev.DiscreteGaussian(1.0, 20_000), 150),
        (ev.DiscreteLaplace(1.0, 1_000_000), 200),
        (ev.Compose([ev.Poisson(0.01, ev.Gaussian(0.02 + i / 9999)) for i in range(60)]), 2_000),
        (ev.Compose([ev.WithReplacement(100 + i, 10**6, ev.Gaussian(1.0)) for i in (1, 2)]), 120),
    ],
)
def test_long_lists_and_long_losses_are_more_work(event: ev.Event, at_least: int) -> None:
    assert work_of(event) >= at_least


@for_each(
    "rows, facts",
    [
        (30, {"method": "with-replacement", "records": 1_000_000}),
        (
            60,
            {
                "method": "poisson",
                "neighbours": "replace-one",
                "unit": "user",
                "records_per_user": 50,
            },
        ),
    ],
)
def test_dear_phases_are_accounted_in_few_classes(
    tmp_path: Path, accounted: list[ev.Event], rows: int, facts: dict[str, Any]
) -> None:
    """30 rows of draws with replacement took 39 s, and 60 of users of 50 records 20 s."""
    phases = [[1.0 + i / 97, 0.01 + i / 9999, 10 + i] for i in range(rows)]
    accounted.clear()
    content = json.dumps({"history": phases, "mechanism": "rdp"})
    result = of_file(tmp_path, "a.json", content, **CLAIM, **facts)
    assert result.proven is not None
    assert 0.0 < result.proven.lower <= result.proven.upper < float("inf")
    assert sum(map(work_of, set(accounted))) <= MOST_CHECK_WORK
    dear = [event for event in accounted if _is_dear(event)]
    assert dear
    assert all(len(event.events) <= 20 for event in dear if isinstance(event, ev.Compose))


def _is_dear(event: ev.Event) -> bool:
    inside = events_inside(event)
    little = any(isinstance(each, ev.Gaussian) and each.noise_multiplier < 0.05 for each in inside)
    return little or any(isinstance(each, ev.WithReplacement) for each in inside)
