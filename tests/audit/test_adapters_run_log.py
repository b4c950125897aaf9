"""`RunLog`: a training loop of somebody else leaves a log that the audits take."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.records import Randomness
from privplan.audit.adapters.noise_states import STATES_FILE
from privplan.audit.adapters.training_plan import StepFacts
from privplan.audit.attack import attack
from privplan.audit.attack.report import AttackRequest
from privplan.audit.budget import audit_budget
from privplan.audit.configuration.first_line import missing_from_first_line
from privplan.audit.verify import verify
from privplan.fl.log import Sidecar
from privplan.fl.log.hash_chain import LOG, SEALED

from .logs import rechained

SETTINGS: dict[str, Any] = {
    "steps": 250,
    "noise_multiplier": 1.0,
    "clip": 2.0,
    "delta": 1e-5,
    "rate": 0.01,
    "rate_source": "published",
    "divisor": 256.0,
}
OF_RECORDS = {"rate": None, "rate_source": "", "neighbours": "replace-one", "records": 25_600}


def plan(**changes: Any) -> pp.TrainingPlan:
    """Return a plan of 250 steps, with changes."""
    return pp.TrainingPlan(**{**SETTINGS, **changes})


def looped(
    folder: Path,
    planned: pp.TrainingPlan,
    steps: int | None = None,
    facts: Callable[[int], dict[str, Any]] = lambda _: {},
    **options: Any,
) -> Path:
    """Make a loop of so many steps under a plan, and return its folder."""
    with pp.RunLog(folder, planned, **options) as log:
        for number in range(planned.steps if steps is None else steps):
            with log.step(batch_size=200 + number, **facts(number)):
                pass
    return folder


def errors(folder: Path) -> set[str]:
    """Return the ids of what a budget audit calls an error."""
    return {each.id for each in audit_budget(folder).hazards if each.severity == "error"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"steps": 300},
        {"steps": 7, "steps_per_intent": 1},
        {**OF_RECORDS, "batch": 256},
        {**OF_RECORDS, "batch": 256, "neighbours": "zero-out"},
        {"sampling": "none", "rate": None, "noise_multiplier": 40.0},
        {"sampling": "shuffled", "rate": None, "noise_multiplier": 80.0},
        {**OF_RECORDS, "batch": 256, "sampling": "shuffled", "noise_multiplier": 80.0},
        {**OF_RECORDS, "batch": 256, "sampling": "fixed-size"},
        {"divisor": None, "epsilon": 1.0},
    ],
)
def test_right_loops_are_not_accused(tmp_path: Path, changes: dict[str, Any]) -> None:
    planned = plan(**changes)
    folder = looped(tmp_path / "out", planned)
    report = audit_budget(folder)
    assert errors(folder) == set()
    assert report.supported
    assert report.total.upper == pytest.approx(planned.guarantee.epsilon.upper, rel=1e-6)
    verified = verify(folder)
    assert verified.complete
    assert verified.opened is not None
    assert missing_from_first_line(verified.opened) == ()
    assert pp.check(folder).verdict == "holds"


def test_a_run_that_stops_early_has_what_was_planned(tmp_path: Path) -> None:
    folder = looped(tmp_path / "out", plan(), steps=130)
    report = audit_budget(folder)
    assert errors(folder) == set()
    assert "stopped-early" in {each.id for each in report.hazards}
    assert report.total.upper == pytest.approx(plan().guarantee.epsilon.upper, rel=1e-6)


def lower_noise(number: int) -> dict[str, Any]:
    """Return half of the noise from step 150 on."""
    return {"noise_multiplier": 0.5} if number >= 150 else {}


def no_noise(number: int) -> dict[str, Any]:
    """Return a step without noise."""
    return {"noise_multiplier": 0.0} if number == 99 else {}


def larger_clip(number: int) -> dict[str, Any]:
    """Return another clip from step 150 on."""
    return {"clip": 3.0} if number >= 150 else {}


def same_noise(number: int) -> dict[str, Any]:
    """Return the state of a generator that is seeded again in each step."""
    return {"state": "ab" * 32} if number in (3, 140) else {"state": f"{number:064x}"}


def differs(**changes: Any) -> Callable[[int], dict[str, Any]]:
    """Return what a program that sees its loop says of it: facts that are not the plan's."""
    seen = replace(StepFacts.of(plan()), **changes)
    return lambda _: {"facts": seen}


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (differs(sampler="shuffled"), {"shuffled-as-poisson"}),
        (differs(realised=True, divisor=None), {"realised-normaliser"}),
        (differs(sampler="none", rate=1.0, bounded=False), {"private-bound"}),
        (differs(rate=0.02), {"off-plan"}),
        (differs(batches=2), {"off-plan"}),
        (lambda number: differs(divisor=256.0 + number)(number), {"moving-normaliser"}),
        (lower_noise, {"off-plan", "more-rounds"}),
        (no_noise, {"no-noise", "off-plan"}),
        (larger_clip, {"adaptive-clip"}),
        (same_noise, {"reused-randomness"}),
    ],
)
def test_what_goes_wrong_in_a_loop_is_found(
    tmp_path: Path, facts: Callable[[int], dict[str, Any]], found: set[str]
) -> None:
    folder = looped(tmp_path / "out", plan(steps=153), facts=facts)
    assert found <= errors(folder)
    assert not audit_budget(folder).supported
    assert pp.check(folder).verdict in ("false", "unproven")


def test_a_step_beyond_the_plan_is_refused(tmp_path: Path) -> None:
    with pp.RunLog(tmp_path / "out", plan(steps=2)) as log:
        for _ in range(2):
            with log.step():
                pass
        with pytest.raises(BudgetExceeded, match="all are spent"), log.step():
            pytest.fail("the noise was drawn")


def test_the_intent_is_on_the_disk_before_the_noise(tmp_path: Path) -> None:
    with pp.RunLog(tmp_path / "out", plan()) as log:
        with log.step():
            lines = [json.loads(line) for line in (tmp_path / "out" / LOG).read_text().splitlines()]
            assert [line["type"] for line in lines] == ["run.open", "round.intent"]
            assert lines[1]["noise"]["draws"] == 100
        with log.step():
            assert len((tmp_path / "out" / LOG).read_text().splitlines()) == 2
        assert log.steps_left == 248


def test_a_run_that_is_cut_off_has_spent_what_it_announced(tmp_path: Path) -> None:
    folder, planned = tmp_path / "out", plan()

    def fails(number: int) -> dict[str, Any]:
        if number == 121:
            raise RuntimeError("the machine failed")
        return {}

    with pytest.raises(RuntimeError):
        looped(folder, planned, facts=fails)
    report = audit_budget(folder)
    assert report.dangling
    spent = pp.account(ev.Repeat(200, ev.Poisson(0.01, ev.Gaussian(1.0))), delta=1e-5).epsilon.upper
    assert report.total.upper == pytest.approx(spent, rel=1e-6)
    with pp.RunLog(folder, planned) as log:
        assert log.steps_left == 50
        for _ in range(50):
            with log.step():
                pass
    assert [each for each in audit_budget(folder).hazards if each.severity == "error"] == []
    assert audit_budget(folder).supported
    with pytest.raises(InvalidInput, match="closed"):
        pp.RunLog(folder, planned)


def test_a_run_that_goes_on_with_a_generator_of_before_draws_the_same_noise(tmp_path: Path) -> None:
    def cut_off(number: int) -> dict[str, Any]:
        if number == 20:
            raise RuntimeError("the machine failed")
        return {"state": f"state-{number}"}

    planned = plan(steps=60, steps_per_intent=10)
    for later in (15, 100):
        folder = tmp_path / str(later)
        with pytest.raises(RuntimeError):
            looped(folder, planned, facts=cut_off)
        kept = folder / STATES_FILE
        assert kept.stat().st_mode & 0o077 == 0
        kept.write_text(kept.read_text() + "torn")
        with pp.RunLog(folder, planned) as log:
            for number in range(log.steps_left):
                with log.step(state=f"state-{number + later}"):
                    pass
        if later == 15:
            assert "reused-randomness" in errors(folder)
        else:
            assert errors(folder) == set()


def test_another_plan_does_not_go_on(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), pp.RunLog(tmp_path / "out", plan()) as log, log.step():
        raise RuntimeError
    with pytest.raises(InvalidInput, match="another plan"):
        pp.RunLog(tmp_path / "out", plan(noise_multiplier=0.5))


def _numbers(value: object) -> set[float]:
    """Return all numbers in a JSON value, those too that stand as texts."""
    if isinstance(value, dict):
        return {each for part in value.values() for each in _numbers(part)}
    if isinstance(value, list):
        return {each for part in value for each in _numbers(part)}
    try:
        return {float(value)} if len(str(value)) < 20 else set()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return set()


def test_what_follows_the_data_is_sealed(tmp_path: Path) -> None:
    """The log of data with other batches has the same shape, and not one of their numbers."""
    private = {25_613, 200, 201, 202}
    folder = looped(tmp_path / "out", plan(steps=3), private={"records": 25_613})
    lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    assert private.isdisjoint(_numbers(lines))
    items = {item.name: item.value for item in Sidecar.read(folder).items}
    assert items["batch_sizes"] == [200, 201, 202]
    assert items["dataset"] == {"records": 25_613}
    assert (folder / SEALED).stat().st_mode & 0o077 == 0


def test_an_ordinary_generator_is_a_warning_and_a_seed_is_none(tmp_path: Path) -> None:
    ordinary = looped(tmp_path / "a", plan(), randomness=Randomness("operating-system", "mt19937"))
    assert errors(ordinary) == set()
    warned = {each.id: each.severity for each in audit_budget(ordinary).hazards}
    assert warned["unknown-cipher"] == "warning"
    seeded = looped(tmp_path / "b", plan(), randomness=Randomness("seeded", "mt19937"))
    assert errors(seeded) == {"seeded"}


def test_edited_logs_are_seen(tmp_path: Path) -> None:
    folder = looped(tmp_path / "out", plan(), facts=lower_noise)
    intents = [2 * number + 1 for number in range(101)]

    def more_noise(lines: list[dict[str, Any]]) -> None:
        for number in intents:
            lines[number]["noise"]["std"] = "2.0"

    rechained(folder, more_noise)
    assert errors(folder)
    fresh = looped(tmp_path / "fresh", plan())
    text = (fresh / LOG).read_text().replace('"rate":"0.01"', '"rate":"0.001"', 1)
    (fresh / LOG).write_text(text)
    assert not verify(fresh).ok


def test_an_attack_says_that_it_cannot_rehearse(tmp_path: Path) -> None:
    folder = looped(tmp_path / "out", plan())
    with pytest.raises(Unsupported, match="did not run"):
        attack(str(folder), AttackRequest(tiers=("claim",)), append=False)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rate": None, "rate_source": ""}, "`rate`"),
        ({"rate_source": " "}, "rate_source"),
        ({**OF_RECORDS, "batch": 256, "neighbours": "add-remove"}, "cannot hide"),
        ({"sampling": "fixed-size"}, "`records` and `batch`"),
        ({"delta": 0.5}, "`delta`"),
        ({"sampling": "weighted"}, "`sampling`"),
        ({"noise_multiplier": 0.0}, "`noise_multiplier`"),
        ({"steps": 0}, "`steps`"),
    ],
)
def test_a_plan_that_is_not_public_or_makes_no_sense_is_refused(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        plan(**changes)


def test_a_plan_above_its_promise_is_refused() -> None:
    with pytest.raises(BudgetExceeded, match=r"0\.9935"):
        plan(epsilon=0.9)
    assert math.isclose(plan(epsilon=1.0).promised, 1.0)


def test_a_plan_is_no_dictionary(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="TrainingPlan"):
        pp.RunLog(tmp_path / "out", SETTINGS)  # type: ignore[arg-type]


def test_metrics_say_after_each_step_what_is_spent(tmp_path: Path) -> None:
    spent: list[Any] = []
    planned = plan(steps=60, epsilon=1.0)
    looped(tmp_path / "out", planned, metrics=spent.append)
    assert [each.step for each in spent] == list(range(1, 61))
    assert all(0.0 < each.lower <= each.upper <= each.lower * 1.01 for each in spent)
    assert all(each.left == pytest.approx(1.0 - each.upper) for each in spent)
    exact = pp.account(ev.Repeat(60, ev.Poisson(0.01, ev.Gaussian(1.0))), delta=1e-5).epsilon
    assert spent[-1].lower <= exact.upper
    assert spent[-1].upper >= exact.lower


def test_metrics_of_a_loop_that_leaves_its_plan(tmp_path: Path) -> None:
    spent: list[Any] = []
    folder = looped(tmp_path / "out", plan(), facts=no_noise, metrics=spent.append, steps=101)
    assert spent[98].upper < 1.0
    assert math.isinf(spent[99].upper)
    assert spent[99].left == 0.0
    assert "no-noise" in errors(folder)


def test_metrics_go_on_behind_a_run_that_was_cut_off(tmp_path: Path) -> None:
    def fails(number: int) -> dict[str, Any]:
        if number == 5:
            raise RuntimeError("the machine failed")
        return {}

    with pytest.raises(RuntimeError):
        looped(tmp_path / "out", plan(), facts=fails)
    spent: list[Any] = []
    looped(tmp_path / "out", plan(), steps=1, metrics=spent.append)
    assert spent[0].step == 101
    proven = pp.account(ev.Repeat(101, ev.Poisson(0.01, ev.Gaussian(1.0))), delta=1e-5)
    assert spent[0].upper == pytest.approx(proven.epsilon.upper, rel=1e-3)


def test_metrics_of_other_samplers_are_those_of_the_plan(tmp_path: Path) -> None:
    spent: list[Any] = []
    planned = plan(**{**OF_RECORDS, "batch": 256, "sampling": "fixed-size", "steps": 3})
    looped(tmp_path / "out", planned, metrics=spent.append)
    assert {each.upper for each in spent} == {planned.promised}
    looped(
        tmp_path / "less", planned, facts=lambda _: {"noise_multiplier": 0.9}, metrics=spent.append
    )
    assert math.isinf(spent[-1].upper)


def test_a_loader_that_shuffles_has_no_number_after_a_step(tmp_path: Path) -> None:
    """Counted as if nothing were drawn it would lose half: who leaves moves others."""
    with pp.RunLog(tmp_path / "out", plan()) as log:
        with log.step(facts=StepFacts(2.0, 2.0, "shuffled", 0.01, divisor=256.0)):
            pass
        assert math.isinf(log.spent().upper)
