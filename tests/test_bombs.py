"""Files of a few kilobytes that ask for minutes: refused before the work, or answered with less.

What is asserted are units of work and who was asked, never seconds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.ask import cap
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.work_limit import MOST_WORK, require_little_work, work_of
from privplan.audit.check import bounds
from privplan.audit.check.phase_classes import MANY, MOST_PHASE_WORK
from privplan.audit.readers import opacus
from privplan.audit.readers.history_rows import MAX_HISTORY_ROWS
from privplan.cli.main import app

from .cases import for_each
from .referee.random_events import random_event

MOST_BYTES = 10_000


def sampled(rate: float, noise: float) -> ev.Event:
    return ev.Poisson(rate, ev.Gaussian(noise))


BOMBS: dict[str, ev.Event] = {
    "groups of 99,999 and fewer": ev.Compose(
        [ev.Group(99_999 - i, ev.Repeat(1_000 + i, sampled(0.001, 5_000))) for i in range(60)]
    ),
    "capped samples": ev.Compose(
        [ev.TruncatedPoisson(0.01, 100 + i, 10_000, ev.Gaussian(1 + 0.01 * i)) for i in range(60)]
    ),
    "a group of a schedule": ev.Group(
        1_000, ev.Compose([sampled(0.001 + 1e-4 * i, 50 + i) for i in range(100)])
    ),
}


@for_each("name", list(BOMBS))
def test_a_bomb_is_refused_with_its_work_and_the_limit(name: str, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(BOMBS[name].to_json(), separators=(",", ":")))
    assert path.stat().st_size < MOST_BYTES
    for command in ("account", "explain"):
        outcome = CliRunner().invoke(app, [command, str(path), "--delta", "1e-5"])
        assert outcome.exit_code == 3
        assert f"{work_of(BOMBS[name]):,} units of work" in outcome.stderr
        assert f"{MOST_WORK:,}" in outcome.stderr


@for_each("name", list(BOMBS))
def test_a_bomb_in_a_plan_is_refused_before_anything_is_planned(name: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    event = inline_table(BOMBS[name].to_json())
    training = '[[phase]]\nname = "t"\nmechanism = "gaussian"\nrate = 0.01\nrounds = 100\n'
    path.write_text(
        f'[target]\nepsilon = 2.0\ndelta = 1e-5\n{training}[[phase]]\nname = "a"\nevent = {event}\n'
    )
    outcome = CliRunner().invoke(app, ["plan", str(path)])
    assert outcome.exit_code == 3, outcome.stderr
    assert f"{work_of(BOMBS[name]) + 1:,} units of work" in outcome.stderr


def inline_table(value: object) -> str:
    """Return JSON as TOML in one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {inline_table(each)}" for key, each in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline_table, value))}]"
    return json.dumps(value)


@for_each("name", list(BOMBS))
def test_a_bomb_in_a_check_is_asked_of_no_engine(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "bounds_on_epsilon", _never)
    monkeypatch.setattr(bounds, "account", _never)
    result = pp.check(BOMBS[name], claimed=1.0, delta=1e-5, method="poisson")
    assert result.verdict in ("unproven", "unverifiable")
    assert "units of work" in result.lacks


def _never(*_: object, **__: object) -> None:
    pytest.fail("An engine was asked.")


def test_the_limit_itself_is_let_through_and_one_more_is_not() -> None:
    within = ev.Compose([sampled(0.01, 1.0 + i) for i in range(MOST_WORK)])
    require_little_work(within)
    with pytest.raises(Unsupported, match=f"limit for a file is {MOST_WORK:,}"):
        require_little_work(ev.Compose([within, ev.Gaussian(0.5)]))


def test_equal_releases_are_one_piece_of_work() -> None:
    step = sampled(0.01, 1.0)
    assert work_of(ev.Compose([ev.Repeat(10**6, step), step, ev.Repeat(5, step)])) == 1
    assert work_of(ev.Compose(())) == 0


@for_each(
    ("more", "less"),
    [
        (ev.Group(1_000, sampled(0.01, 9.0)), ev.Group(10, sampled(0.01, 9.0))),
        (ev.Group(10, ev.Group(100, sampled(0.01, 9.0))), ev.Group(900, sampled(0.01, 9.0))),
        (ev.ShuffledBatches(9_000, ev.Gaussian(1.0)), ev.ShuffledBatches(9, ev.Gaussian(1.0))),
        (ev.Shuffle(10**6, ev.Laplace(1.0)), ev.Shuffle(100, ev.Laplace(1.0))),
        (
            ev.ClientSampled(0.1, ev.Compose([sampled(0.1, 1.0 + i) for i in range(9)])),
            ev.ClientSampled(0.1, sampled(0.1, 1.0)),
        ),
    ],
)
def test_what_is_larger_is_more_work(more: ev.Event, less: ev.Event) -> None:
    assert work_of(more) > work_of(less)


def test_what_a_group_scales_is_no_more_work() -> None:
    assert work_of(ev.Group(10**6, ev.Gaussian(1.0))) == work_of(ev.Gaussian(1.0))


def test_events_that_people_write_are_within_the_limit() -> None:
    """One release of each kind, at sizes of real runs; and 500 random ones."""
    noise = ev.Gaussian(1.0)
    for event in (
        ev.TruncatedPoisson(0.01, 10_500, 10**6, noise),
        ev.Shuffle(10**6, ev.RandomizedResponse(1.0, 2)),
        ev.ShuffledBatches(10**6, noise),
        ev.Group(100_000, sampled(0.001, 5_000.0)),
        ev.Compose([sampled(0.01, 1.0 + 0.001 * i) for i in range(1_000)]),
        ev.MatrixGaussian(1.0, ev.TreeStrategy(10_000, 2), ev.BallsInBins(1_000)),
    ):
        require_little_work(event)
    rng = random.Random(7)
    for _ in range(500):
        require_little_work(ev.from_json(json.dumps(random_event(rng))))


def _doubled(event: ev.Event) -> ev.Event:
    return ev.Compose([event, ev.Group(3, event)])


@for_each("grow", [_doubled, lambda event: ev.ClientSampled(0.5, event), lambda e: ev.Group(9, e)])
def test_nesting_makes_no_work_less(grow: Callable[[ev.Event], ev.Event]) -> None:
    event = sampled(0.01, 1.0)
    works = []
    for _ in range(10):
        works.append(work_of(event))
        event = grow(event)
    assert works == sorted(works)
    assert works[-1] < MOST_WORK * 100


# --- what is answered with less work ------------------------------------------------------------


def test_a_state_of_many_rows_under_accumulation_is_accounted_in_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[ev.Event] = []

    def cheap(event: ev.Event, **_: object) -> pp.Bounds:
        asked.append(event)
        return pp.Bounds(1.0, 2.0)

    monkeypatch.setattr(bounds, "bounds_on_epsilon", cheap)
    bounds._epsilon.cache_clear()
    state = {"history": [[1.0 + 0.01 * i, 0.01, 10] for i in range(MANY)], "mechanism": "rdp"}
    for method in ("poisson", "shuffled"):
        pp.check(state, delta=1e-5, accumulation=4, method=method)
    bounds._epsilon.cache_clear()
    assert any(isinstance(part, ev.Group) for each in asked for part in _steps(each))
    assert any(isinstance(part, ev.ShuffledBatches) for each in asked for part in _steps(each))
    assert max(map(work_of, asked)) <= MOST_PHASE_WORK


def _steps(event: ev.Event) -> list[ev.Event]:
    parts = event.events if isinstance(event, ev.Compose) else (event,)
    return [part.event if isinstance(part, ev.Repeat) else part for part in parts]


def test_no_cap_is_recommended_beside_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cap, "_harmless_caps", _never)
    caps = range(cap.MAX_CAPS_RAISED + 1)
    event = ev.Compose([ev.TruncatedPoisson(0.01, 100 + i, 10_000, ev.Gaussian(1)) for i in caps])
    (said,) = cap.cap_warnings(
        event, Composition.of(event), "add-remove", pp.Bounds(0.0, 9.0), delta=1e-5
    )
    assert "rise from" in said


@for_each("rows", [MAX_HISTORY_ROWS + 1])
def test_a_state_of_endless_rows_is_refused_before_they_are_read(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opacus, "_phase", _never)
    with pytest.raises(InvalidInput, match="at most 200,000 are read"):
        opacus._phases([(1.0, 0.01, 1)] * rows, "history")


def test_python_has_no_limit() -> None:
    """Who calls `account` with an event of their own may wait for it."""
    event = ev.Compose([ev.Gaussian(100.0 + i) for i in range(MOST_WORK + 1)])
    assert work_of(event) > MOST_WORK
    assert pp.account(event, delta=1e-5).epsilon.upper < 1.0


def test_losses_beyond_every_grid_are_left_to_renyi() -> None:
    event = ev.Compose([sampled(0.1, 1.5), ev.Repeat(10**12, ev.Gaussian(3.0))])
    with pytest.raises(Unsupported, match="too much for a grid"):
        pp.account(event, delta=1e-5, engine="pld")
    # The sum of all noisy releases is one with a millionth of the noise.
    exact = 10**12 / 18
    assert pp.account(event, delta=1e-5).epsilon.upper >= exact
