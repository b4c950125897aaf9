"""Flower: the log that an ordinary run of one of its strategies for privacy leaves.

In the second environment, with the extra `flower`; elsewhere these are skipped.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from flwr.app import Context, Message
from flwr.client.mod import LocalDpMod as EarlierLocalDpMod
from flwr.clientapp.mod import LocalDpMod
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat
from flwr.server import strategy as earlier
from flwr.serverapp import strategy as current
from flwr.supercore import differential_privacy
from flwr.supercore.privacy_accounting import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyConfig,
    SamplingMethod,
)
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, LogBroken
from privplan.audit.adapters.flower import local_plan, logged_mod
from privplan.audit.adapters.flower_observer import seeded_by_a_number
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter, Sidecar
from privplan.fl.log.hash_chain import LOG

from . import flower_trainings as runs
from . import flower_wrong_trainings as wrong
from .flower_trainings import BATCH, CLIP, NOISE, RIGHT, ROUNDS, fedavg, plan, server_side
from .flower_wrong_trainings import WRONG
from .judged_trainings import errors, require_found, require_not_accused
from .logs import rechained

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def unseeded() -> Iterator[None]:
    """Give numpy and random seeds of their own choice, whatever tests before have given them."""
    np.random.seed()
    random.seed()
    yield
    np.random.seed()


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
def test_right_runs_are_not_accused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "out")
    require_not_accused(tmp_path / "out")


@pytest.mark.parametrize(("make", "found"), WRONG.items(), ids=[make.__name__ for make in WRONG])
def test_wrong_runs_are_found(
    tmp_path: Path, make: Callable[[Path], None], found: set[str]
) -> None:
    make(tmp_path / "out")
    require_found(tmp_path / "out", found)


def test_the_number_is_that_of_clients_drawn_without_replacement(tmp_path: Path) -> None:
    runs.clipped_at_the_server(tmp_path / "out")
    drawn = ev.Repeat(ROUNDS, ev.FixedSize(BATCH, runs.CLIENTS, ev.Gaussian(NOISE)))
    proven = pp.account(drawn, delta=1e-3, neighbours="replace-one").epsilon
    assert audit_budget(tmp_path / "out").total.upper == pytest.approx(proven.upper, rel=1e-6)


def test_flowers_own_number_is_below_the_truth_where_nearly_all_are_drawn() -> None:
    """One client more takes the place of another: the sum moves by two clips, and it counts one."""
    config = PrivacyConfig(
        1e-5, 11, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION
    )
    accountant = RdpAccountant(config)
    accountant.compose(GaussianPrivacyEvent(1.0, 10, 11))
    theirs = accountant.get_epsilon(1e-5)
    event = ev.FixedSize(10, 11, ev.Gaussian(1.0))
    proven = pp.account(event, delta=1e-5, neighbours="add-remove").epsilon
    assert theirs < 5.0 < 9.85 < proven.lower


def test_the_page_of_a_run_of_flower(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    from privplan.audit.report import read, render

    wrong.weighted(tmp_path / "out")
    page = render(read(tmp_path / "out"))
    assert "No public bound holds of what a unit adds" in page


@pytest.mark.parametrize("lost", [1, 4, 9])
def test_noise_for_more_replies_than_came_is_never_overstated(tmp_path: Path, lost: int) -> None:
    """With r of 10 replies the mean has the noise of 10, and the sum r/10 of it."""
    runs.started(tmp_path / "out", server_side(), lost=lost)
    stated = [
        float(line["noise"]["std"])
        for line in map(json.loads, (tmp_path / "out" / LOG).read_text().splitlines())
        if line["type"] == "round.intent"
    ]
    most = NOISE * CLIP * (BATCH - lost) / BATCH
    assert len(stated) == ROUNDS
    assert all(most / 2.0 < each <= most for each in stated)


@pytest.mark.parametrize("start", [runs.clipped_at_the_server, runs.earlier_server_side])
def test_the_intent_is_on_the_disk_before_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[Path], None]
) -> None:
    normal, counts = np.random.normal, []

    def drawn(*arguments: Any, **options: Any) -> Any:
        text = (tmp_path / "out" / LOG).read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        counts.append(
            sum(line["noise"]["draws"] for line in lines if line["type"] == "round.intent")
        )
        return normal(*arguments, **options)

    monkeypatch.setattr(np.random, "normal", drawn)
    start(tmp_path / "out")
    assert counts == [2, 2, 4, 4]


def test_the_count_of_an_adapting_clip_is_announced_before_it_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    normal, last = np.random.normal, []

    def drawn(*arguments: Any, **options: Any) -> Any:
        lines = (tmp_path / "out" / LOG).read_text().splitlines()
        intents = [line for line in map(json.loads, lines) if line["type"] == "round.intent"]
        last.append((intents[-1]["phase"], float(intents[-1]["noise"]["std"])))
        return normal(*arguments, **options)

    monkeypatch.setattr(np.random, "normal", drawn)
    wrong.adaptive(tmp_path / "out")
    assert [phase for phase, _ in last] == ["clip-count", "training"] * ROUNDS
    assert {std for phase, std in last if phase == "clip-count"} == {5.0}


def test_noise_of_an_adapting_clip_is_that_of_the_clip_after_its_update(tmp_path: Path) -> None:
    """Updates were clipped to the norm before: where it fell, the noise is too small for them."""
    wrong.adaptive(tmp_path / "out")
    sums = [
        line
        for line in map(json.loads, (tmp_path / "out" / LOG).read_text().splitlines())
        if line["type"] == "round.intent" and line["phase"] == "training"
    ]
    wrapper = current.DifferentialPrivacyServerSideAdaptiveClipping
    planned = wrapper(fedavg(), NOISE, BATCH, CLIP, clipped_count_stddev=5.0).noise_multiplier
    bounds = [float(line["contribution"]["bound"]) for line in sums]
    stds = [float(line["noise"]["std"]) for line in sums]
    for std, bound in zip(stds, bounds[1:], strict=False):
        assert std == pytest.approx(planned * bound, rel=1e-9)
    assert bounds[0] == CLIP


def test_a_log_that_cannot_be_written_stops_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []

    def fails(*_: object) -> int:
        raise LogBroken("The disk is full.")

    monkeypatch.setattr(LogWriter, "append", fails)
    monkeypatch.setattr(np.random, "normal", lambda *arguments: drawn.append(arguments))
    with pytest.raises(LogBroken):
        runs.clipped_at_the_server(tmp_path / "out")
    assert drawn == []


def test_a_round_beyond_the_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        runs.started(tmp_path / "out", server_side(), rounds=ROUNDS + 1)


def test_the_observer_changes_nothing_and_is_taken_off_again(tmp_path: Path) -> None:
    ends = []
    for observed in (False, True):
        np.random.seed(7)
        random.seed(7)
        strategy = server_side()
        if observed:
            result = runs.started(tmp_path / "out", strategy)
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pp, "logged", lambda *_, **__: pytest.MonkeyPatch.context())
                result = runs.started(tmp_path / "out", strategy)
        ends.append(next(iter(result.arrays.values())).numpy())
        assert set(vars(strategy)).isdisjoint(("configure_train", "aggregate_train"))
    assert np.array_equal(*ends)
    module = current.dp_fixed_clipping
    assert module.add_gaussian_noise_inplace is differential_privacy.add_gaussian_noise_inplace


def test_who_replied_is_sealed_and_the_log_holds_nothing_of_the_clients(tmp_path: Path) -> None:
    lines = []
    for step in (0.3, 0.002):
        folder = tmp_path / str(step)

        def reply(client: int, x: Any, step: float = step) -> Any:
            return x + np.float32(step * client), 1.0

        runs.started(folder, server_side(), reply=reply)
        lines.append([json.loads(line) for line in (folder / LOG).read_text().splitlines()])
        sealed = {item.name: item.value for item in Sidecar.read(folder).items}
        assert sealed["batch_sizes"] == [BATCH, BATCH]
    for first, second in zip(*lines, strict=True):
        for line in (first, second):
            for name in ("hash", "prev", "sealed", "streams", "run_id", "dataset", "opened"):
                line.pop(name, None)
        assert first == second


def test_edited_logs_are_seen(tmp_path: Path) -> None:
    wrong.less_noise(tmp_path / "out")

    def more_noise(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line["type"] == "round.intent":
                line["noise"]["std"] = repr(NOISE * CLIP)

    rechained(tmp_path / "out", more_noise)
    assert errors(tmp_path / "out")
    runs.clipped_at_the_server(tmp_path / "fresh")
    log = tmp_path / "fresh" / LOG
    log.write_text(log.read_text().replace('"batch":10', '"batch":5', 1))
    assert not verify(tmp_path / "fresh").ok


@pytest.mark.parametrize(
    ("strategy", "changes", "says"),
    [
        (fedavg, {}, "Nothing here observes"),
        (server_side, {"unit": "record"}, "for clients"),
        (server_side, {"batch": None, "sampling": "none"}, "`batch`"),
        (server_side, {"sampling": "none", "neighbours": "add-remove"}, "number of replies"),
    ],
)
def test_what_no_strategy_can_keep_is_refused(
    tmp_path: Path, strategy: Callable[[], Any], changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        runs.started(tmp_path / "out", strategy(), plan(**changes))
    assert not (tmp_path / "out").exists()


def test_the_deprecated_wrapper_is_refused(tmp_path: Path) -> None:
    strategy = earlier.DPFedAvgFixed(runs.earlier_fedavg(), BATCH, CLIP)
    with pytest.raises(InvalidInput, match="deprecated"):
        runs.fitted(tmp_path / "out", strategy)


# --- noise at each client -------------------------------------------------------------------------


def test_messages_of_a_client_add_up_in_a_log_of_its_own(tmp_path: Path) -> None:
    runs.local(tmp_path)
    planned = local_plan(LocalDpMod(CLIP, CLIP, 0.05, 1e-3), steps=ROUNDS, delta=1e-3)
    for node in ("1", "2"):
        report = audit_budget(tmp_path / node)
        assert [each for each in report.hazards if each.severity == "error"] == []
        assert report.total.upper == pytest.approx(planned.guarantee.epsilon.upper, rel=1e-6)


def test_a_mod_of_the_earlier_interface(tmp_path: Path) -> None:
    """It lets pass what is no training; that is no message of the plan, and costs nothing."""
    mod = EarlierLocalDpMod(CLIP, CLIP, 0.05, 1e-3)
    private = logged_mod(mod, tmp_path, plan=local_plan(mod, steps=1, delta=1e-3))
    sent, after = (
        ndarrays_to_parameters([np.full(4, value, dtype=np.float32)]) for value in (0.0, 1.0)
    )

    def trained(message: Message, _: Context) -> Message:
        reply = FitRes(Status(Code.OK, ""), after, 1, {})
        return Message(compat.fitres_to_recorddict(reply, keep_input=True), reply_to=message)

    content = compat.fitins_to_recorddict(FitIns(sent, {}), keep_input=True)
    context = Context(1, 7, {}, content, {})
    for kind in ("evaluate", "train"):
        message = Message(content, dst_node_id=7, message_type=kind)
        message.metadata.__dict__["_message_id"] = "1"
        private(message, context, trained)
        assert (tmp_path / "7").exists() == (kind == "train")
    assert errors(tmp_path / "7") == set()


def test_a_mod_that_promises_more_than_its_noise_is_refused() -> None:
    mod = LocalDpMod(1.0, 0.1, 1.0, 1e-5)  # a sensitivity that is not that of the clip
    with pytest.raises(BudgetExceeded):
        local_plan(mod, steps=1, delta=1e-5, epsilon=1.0)


def test_a_mod_with_less_noise_than_planned_is_found(tmp_path: Path) -> None:
    planned = local_plan(LocalDpMod(CLIP, CLIP, 0.5, 1e-3), steps=ROUNDS, delta=1e-3)
    mod = logged_mod(LocalDpMod(CLIP, CLIP, 1.0, 1e-3), tmp_path, plan=planned)
    runs.sent(mod, 1)
    assert "off-plan" in errors(tmp_path / "1")


def test_a_message_beyond_the_plan_is_not_sent(tmp_path: Path) -> None:
    planned = local_plan(LocalDpMod(CLIP, CLIP, 0.5, 1e-3), steps=1, delta=1e-3)
    mod = logged_mod(LocalDpMod(CLIP, CLIP, 0.5, 1e-3), tmp_path, plan=planned)
    runs.sent(mod, 1)
    with pytest.raises(BudgetExceeded):
        runs.sent(mod, 1)


def test_another_mod_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="LocalDpMod"):
        logged_mod(runs.fixedclipping_mod, tmp_path, plan=plan())


@pytest.mark.parametrize("drawn", [0, 1, 624, 200_000])
def test_a_seed_is_found_in_the_state_that_it_led_to(drawn: int) -> None:
    np.random.seed(20_261_130)
    np.random.normal(size=drawn)
    assert seeded_by_a_number()
    np.random.seed()
    np.random.normal(size=drawn)
    assert not seeded_by_a_number()
