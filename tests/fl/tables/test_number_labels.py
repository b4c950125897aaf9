"""Labels that are numbers: clipped to a public range, learnt on [-1, 1], measured in their unit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import privplan as pp
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.attack_methods.membership.evidence import require_likelihood
from privplan.audit.budget import audit_budget
from privplan.fl.data.federation import Federation
from privplan.fl.models.losses import Huber, SquaredError
from privplan.fl.models.own_model_building import own_model
from privplan.fl.models.registry import model_named
from privplan.fl.training.deltas import delta_blocks, per_example_gradients
from privplan.fl.training.metrics import measured
from privplan.fl.training.scores import Records
from privplan.fl.training.units import Recipe, Units

from ...cases import for_each
from .hospitals import MARKER, configuration, write
from .test_table_runs import facts, of_nobody, without

RANGE = (0.0, 300.0)

HUBER_FILE = """
import torch
from torch import nn

def make(features, classes):
    return nn.Sequential(nn.Linear(features, 4), nn.Tanh(), nn.Linear(4, classes))

def loss(outputs, labels):
    return torch.nn.functional.huber_loss(outputs[:, 0], labels, reduction="none", delta=0.5)
"""


def numbered(lines: list[str]) -> list[str]:
    """Give each row a number as its label: three times the age, now and then out of range."""
    heads = [line.rpartition(",")[0] for line in lines]
    return [f"{head},{3.0 * float(head.split(',')[1]):.1f}" for head in heads]


def said(system: str = "uldp-avg", **tables: Any) -> dict[str, dict[str, Any]]:
    """Return a configuration of a run on files whose label is a number."""
    whole = configuration(system, **tables)
    whole["data"]["label"] = {"column": "outcome", "kind": "number", "range": list(RANGE)}
    return whole


def ran(folder: Path, tables: dict[str, dict[str, Any]], edited: Any = numbered) -> Any:
    folder.mkdir(exist_ok=True)
    write(folder, edited)
    (folder / "model.py").write_text(HUBER_FILE)
    return pp.run(tables, folder / "run")


SYSTEMS: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("uldp-avg", {}),
    ("uldp-avg", {"training": {"model": "mlp-64", "loss": "huber"}}),
    ("uldp-avg", {"training": {"model": "model.py:make", "loss": "model.py:loss"}}),
    ("uldp-sgd", {"training": {"weighting": "records", "model": "model.py:make"}}),
    ("uldp-naive", {}),
    ("uldp-group", {"uldp": {"group_records": 4}}),
    ("uldp-group", {"uldp": {"group_records": 4}, "training": {"model": "mlp-64"}}),
    ("fedavg", {"training": {"loss": "squared"}}),
    ("disco", {"privacy": {"unit": "silo", "noise_multiplier": 2.0}}),
    (
        "disco",
        {"privacy": {"unit": "record", "noise_multiplier": 2.0}, "disco": {"divisor": 100}},
    ),
    ("flame-simple", {"flame": {"transport": "ideal"}}),
    ("flame-double", {"flame": {"transport": "ideal", "chosen": 4, "padded_to": 22}}),
    ("flame-topk", {"flame": {"transport": "ideal", "chosen": 2, "decoys": 3}}),
)


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@for_each("case", SYSTEMS)
def test_every_training_system_learns_a_number_and_its_audit_derives_what_it_states(
    tmp_path: Path, case: tuple[str, dict[str, dict[str, Any]]]
) -> None:
    system, tables = case
    finished = ran(tmp_path, said(system, **tables))
    assert np.isfinite(finished.result.parameters).all()
    if system != "fedavg":  # which promises nothing
        assert audit_budget(tmp_path / "run").ok


REFUSED: tuple[tuple[dict[str, dict[str, Any]], str], ...] = (
    ({"training": {"model": "logistic"}}, "A model is made for one kind of label"),
    ({"training": {"model": "softmax"}}, "A model is made for one kind of label"),
    ({"training": {"loss": "cross-entropy"}}, "A loss is made for one kind of label"),
    (
        {"training": {"model": "model.py:make", "loss": "cross-entropy"}},
        "A loss is made for one kind of label",
    ),
    ({"training": {"loss": "model.py:loss"}}, "has its own"),
    ({"training": {"class_weights": [1.0, 2.0]}}, "labels are of no classes"),
    (
        {"evaluation": {"test": "held-out", "held_out_noise": 5.0}},
        "share of right answers",
    ),
)


@for_each("case", REFUSED)
def test_what_is_for_classes_is_refused_for_a_number(
    tmp_path: Path, case: tuple[dict[str, dict[str, Any]], str]
) -> None:
    tables, reason = case
    with pytest.raises(InvalidInput, match=reason):
        ran(tmp_path, said(**tables))
    assert not (tmp_path / "run").exists()


def test_a_loss_of_numbers_is_refused_for_classes(tmp_path: Path) -> None:
    for training in ({"loss": "huber"}, {"model": "linear"}):
        write(tmp_path)
        with pytest.raises(InvalidInput, match="is made for one kind of label"):
            pp.run(configuration(training=training), tmp_path / "run")


def test_a_model_of_numbers_is_refused_for_a_data_set_of_classes(tmp_path: Path) -> None:
    tables = {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {"name": "digits"},
        "privacy": {"noise_multiplier": 2.0},
        "training": {"model": "linear"},
    }
    with pytest.raises(InvalidInput, match="numbers"):
        pp.run(tables, tmp_path / "run")


def test_metrics_are_in_the_unit_of_the_label_and_answers_stay_in_its_range() -> None:
    logits = np.array([[0.0], [3.0], [-1.0], [np.nan]])
    found = measured(logits, np.array([0.5, 1.0, -1.0, 0.2], np.float32), RANGE)
    # 0 is 150 and the label 225; 3 is clipped to 300, which is the label; no answer errs by 300.
    assert found["mean_absolute_error"] == pytest.approx((75.0 + 0.0 + 0.0 + 300.0) / 4)
    assert found["root_mean_squared_error"] == pytest.approx(np.sqrt((75.0**2 + 300.0**2) / 4))


def test_a_run_learns_and_is_measured_on_a_public_file(tmp_path: Path) -> None:
    write(tmp_path, numbered)
    (tmp_path / "test.csv").write_text((tmp_path / "north.csv").read_text())
    finished = pp.run(
        said(
            "fedavg",
            run={"rounds": 40},
            training={"local_epochs": 5, "local_rate": 0.3},
            evaluation={"test": "test.csv", "source": "made for a test"},
        ),
        tmp_path / "run",
    )
    first, last = (
        row.metrics for row in (finished.result.measured[0], finished.result.measured[-1])
    )
    assert set(last) == {"mean_absolute_error", "root_mean_squared_error"}
    # The label is three times the age, up to 300: a line, but for ages above 100.
    assert last["mean_absolute_error"] < 15.0 < 1.5 * first["mean_absolute_error"]


def test_a_label_out_of_its_range_is_clipped_and_one_that_is_no_number_leaves_the_row_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(value: str) -> Any:
        return lambda lines: [*numbered(lines), f"p3,40,f,I,y,,{value}"]

    def ran_in(edited: Any) -> Any:
        folder = tmp_path / f"of-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        return ran(folder, said(run={"seed": 3}), edited).result.parameters

    clipped, at_end = ran_in(ends("1e400")), ran_in(ends("300"))
    unreadable, without = ran_in(ends(MARKER)), ran_in(numbered)
    assert np.array_equal(clipped, at_end)
    assert np.array_equal(unreadable, without)
    assert not np.array_equal(clipped, without)


def test_a_log_says_the_same_of_neighbouring_files_whose_labels_are_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours are made at the level of files: one patient's rows come, or one's go."""
    nasty = [f"{MARKER},1,f,I,y,,{label}" for label in ("1e400", "nan", "", MARKER, "-7")]
    logs = []
    for number, edited in enumerate(
        (
            numbered,
            lambda lines: [*numbered(lines), *nasty],
            lambda lines: numbered(without(lines)),
            of_nobody,
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        ran(folder, said(run={"seed": 5}), edited)
        logs.append(facts((folder / "run" / "log.jsonl").read_text()))
        for path in (folder / "run").iterdir():
            assert MARKER.encode() not in path.read_bytes()
    assert logs[1:] == logs[:1] * 3


def _units(rng: np.random.Generator, sizes: tuple[int, ...] = (7, 1, 4)) -> Units:
    records = sum(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Units(
        rng.normal(size=(records, 3)).astype(np.float32),
        rng.uniform(-1, 1, records).astype(np.float32),
        rng.permutation(records),
        offsets,
        np.arange(len(sizes)) + 5,
        np.zeros(len(sizes), np.int64),
    )


@for_each("loss", ("squared", "huber"))
def test_slopes_are_those_of_the_loss_and_the_short_way_is_the_long_one(loss: str) -> None:
    rng = np.random.default_rng(4)
    kind = SquaredError() if loss == "squared" else Huber()
    logits = torch.tensor(rng.normal(size=(2, 5, 1)) * 2, requires_grad=True)
    labels = torch.tensor(rng.uniform(-1, 1, (2, 5)).astype(np.float32))
    share = torch.full((2, 5), 0.2, dtype=torch.float64)
    value = kind.value(logits, labels, share)
    expected = (
        torch.nn.functional.mse_loss if loss == "squared" else torch.nn.functional.huber_loss
    )(logits[..., 0], labels.double(), reduction="none").mean(1)
    assert torch.allclose(value, expected / 2 if loss == "squared" else expected)
    (slope,) = torch.autograd.grad(value.sum(), logits)
    assert torch.allclose(kind.slope(logits.detach(), labels, share), slope)

    model, units = model_named("linear", 3, 1, loss=loss), _units(rng)
    start = rng.normal(size=4) * 2
    own = own_model(
        "line",
        lambda: lambda features: torch.nn.Linear(features, 1),
        loss,
        shape=(3,),
        classes=1,
        numbers=True,
        unit="record",
        seed=0,
    )
    recipe = Recipe(0.1, 2, 3)
    ways = [
        {
            int(unit): row
            for chosen, rows in delta_blocks(each, start, units, recipe, number=1)
            for unit, row in zip(chosen, rows, strict=True)
        }
        for each in (model, own)
    ]
    assert sorted(ways[0]) == sorted(ways[1]) == [0, 1, 2]
    for unit in range(3):
        assert np.allclose(ways[0][unit], ways[1][unit], rtol=1e-9, atol=1e-12)
    alone = Records(model, units.features, units.labels, np.zeros(12, np.int64))
    rows = alone.gradients(start[None], np.arange(12))
    slow = per_example_gradients(own, start, units.features, units.labels)
    assert np.allclose(rows, slow, rtol=1e-9, atol=1e-12)


def test_without_a_name_the_loss_of_a_number_is_the_squared_one() -> None:
    assert isinstance(model_named("linear", 3, 1).loss, SquaredError)
    assert isinstance(model_named("mlp", 3, 1, loss="huber").loss, Huber)
    for name in ("logistic", "softmax", "cox"):
        with pytest.raises(InvalidInput, match="numbers"):
            model_named(name, 3, 1, loss="squared")


def test_a_loss_that_mixes_records_is_refused_for_numbers_too() -> None:
    def mixing(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (outputs[:, 0] - labels - outputs.mean()) ** 2

    with pytest.raises(InvalidInput, match="mixes the records"):
        own_model(
            "line",
            lambda: torch.nn.Linear(3, 1),
            lambda: mixing,
            shape=(3,),
            classes=1,
            numbers=True,
            unit="user",
            seed=0,
        )


def _federation(**edited: Any) -> Federation:
    fields: Mapping[str, Any] = {
        "name": "tiny",
        "task": "regression",
        "classes": 1,
        "label_range": RANGE,
        "users": 2,
        "silos": 1,
        "features": [[0.0], [1.0]],
        "labels": [0.5, -1.0],
        "user": [0, 1],
        "silo": [0, 0],
        "test_features": [[0.5]],
        "test_labels": [1.0],
    }
    return Federation(**{**fields, **edited})


@for_each(
    "edited",
    (
        {"labels": [0.5, 1.5]},
        {"labels": [0.5, float("nan")]},
        {"labels": [[0.5], [0.5]]},
        {"classes": 2},
        {"label_range": None},
        {"task": "binary", "classes": 2, "labels": [0, 1], "test_labels": [1]},
    ),
)
def test_a_federation_of_numbers_has_labels_in_the_scaled_range(edited: dict[str, Any]) -> None:
    assert _federation().label_range == RANGE
    with pytest.raises(InvalidInput):
        _federation(**edited)


def test_a_number_has_no_likelihood_so_membership_refuses_it() -> None:
    with pytest.raises(Unsupported, match="number"):
        require_likelihood(model_named("linear", 3, 1))
