"""The statistics of a finished run: what its log and its file say, and later fits in the log."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gate, NoisyGram, RoundDescription
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.gram import GramBound
from privplan.fl.frame.model import model_digest
from privplan.fl.log import LogWriter, read
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

from ...cases import for_each
from .small import classified

FEATURES, LABELS = classified()
BOUND = GramBound(dimension=5, classes=3)


def finished(
    folder: Path,
    *,
    system: str = "statistics",
    observer: str = "model",
    other_vector: bool = False,
    promised: float = 3.0,
    shown: float = 1.5,
    silos: int = 4,
) -> np.ndarray:
    """Write what a run of the system leaves, and return the vector that it released."""
    mechanism = NoisyGram.with_multiplier(
        3.0, gram=BOUND, bits=17, relation="add-remove", shares=4, row_norm=6.0
    )
    event, each = ev.Gaussian(promised), ev.Gaussian(shown)
    claim = records.Claim("record", "add-remove", 1e-6, 2.0, observer)
    other = "server" if observer == "model" else observer
    plan = records.Planned(1, {"model": event, other: each})
    population = records.Population(10, silos)
    opened = records.RunOpen(
        "run-1",
        system,
        claim,
        plan,
        population,
        records.Randomness("operating-system"),
        configuration={"statistics": {"intercept": "0.2", "row_norm": "6.0"}},
    )
    total = gram_total(mechanism, FEATURES, LABELS, intercept=0.2).total
    with LogWriter.create(folder, fsync="never") as log:
        log.append(opened)
        gate = Gate(pp.Odometer(50.0, 1e-6), log, Streams.seeded(1))
        about = RoundDescription(1, "release", views={other: each}, model_in="0" * 64)
        intent = mechanism.intent(about, "add-remove")
        intent = intent if promised == 3.0 else replace(intent, event=event)
        with gate.open(intent) as ticket:
            none = np.zeros_like(total)
            sent = [
                mechanism.share_steps(ticket, part, f"noise/silo-{silo}")
                for silo, part in enumerate((total, none, none, none))
            ]
            vector = mechanism.units(np.sum(sent, axis=0))
            ticket.close(values=len(vector), aggregate=b"", model_out=model_digest(vector))
        log.append(records.RunClose(1, "finished", plan.events, {}, 1e-6, "gdp"))
    kept = vector + 1.0 if other_vector else vector
    Checkpoint("run-1", 1, "statistics", kept).write(folder / MODEL_FILE)
    return vector


def test_the_statistics_of_a_run_are_those_that_it_released(tmp_path: Path) -> None:
    vector = finished(tmp_path / "run")
    released = pp.PrivateStatistics.from_run(tmp_path / "run").released
    upper = np.triu_indices(5)
    assert np.array_equal(released.gram[upper], vector[:15])
    assert np.array_equal(released.labels.ravel(), vector[15:])
    assert (released.intercept, released.row_norm, released.shares) == (0.2, 6.0, 4)
    assert released.guarantee.delta.upper == 1e-6
    proven = pp.account(released.event, delta=1e-6)
    assert released.guarantee.epsilon == proven.epsilon
    assert isinstance(released.event, ev.Gaussian)
    assert released.event.noise_multiplier >= 3.0
    assert not released.seeded


def test_the_guarantee_is_for_the_observer_of_the_claim(tmp_path: Path) -> None:
    finished(tmp_path / "run", observer="server")
    released = pp.PrivateStatistics.from_run(tmp_path / "run").released
    assert released.event == ev.Gaussian(1.5)
    assert released.guarantee.observer == "server"


def test_later_fits_stand_in_the_log(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    before = [line.record for line in read(tmp_path / "run")]
    statistics = pp.PrivateStatistics.from_run(tmp_path / "run")
    model = pp.PrivateLogistic(statistics, ridge=0.5).fit()
    pp.PrivatePCA(statistics, n_components=2).fit()
    after = [line.record for line in read(tmp_path / "run")]
    assert after[: len(before)] == before
    logistic, components = after[len(before) :]
    assert isinstance(logistic, records.PostProcessing)
    assert isinstance(components, records.PostProcessing)
    assert (logistic.what, components.what) == ("PrivateLogistic", "PrivatePCA")
    assert isinstance(before[logistic.of], records.RoundRelease)
    assert logistic.settings["ridge"] == "0.5"
    digest = hashlib.sha256(np.ascontiguousarray(model._weights, "<f8").tobytes()).hexdigest()
    assert logistic.values == digest


def test_settings_that_numpy_counts_stand_in_the_log_as_numbers(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    statistics = pp.PrivateStatistics.from_run(tmp_path / "run")
    pp.PrivateLogistic(statistics, ridge=np.float64(0.5), components=np.int64(2)).fit()
    last = list(read(tmp_path / "run"))[-1].record
    assert isinstance(last, records.PostProcessing)
    assert (last.settings["ridge"], last.settings["components"]) == ("0.5", 2)


def test_an_observer_that_sees_more_noise_than_there_is_is_refused(tmp_path: Path) -> None:
    finished(tmp_path / "run", observer="server", shown=30.0)
    with pytest.raises(InvalidInput, match="promises more than the noise"):
        pp.PrivateStatistics.from_run(tmp_path / "run")


def test_without_a_record_the_log_stays_as_it_is(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    content = (tmp_path / "run" / "log.jsonl").read_bytes()
    statistics = pp.PrivateStatistics.from_run(tmp_path / "run", record=False)
    pp.PrivateLogistic(statistics).fit()
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == content


def test_a_run_of_another_system_has_no_statistics(tmp_path: Path) -> None:
    finished(tmp_path / "run", system="uldp-avg")
    with pytest.raises(InvalidInput, match="No statistics were released"):
        pp.PrivateStatistics.from_run(tmp_path / "run")
    with pytest.raises(InvalidInput):
        pp.PrivateStatistics.from_run(tmp_path / "absent")


def test_a_file_that_the_log_does_not_know_is_refused(tmp_path: Path) -> None:
    finished(tmp_path / "run", other_vector=True)
    with pytest.raises(InvalidInput, match="not what the log of the run says"):
        pp.PrivateStatistics.from_run(tmp_path / "run")


def test_a_log_that_promises_more_than_its_noise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No mechanism would draw under such an intent.
    monkeypatch.setattr(NoisyGram, "check_ticket", lambda *_: None)
    finished(tmp_path / "run", promised=3.5)
    with pytest.raises(InvalidInput, match="promises more than the noise"):
        pp.PrivateStatistics.from_run(tmp_path / "run")


@for_each(
    "facts",
    [{"shown": 1.51}, {"shown": 30.0}, {"silos": 3}, {"observer": "silo", "shown": 3.0}],
    ids=str,
)
def test_a_view_that_the_noise_does_not_support_is_refused(
    facts: dict[str, Any], tmp_path: Path
) -> None:
    """One share of four has half the deviation: 1.5 before a server in the clear."""
    finished(tmp_path / "run", **{"observer": "server", **facts})
    with pytest.raises(InvalidInput, match="promises more than the noise"):
        pp.PrivateStatistics.from_run(tmp_path / "run")
