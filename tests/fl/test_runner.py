"""Whole runs with the real log: what they leave, and that nothing that stops them can hurt."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.audit.verify import verify
from privplan.fl.files import atomic
from privplan.fl.frame.model import model_digest
from privplan.fl.log import LogWriter, Sealed, read
from privplan.fl.running.checkpoint import CHECKPOINT, MODEL, Checkpoint
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.session import RunResult, carry_out
from privplan.fl.settings.schema import (
    DataSettings,
    PrivacySettings,
    RunSettings,
    Settings,
    TrainingSettings,
)

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)

SMALL = Settings(
    run=RunSettings(system="uldp-avg", rounds=3),
    data=DataSettings(name="breast-cancer", users=6, silos=2),
    privacy=PrivacySettings(noise_multiplier=5.0),
    training=TrainingSettings(
        clip=0.1,
        local_rate=0.1,
        global_rate=2.0,
        local_epochs=1,
        batch=64,
        model="logistic",
    ),
)


def changed(own: Settings = SMALL, **tables: Mapping[str, object]) -> Settings:
    """Return settings with some keys changed, by table."""
    new = {name: replace(getattr(own, name), **keys) for name, keys in tables.items()}
    return replace(own, **new)  # type: ignore[arg-type]


def started(settings: Settings, folder: Path, **more: Any) -> RunResult:
    """Make a whole run."""
    prepared = prepare(settings)
    with LogWriter.create(folder) as writer:
        return carry_out(prepared, folder, writer, **more)


def resumed(settings: Settings, folder: Path, **more: Any) -> RunResult:
    """Go on with a run that was cut off."""
    prepared = prepare(settings, segment=verify(folder).recoveries + 1)
    writer, progress = LogWriter.resume(folder, randomness=randomness(settings))
    with writer:
        return carry_out(prepared, folder, writer, progress=progress, **more)


def kinds(folder: Path) -> list[str]:
    return [line.record.type for line in read(folder)]


def of(folder: Path, kind: type[Any]) -> list[Any]:
    return [line.record for line in read(folder) if isinstance(line.record, kind)]


def require_whole(folder: Path, planned: int = 3) -> None:
    """Require what must hold of every run that came to its end, however often it was cut off."""
    found = verify(folder)
    assert found.complete, found.problem
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    (close,) = of(folder, records.RunClose)
    assert [one.round for one in intents] == list(range(1, planned + 1))
    assert close.rounds == len(releases) <= planned
    outs = {one.model_out for one in releases}
    kept = Checkpoint.read(folder / MODEL)
    first = intents[0].model_in
    assert model_digest(kept.parameters) == close.model
    assert close.model in outs | {first}
    for intent in intents:  # every round starts from the first model, or from a released one
        assert intent.model_in in outs | {first}
    names = {path.name for path in folder.iterdir()}
    assert names >= {"log.jsonl", "sealed.jsonl", MODEL, "metrics.json"}
    assert not [name for name in names if name.endswith(".part") or name == CHECKPOINT]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["released"] == len(releases)
    assert metrics["rounds"][-1]["round"] == kept.round
    reading = metrics["rounds"][-1]["epsilon_so_far"]
    if kept.round == planned and reading:  # what was begun and lost is counted as well
        assert reading["model"] == pytest.approx(metrics["guarantees"]["model"]["epsilon"])


# -- a whole run --------------------------------------------------------------------------------


def test_a_run_leaves_what_it_says(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    result = started(SMALL, tmp_path, report=lambda one, of: told.append((one.round, of)))
    require_whole(tmp_path)
    one = ["round.intent", "round.release", "evaluation"]
    assert kinds(tmp_path) == ["run.open", *one, *one, *one, "run.close"]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert {path.name for path in tmp_path.iterdir()} == {
        "log.jsonl",
        "sealed.jsonl",
        "model.npz",
        "metrics.json",
    }
    (opened,) = of(tmp_path, records.RunOpen)
    (close,) = of(tmp_path, records.RunClose)
    assert opened.system == "uldp-avg"
    assert opened.randomness.source == "operating-system"
    assert opened.configuration == SMALL.to_json()
    assert opened.population == records.Population(6, 2)
    assert not opened.as_published
    assert opened.tuning == records.Tuning(1, public_only=True)
    assert opened.code["privplan"]
    assert opened.opened.endswith("+00:00")
    assert close.reason == "finished"
    assert close.events == opened.plan.events
    assert close.epsilon == {who: one.epsilon.upper for who, one in result.guarantees.items()}
    assert close.epsilon["model"] <= opened.claim.epsilon
    assert close.model == result.model == model_digest(result.parameters)
    assert result.rounds == result.planned == 3


def test_metrics_say_that_readings_are_no_guarantee(tmp_path: Path) -> None:
    result = started(SMALL, tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert "no guarantee" in metrics["note"]
    assert [one["round"] for one in metrics["rounds"]] == [1, 2, 3]
    readings = [one["epsilon_so_far"]["model"] for one in metrics["rounds"]]
    assert readings == sorted(set(readings))
    assert readings[-1] <= metrics["guarantees"]["model"]["epsilon"]
    assert metrics["guarantees"]["model"]["epsilon"] == result.guarantees["model"].epsilon.upper
    said = [one.metrics for one in of(tmp_path, records.Evaluation)]
    assert [{name: float(value) for name, value in one.items()} for one in said] == [
        one["metrics"] for one in metrics["rounds"]
    ]


def test_measuring_less_often_measures_the_last_round(tmp_path: Path) -> None:
    started(changed(run={"rounds": 5, "evaluate_every": 2}), tmp_path)
    assert [one.round for one in of(tmp_path, records.Evaluation)] == [2, 4, 5]


def test_the_data_set_is_sealed_and_the_path_nowhere(tmp_path: Path) -> None:
    started(SMALL, tmp_path)
    (opened,) = of(tmp_path, records.RunOpen)
    item = Sealed.read(tmp_path).opening(opened.dataset)
    assert item is not None
    assert set(item.value) == {"records", "allocation"}  # type: ignore[call-overload]
    text = (tmp_path / "log.jsonl").read_text()
    assert item.value["records"] not in text  # type: ignore[index]
    assert '"path"' not in text


def test_trials_stand_in_the_log(tmp_path: Path) -> None:
    started(changed(run={"trials": 4}), tmp_path)
    assert of(tmp_path, records.RunOpen)[0].tuning == records.Tuning(4, public_only=False)


@pytest.mark.parametrize(
    ("system", "tables"),
    [
        ("fedavg", {"privacy": {"unit": None, "noise_multiplier": None}}),
        ("uldp-naive", {}),
        ("uldp-naive", {"table": {"as_published": True}}),
        ("uldp-group", {"privacy": {"group": 4}, "table": {"group_records": 4}}),
        ("uldp-avg", {"privacy": {"sampling_rate": 0.5}}),
        ("uldp-sgd", {}),
    ],
)
def test_every_system_runs_and_goes_on(system: str, tables: dict[str, Any], tmp_path: Path) -> None:
    own = changed(changed(run={"system": system}), **tables)
    result = started(own, tmp_path / "whole")
    require_whole(tmp_path / "whole")
    sound = system != "fedavg" and not own.as_published
    assert np.isinf(result.guarantees["model"].epsilon.upper) != sound
    folder = tmp_path / "cut"
    interrupted(own, folder, after=4)
    resumed(own, folder)
    require_whole(folder)
    assert all(one.epsilon.keys() == result.measured[0].epsilon.keys() for one in result.measured)


# -- seeds --------------------------------------------------------------------------------------


def without(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line without what is fresh in every run: names, times, and commitments."""
    fresh = ("run_id", "opened", "dataset", "sealed", "prev", "hash")
    return {key: value for key, value in line.items() if key not in fresh}


def lines(folder: Path) -> list[dict[str, Any]]:
    return [without(json.loads(line)) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_seeded_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    own = changed(run={"seed": 7})
    first, second = (started(own, tmp_path / name) for name in "ab")
    assert lines(tmp_path / "a") == lines(tmp_path / "b")
    assert first.parameters.tobytes() == second.parameters.tobytes()
    assert of(tmp_path / "a", records.RunOpen)[0].randomness.source == "seeded"
    other = started(changed(run={"seed": 8}), tmp_path / "c")
    assert other.model != first.model


def test_unseeded_runs_differ(tmp_path: Path) -> None:
    first, second = (started(SMALL, tmp_path / name) for name in "ab")
    assert first.model != second.model
    kept = [
        {key: value for key, value in line.items() if key not in ("streams", "aggregate")}
        for line in lines(tmp_path / "a")
    ]
    assert kept[1] != {}
    intents = [of(tmp_path / name, records.RoundIntent)[0] for name in "ab"]
    assert intents[0] == intents[1]  # public seeds: the first model is the same


def test_a_resumed_seeded_run_uses_no_byte_twice(tmp_path: Path) -> None:
    own = changed(run={"seed": 7})
    interrupted(own, tmp_path, after=4)
    resumed(own, tmp_path)
    require_whole(tmp_path)
    used = [one.stream for done in of(tmp_path, records.RoundRelease) for one in done.streams]
    before = of(tmp_path, records.RoundRelease)[0].streams
    after = of(tmp_path, records.RoundRelease)[-1].streams
    assert len(used) > 2
    assert {one.stream for one in before}.isdisjoint(one.stream for one in after)


# -- budgets ------------------------------------------------------------------------------------


def test_a_budget_cuts_the_plan_before_the_first_release(tmp_path: Path) -> None:
    own = changed(run={"rounds": 500}, privacy={"epsilon": 2.0, "noise_multiplier": 8.0})
    prepared = prepare(own)
    assert prepared.cut
    assert 1 <= prepared.rounds < 500
    assert prepared.plan.guarantees["model"].epsilon.upper <= 2.0
    small = changed(own, run={"rounds": prepared.rounds + 1, "evaluate_every": 100})
    result = started(small, tmp_path)
    assert result.reason == "budget"
    require_whole(tmp_path, prepared.rounds)


def test_a_budget_too_small_for_one_round_begins_nothing() -> None:
    with pytest.raises(BudgetExceeded):
        prepare(changed(privacy={"epsilon": 0.01, "noise_multiplier": 5.0}))


def test_noise_is_found_for_a_target() -> None:
    prepared = prepare(changed(privacy={"epsilon": 3.0, "noise_multiplier": None}))
    assert 2.99 < prepared.plan.guarantees["model"].epsilon.upper <= 3.0


# -- whatever stops a run -----------------------------------------------------------------------


class Stop(Exception):
    """What a test raises."""


class Failing:
    """The real log, which fails at the record with number `at`: before it is written, or after."""

    def __init__(self, writer: LogWriter, at: int, *, written: bool, error: BaseException) -> None:
        self.writer, self.at, self.written, self.error = writer, at, written, error
        self.count = 0

    def append(self, record: records.Record) -> int:
        self.count += 1
        if self.count == self.at and not self.written:
            raise self.error
        seq = self.writer.append(record)
        if self.count == self.at:
            raise self.error
        return seq

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        return self.writer.seal(items)

    def settle(self) -> None:
        self.writer.settle()


def interrupted(
    settings: Settings,
    folder: Path,
    *,
    after: int,
    written: bool = True,
    error: BaseException | None = None,
) -> None:
    """Begin a run that is stopped at the record with number `after`."""
    stop = Stop() if error is None else error
    prepared = prepare(settings)
    with LogWriter.create(folder) as writer:
        failing = Failing(writer, after, written=written, error=stop)
        with pytest.raises(type(stop)):
            carry_out(prepared, folder, failing)


APPENDS = 11
"""How many records a run of three rounds has."""


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("at", range(2, APPENDS + 1))
def test_a_log_that_fails_stops_the_run_and_it_goes_on(
    at: int, written: bool, tmp_path: Path
) -> None:
    interrupted(SMALL, tmp_path, after=at, written=written)
    told = {one.model_out for one in of(tmp_path, records.RoundRelease)}
    for name in (CHECKPOINT, MODEL):
        if (tmp_path / name).exists():
            kept = Checkpoint.read(tmp_path / name)
            assert model_digest(kept.parameters) in told
    if at == APPENDS and written:
        assert verify(tmp_path).complete
        return
    spent = len(of(tmp_path, records.RoundIntent))
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)
    (recovery,) = of(tmp_path, records.RunRecover)
    assert recovery.next_round == spent + 1


def test_a_run_goes_on_after_many_stops(tmp_path: Path) -> None:
    own = changed(run={"rounds": 8})
    interrupted(own, tmp_path, after=3)
    for at in (1, 2, 3, 4):
        prepared = prepare(own, segment=verify(tmp_path).recoveries + 1)
        writer, progress = LogWriter.resume(tmp_path, randomness=randomness(own))
        failing = Failing(writer, at, written=at % 2 == 0, error=Stop())
        with writer, pytest.raises(Stop):
            carry_out(prepared, tmp_path, failing, progress=progress)
    resumed(own, tmp_path)
    require_whole(tmp_path, 8)
    assert len(of(tmp_path, records.RunRecover)) == 5


def test_an_interruption_is_an_abort_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(SMALL)

    def training(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the interruption was not seen")

    monkeypatch.setattr(prepared.system, "updates", training)
    with LogWriter.create(tmp_path) as writer, pytest.raises(KeyboardInterrupt):
        carry_out(prepared, tmp_path, writer)
    assert kinds(tmp_path) == ["run.open", "round.intent", "round.abort"]
    assert of(tmp_path, records.RoundAbort)[0].reason == "interrupted"
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)
    assert of(tmp_path, records.RunClose)[0].rounds == 2


def files_written(settings: Settings, folder: Path) -> int:
    """Return how many files a run puts in their place."""
    count = 0

    def counted(path: Path, content: bytes) -> None:
        nonlocal count
        count += 1
        write(path, content)

    write = atomic.write
    atomic.write = counted  # type: ignore[assignment]
    try:
        started(settings, folder)
    finally:
        atomic.write = write  # type: ignore[assignment]
    return count


def test_a_full_disk_at_each_file_stops_the_run_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = atomic.write
    total = files_written(SMALL, tmp_path / "whole")
    assert total == 5
    for at in range(1, total + 1):
        count = 0

        def full(path: Path, content: bytes, at: int = at) -> None:
            nonlocal count
            count += 1
            if count == at:
                path.with_name(f".{path.name}.part").write_bytes(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, content)

        folder = tmp_path / str(at)
        prepared = prepare(SMALL)
        monkeypatch.setattr(atomic, "write", full)
        with LogWriter.create(folder) as writer, pytest.raises(OSError, match="No space"):
            carry_out(prepared, folder, writer)
        monkeypatch.undo()
        assert not (folder / "metrics.json").exists()
        resumed(SMALL, folder)
        require_whole(folder)


# -- what must not go on ------------------------------------------------------------------------


def log_of(folder: Path) -> list[str]:
    return (folder / "log.jsonl").read_text().splitlines(keepends=True)


def test_a_closed_run_is_not_resumed(tmp_path: Path) -> None:
    started(SMALL, tmp_path)
    with pytest.raises(InvalidInput, match="closed"):
        resumed(SMALL, tmp_path)


def test_an_edited_log_is_not_resumed(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=6)
    whole = log_of(tmp_path)
    text = whole[1].replace('"round":1', '"round":2')
    assert text != whole[1]
    (tmp_path / "log.jsonl").write_text("".join([whole[0], text, *whole[2:]]))
    with pytest.raises(InvalidInput, match="Line 2"):
        resumed(SMALL, tmp_path)


def test_a_log_of_another_schema_is_not_resumed(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=6)
    whole = "".join(log_of(tmp_path))
    newer = whole.replace("privplan-log/1", "privplan-log/2")
    (tmp_path / "log.jsonl").write_text(newer)
    with pytest.raises(InvalidInput):
        resumed(SMALL, tmp_path)


@pytest.mark.parametrize(
    "tables",
    [
        {"run": {"rounds": 4}},
        {"run": {"seed": 3}},
        {"data": {"seed": 1}},
        {"privacy": {"noise_multiplier": 4.0}},
        {"training": {"clip": 0.2}},
    ],
)
def test_other_settings_are_refused(tables: dict[str, Any], tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=4)
    (table,) = tables
    (key,) = tables[table]
    with pytest.raises(InvalidInput, match=rf"\[{table}\] {key}"):
        resumed(changed(**tables), tmp_path)


def test_another_plan_is_refused(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=4)
    other = prepare(changed(privacy={"noise_multiplier": 4.0}))
    mixed = replace(other, settings=SMALL, segment=1)
    writer, progress = LogWriter.resume(tmp_path, randomness=randomness(SMALL))
    with writer, pytest.raises(InvalidInput, match="another promise and another plan"):
        carry_out(mixed, tmp_path, writer, progress=progress)


@pytest.mark.parametrize("segment", [0, 2])
def test_the_segment_is_that_of_the_log(segment: int, tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=4)
    writer, progress = LogWriter.resume(tmp_path, randomness=randomness(SMALL))
    with writer, pytest.raises(InvalidInput, match="segment"):
        carry_out(prepare(SMALL, segment=segment), tmp_path, writer, progress=progress)


def test_another_model_is_refused(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=7)
    path = tmp_path / CHECKPOINT
    kept = Checkpoint.read(path)
    for wrong in (
        replace(kept, parameters=kept.parameters + 1e-9),
        replace(kept, run_id="0" * 32),
    ):
        wrong.write(path)
        with pytest.raises(InvalidInput, match="model in checkpoint"):
            resumed(SMALL, tmp_path)
    path.write_bytes(b"")
    with pytest.raises(InvalidInput, match="no model of a run"):
        resumed(SMALL, tmp_path)
    path.unlink()
    with pytest.raises(InvalidInput, match="missing"):
        resumed(SMALL, tmp_path)
    kept.write(path)
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)


def test_a_model_where_nothing_was_released_is_refused(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=2)
    (opened,) = of(tmp_path, records.RunOpen)
    Checkpoint(opened.run_id, 1, "logistic", np.zeros(31)).write(tmp_path / CHECKPOINT)
    with pytest.raises(InvalidInput, match="the log has none"):
        resumed(SMALL, tmp_path)
