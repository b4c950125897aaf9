"""Opacus: the certified accountant, and the log that an ordinary training leaves."""

from __future__ import annotations

import importlib
import io
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("opacus", reason="the extra `opacus` is not installed")

import torch
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, LogBroken
from privplan.audit.adapters import opacus as adapter
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter, Sidecar
from privplan.fl.log.hash_chain import LOG

from .judged_trainings import errors, require_found, require_not_accused
from .opacus_processes import trained_in_two
from .opacus_suite import rows
from .opacus_trainings import BY_RECORDS, RIGHT, STEPS, Training, flat, plan, trained
from .opacus_wrong_trainings import WRONG, less_noise

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def unseeded() -> Iterator[None]:
    """Give torch a seed of its own choice, whatever tests before have seeded it with."""
    with torch.random.fork_rng(devices=[]):
        torch.seed()
        yield


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
def test_right_trainings_are_not_accused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "out")
    require_not_accused(tmp_path / "out")


@pytest.mark.parametrize(("make", "found"), WRONG.items(), ids=[make.__name__ for make in WRONG])
def test_wrong_trainings_are_found(
    tmp_path: Path, make: Callable[[Path], None], found: set[str]
) -> None:
    make(tmp_path / "out")
    require_found(tmp_path / "out", found)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_training_in_two_processes_has_one_log(tmp_path: Path, sharded: bool) -> None:
    first, second = trained_in_two(tmp_path / "out", sharded)
    assert torch.equal(first, second)
    report = audit_budget(tmp_path / "out")
    assert [each for each in report.hazards if each.severity == "error"] == []
    assert report.supported
    assert verify(tmp_path / "out").complete
    opened = json.loads((tmp_path / "out" / LOG).read_text().splitlines()[0])
    assert opened["configuration"]["loop"]["world_size"] == 2


def test_ghost_clipping_is_not_observed_without_the_module_that_clips(tmp_path: Path) -> None:
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    made.private(engine, grad_sample_mode="ghost")
    with (
        pytest.raises(InvalidInput, match="`module`"),
        pp.logged(
            engine,
            tmp_path / "out",
            plan=plan(),
            optimizer=made.optimizer,
            data_loader=made.loader,
        ),
    ):
        pytest.fail("it was observed")


def test_a_process_that_somebody_seeded_has_noise_from_a_seed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    flat(tmp_path / "out")
    assert "seeded" in errors(tmp_path / "out")


def test_a_step_beyond_the_plan_is_refused_before_its_noise(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        trained(tmp_path / "out", plan(steps=STEPS - 1))


def test_a_log_that_cannot_be_written_stops_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    drawn: list[object] = []
    noise = torch.normal

    def counted(*arguments: object, **options: object) -> object:
        drawn.append(arguments)
        return noise(*arguments, **options)  # type: ignore[call-overload]

    def fails(*_: object) -> int:
        raise LogBroken("The disk is full.")

    def broken() -> None:
        with pp.logged(engine, tmp_path / "out", plan=plan()):
            made.private(engine)
            monkeypatch.setattr(torch, "normal", counted)
            monkeypatch.setattr(LogWriter, "append", fails)
            made.epochs()

    with pytest.raises(LogBroken):
        broken()
    assert drawn == []


def test_the_log_holds_nothing_of_the_data(tmp_path: Path) -> None:
    """What two trainings on other numbers of records publish has one shape, and equal facts."""
    lines = []
    for records in (400, 397):
        folder = tmp_path / str(records)
        trained(folder, training=Training(records=records))
        lines.append([json.loads(line) for line in (folder / LOG).read_text().splitlines()])
        sealed = {item.name: item.value for item in Sidecar.read(folder).items}
        assert sealed["dataset"] == {"records": records, "rate": "0.05"}
        assert len(sealed["batch_sizes"]) == 10
    for first, second in zip(*lines, strict=True):
        for line in (first, second):
            for name in ("hash", "prev", "sealed", "streams", "run_id", "dataset", "opened"):
                line.pop(name, None)
        assert first == second


def test_three_lines_change_and_the_training_is_the_same(tmp_path: Path) -> None:
    """The observer draws nothing: the parameters are those of a training without it."""
    ends = []
    for observed in (False, True):
        torch.manual_seed(5)
        made, engine = Training(), PrivacyEngine(accountant="rdp")
        if observed:
            with pp.logged(engine, tmp_path / "out", plan=plan(**BY_RECORDS)):
                made.private(engine)
                made.epochs()
        else:
            made.private(engine)
            made.epochs()
        ends.append(torch.cat([each.detach().flatten() for each in made.model.parameters()]))
    assert torch.equal(*ends)


def test_tests_of_their_engine_pass_under_the_observer() -> None:
    """One class of theirs; `python -m tests.audit.opacus_suite` runs all of them."""
    outcomes = list(rows("PrivacyEngineCustomLayerTest."))
    assert [row for row in outcomes if row.outcome == "failed"] == []
    assert sum(row.outcome == "passed" and row.logs > 0 for row in outcomes) >= 8


def test_everything_is_taken_off_again(tmp_path: Path) -> None:
    made = trained(tmp_path / "out")
    kind = type(made.loader.batch_sampler)
    assert kind.__module__.startswith("opacus")
    assert "add_noise" not in vars(made.optimizer)
    made.epochs(1)  # no log, no refusal


def test_an_edited_log_is_seen(tmp_path: Path) -> None:
    flat(tmp_path / "out")
    log = tmp_path / "out" / LOG
    log.write_text(log.read_text().replace('"std":"1.5"', '"std":"3.0"', 1))
    assert not verify(tmp_path / "out").ok
    less_noise(tmp_path / "other")
    assert "off-plan" in errors(tmp_path / "other")


def test_what_is_no_engine_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInput, match="Nothing here observes"),
        pp.logged(object(), tmp_path / "a", plan=plan()),
    ):
        pass
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    with (
        pytest.raises(InvalidInput, match="DPOptimizer"),
        pp.logged(engine, tmp_path / "b", plan=plan(), optimizer=made.plain),
    ):
        pass
    made.private(engine)
    with (
        pytest.raises(InvalidInput, match="data_loader"),
        pp.logged(engine, tmp_path / "c", plan=plan(), optimizer=made.optimizer),
    ):
        pass


# --- the accountant -------------------------------------------------------------------------------


def test_it_is_registered_once_and_again() -> None:
    importlib.reload(adapter)
    accountant = create_accountant("privplan")
    assert accountant.mechanism() == "privplan"
    assert PrivacyEngine(accountant="privplan").get_epsilon(1e-5) == 0.0


def test_its_numbers_are_certified() -> None:
    ours, theirs = create_accountant("privplan"), PRVAccountant()
    for _ in range(300):
        for accountant in (ours, theirs):
            accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    for _ in range(100):
        ours.step(noise_multiplier=2.0, sample_rate=0.01)
        theirs.step(noise_multiplier=2.0, sample_rate=0.01)
    assert len(ours) == 400
    event = ev.Compose(
        (
            ev.Repeat(300, ev.Poisson(0.01, ev.Gaussian(1.0))),
            ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(2.0))),
        )
    )
    proven = pp.account(event, delta=1e-5).epsilon
    assert ours.get_epsilon(1e-5, refine=True) == proven.upper
    assert proven.lower <= theirs.get_epsilon(1e-5) + 0.02
    assert ours.get_epsilon(1e-5) <= theirs.get_epsilon(1e-5)


def test_epsilon_after_each_of_ten_thousand_steps() -> None:
    accountant = create_accountant("privplan")
    begun, widest = time.process_time(), 0.0
    for number in range(10_000):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        bounds = accountant.get_epsilon_bounds(1e-5)
        widest = max(widest, bounds.upper / bounds.lower - 1.0)
        if number in (99, 2_500, 9_999):
            event = ev.Repeat(number + 1, ev.Poisson(0.01, ev.Gaussian(1.0)))
            exact = pp.account(event, delta=1e-5).epsilon
            assert bounds.lower <= exact.upper
            assert exact.lower <= bounds.upper
    assert widest <= 0.01
    assert time.process_time() - begun < 10.0


def test_its_state_is_kept_and_loaded() -> None:
    accountant = create_accountant("privplan")
    for _ in range(5):
        accountant.step(noise_multiplier=1.0, sample_rate=0.05)
    kept = io.BytesIO()
    torch.save(accountant.state_dict(), kept)
    kept.seek(0)
    loaded = create_accountant("privplan")
    loaded.load_state_dict(torch.load(kept, weights_only=True))
    assert loaded.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    with pytest.raises(ValueError, match="mechanism"):
        PRVAccountant().load_state_dict(accountant.state_dict())


def test_opacus_finds_noise_with_it() -> None:
    noise = get_noise_multiplier(
        target_epsilon=2.0, target_delta=1e-5, sample_rate=0.01, steps=1000, accountant="privplan"
    )
    event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(noise)))
    assert 1.98 < pp.account(event, delta=1e-5).epsilon.upper <= 2.0


def test_no_noise_is_no_guarantee() -> None:
    accountant = create_accountant("privplan")
    accountant.step(noise_multiplier=0.0, sample_rate=0.01)
    assert math.isinf(accountant.get_epsilon(1e-5))
