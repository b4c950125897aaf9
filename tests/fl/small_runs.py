"""Small runs for tests: made, taken up, and read back from their logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import records
from privplan.audit.verify import verify
from privplan.fl.frame.model import model_digest
from privplan.fl.log import LogWriter, read
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.run_records import RunResult
from privplan.fl.running.session import execute
from privplan.fl.settings import schema

SMALL = schema.Settings(
    run=schema.RunSettings(system="uldp-avg", rounds=3),
    data=schema.DataSettings(name="breast-cancer", users=6, silos=2),
    privacy=schema.PrivacySettings(noise_multiplier=5.0),
    training=schema.TrainingSettings(
        clip=0.1,
        local_rate=0.1,
        global_rate=2.0,
        local_epochs=1,
        batch=64,
        model="logistic",
    ),
)


def changed(own: schema.Settings = SMALL, **tables: Mapping[str, object]) -> schema.Settings:
    """Return settings with some keys changed, by table."""
    new = {name: replace(getattr(own, name), **keys) for name, keys in tables.items()}
    return replace(own, **new)  # type: ignore[arg-type]


def started(settings: schema.Settings, folder: Path, **more: Any) -> RunResult:
    """Make a whole run."""
    prepared = prepare(settings)
    with LogWriter.create(folder) as writer:
        return execute(prepared, folder, writer, **more)


def resumed(settings: schema.Settings, folder: Path, **more: Any) -> RunResult:
    """Go on with a run that was cut off."""
    prepared = prepare(settings, segment=verify(folder).recoveries + 1)
    writer, progress = LogWriter.resume(folder, randomness=randomness(settings))
    with writer:
        return execute(prepared, folder, writer, progress=progress, **more)


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
    kept = Checkpoint.read(folder / MODEL_FILE)
    first = intents[0].model_in
    assert model_digest(kept.parameters) == close.model
    assert close.model in outs | {first}
    for intent in intents:  # every round starts from the first model, or from a released one
        assert intent.model_in in outs | {first}
    names = {path.name for path in folder.iterdir()}
    assert names >= {"log.jsonl", "sealed.jsonl", MODEL_FILE, "metrics.json"}
    assert not [name for name in names if name.endswith(".part") or name == CHECKPOINT_FILE]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["released"] == len(releases)
    assert metrics["rounds"][-1]["round"] == kept.round
    reading = metrics["rounds"][-1]["epsilon_so_far"]
    if kept.round == planned and reading:  # what was begun and lost is counted as well
        assert reading["model"] == pytest.approx(metrics["guarantees"]["model"]["epsilon"])


# -- a whole run --------------------------------------------------------------------------------


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
    settings: schema.Settings,
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
            execute(prepared, folder, failing)
