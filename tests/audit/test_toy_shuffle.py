"""A system of another package, of messages and a shuffler: run, resumed, and derived right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("cryptography")

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import LaplaceMessages
from privplan.audit.budget import audit_budget
from privplan.fl.running import resume, run
from privplan.fl.running.checkpoint import MODEL_FILE, MODELS_FOLDER, Checkpoint
from privplan.fl.shuffling import Shuffling

from ..cases import for_each
from ..fl.foreign import killed, privplan
from ..packages import shuffled
from ..packages.toys import for_each_test, install

toy = for_each_test("toy_shuffle")


def rows(folder: Path) -> dict[str, Any]:
    return {row.observer: row for row in audit_budget(folder).rows}


def number(event: ev.Event, delta: float) -> float:
    return pp.account(event, delta=delta, neighbours="replace-one").epsilon.upper


def test_double_as_printed_is_derived_from_a_log_of_its_size(tmp_path: Path) -> None:
    shuffled.run_as_printed(tmp_path / "out")
    report = audit_budget(tmp_path / "out")
    assert report.ok, report.hazards
    found = {row.observer: row.total.upper for row in report.rows}
    event = ev.SampledShuffle(
        *(1000, 7850, 157, 333), "coordinate", "oblivious", "refuse", ev.Laplace(4.0)
    )
    proven = number(event, shuffled.DOUBLE["delta"])
    assert proven == pytest.approx(0.1572, abs=5e-5)
    assert found["analyzer"] == found["model"] == proven
    assert found["shuffler"] == number(ev.Repeat(157, ev.Laplace(4.0)), shuffled.DOUBLE["delta"])
    assert 40 < found["shuffler"] < 40.5


@for_each("colluders", [0, 2])
def test_each_observer_has_the_number_of_its_facts(tmp_path: Path, colluders: int) -> None:
    run(shuffled.settings(colluders=colluders), tmp_path / "out")
    report = audit_budget(tmp_path / "out")
    assert report.ok, report.hazards
    assert not report.hazards
    event = ev.SampledShuffle(
        *(20 - colluders, 12, 3, 20 - colluders),
        *("coordinate", "oblivious", "refuse", ev.Laplace(4.0)),
    )
    found = {row.observer: row for row in report.rows}
    assert set(found) == {"model", "analyzer", "shuffler"}
    assert found["analyzer"].total.upper == number(ev.Repeat(2, event), 1e-3)
    assert found["model"].total.upper == found["analyzer"].total.upper
    assert found["shuffler"].total.upper == number(ev.Repeat(6, ev.Laplace(4.0)), 1e-3)
    for row in found.values():
        assert row.stated == row.total.upper
        assert row.rests_on


@for_each("observer", ["shuffler", "model"])
def test_a_promise_may_be_for_any_of_them(tmp_path: Path, observer: str) -> None:
    result = run(shuffled.settings(observer=observer), tmp_path / "out")
    report = audit_budget(tmp_path / "out")
    assert report.claim is not None
    assert report.claim.observer == observer
    assert report.ok
    assert report.total.upper == result.guarantees[observer].epsilon.upper
    assert report.observers == ("model", "analyzer", "shuffler")


def test_the_analyzer_has_the_plain_sum_of_messages_and_dummies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit; and what is sent is each user's own clipped coordinates, with its noise."""
    sent: list[Any] = []
    dummies: list[Any] = []
    drawn: list[Any] = []
    carried, dummy, noise = Shuffling.round, LaplaceMessages.dummies, LaplaceMessages._draw_noise

    def kept(self: Any, *given: Any, **more: Any) -> Any:
        sent.append((given[2], more["places"]))
        return carried(self, *given, **more)

    def kept_dummies(self: Any, *given: Any) -> Any:
        dummies.append(dummy(self, *given))
        return dummies[-1]

    def kept_noise(self: Any, *given: Any) -> Any:
        drawn.append(noise(self, *given))
        return drawn[-1]

    monkeypatch.setattr(Shuffling, "round", kept)
    monkeypatch.setattr(LaplaceMessages, "dummies", kept_dummies)
    monkeypatch.setattr(LaplaceMessages, "_draw_noise", kept_noise)
    settings = shuffled.settings(rounds=1)
    result = run(settings, tmp_path / "out")
    ((messages, places),) = sent
    lacking = 20 - np.bincount(places.ravel(), minlength=12)
    sums = np.bincount(places.ravel(), messages.ravel().astype(float), 12)
    sums += np.bincount(np.repeat(np.arange(12), lacking), dummies[0].astype(float), 12)
    grid = LaplaceMessages(1.0, 4.0).grid
    assert np.array_equal(result.parameters, sums * grid / (20 * 3 / 12))
    from privplan.fl.running.preparation import prepare

    system: Any = prepare(settings).system
    vectors = np.clip(system.vectors(), -1.0, 1.0)
    assert np.abs(vectors).max() == 1.0
    steps = np.trunc(np.take_along_axis(vectors, places, axis=1) / grid)
    assert np.array_equal(messages, steps + drawn[0].reshape(20, 3))
    assert all(len(set(row)) == 3 for row in places.tolist())


def test_it_is_killed_and_resumed_with_its_state(tmp_path: Path) -> None:
    place = install("toy_shuffle", tmp_path / "package")
    (place / "run.toml").write_text(shuffled.text(rounds=3))
    folder = killed(place)
    first = Checkpoint.read(folder / "checkpoint.npz")
    assert np.array_equal(first.state["average"], first.parameters)
    resume(folder)
    last = Checkpoint.read(folder / MODEL_FILE)
    assert last.round == 3
    released = [
        Checkpoint.read(path).parameters for path in sorted((folder / MODELS_FOLDER).iterdir())
    ]
    assert np.array_equal(released[0], first.parameters)
    assert last.state["average"] == pytest.approx(np.mean(released, axis=0), rel=1e-9)
    report = audit_budget(folder)
    assert report.spent == report.released == 3
    assert report.ok, report.hazards
    assert report.total.upper == number(
        ev.Repeat(
            3,
            ev.SampledShuffle(
                *(20, 12, 3, 20), "coordinate", "oblivious", "refuse", ev.Laplace(4.0)
            ),
        ),
        1e-3,
    )


@pytest.mark.slow  # five processes of their own
def test_every_page_names_the_observers_in_words(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    place = install("toy_shuffle", tmp_path / "package")
    (place / "run.toml").write_text(shuffled.text())

    def said(*words: str) -> str:
        done = privplan(place, *words)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    forecast = said("run", "run.toml", "--dry-run")
    ran = said("run", "run.toml", "--out", "out")
    audited = said("audit", "budget", "out")
    for page in (forecast, ran, audited):
        assert "whoever sees the shuffled messages" in page
        assert "the shuffler" in page
        assert "rests on: the shuffler follows the protocol" in page
        assert "no user tells it what it sent" in page
    for page in (forecast, ran):
        assert "the shuffler, which knows who sent each message, and its own dummies" in page
        assert "server" not in page
    assert "through a shuffler: 20 users" in ran
    assert "released toy-shuffle" in ran
    found = json.loads(said("audit", "budget", "out", "--json"))["result"]
    assert {row["observer"] for row in found["observers"]} == {"model", "analyzer", "shuffler"}
    assert all(row["rests_on"] for row in found["observers"])
    said("report", "out", "--out", "page.html")
    page = " ".join((place / "page.html").read_text().split())
    assert "whoever sees the shuffled messages" in page
    assert "the shuffler follows the protocol" in page
