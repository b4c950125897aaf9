"""Public weights of classes: they scale the loss of a record, and the clip bounds what is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.preparation import local_of, model_of
from privplan.fl.running.run_data import federation_of

from ..cases import for_each
from .extras import needs
from .tables.hospitals import configuration, write

pytestmark = needs("torch", "pyarrow")


def local_and_data(folder: Path, **tables: Any) -> tuple[Any, Any]:
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        settings = Configuration.of(configuration(**tables)).settings
        data, _ = federation_of(settings)
        return local_of(settings, data, model_of(settings, data)), data


def records_of(local: Any, data: Any) -> Any:
    models = np.tile(local.initial() + 0.1, (data.silos, 1))
    return local.record_gradients(models, np.arange(data.records), 1)


@for_each("model", ["logistic", "softmax", "mlp"])
def test_the_gradient_of_a_record_is_scaled_by_the_weight_of_its_class(
    tmp_path: Path, model: str
) -> None:
    even, data = local_and_data(tmp_path, training={"model": model, "dropout": 0.0})
    weighed, _ = local_and_data(
        tmp_path, training={"model": model, "dropout": 0.0, "class_weights": [0.5, 3.0]}
    )
    due = records_of(even, data) * np.where(data.labels == 1, 3.0, 0.5)[:, None]
    assert len(set(data.labels.tolist())) == 2
    assert np.allclose(records_of(weighed, data), due, rtol=1e-10, atol=1e-14)


def test_the_gradient_of_a_user_is_the_mean_of_its_weighed_records(tmp_path: Path) -> None:
    local, data = local_and_data(tmp_path, training={"class_weights": [0.5, 3.0]})
    everybody = [np.arange(data.users)] * data.silos
    of_records = records_of(local, data)
    checked = 0
    for block in local.user_gradients(local.initial() + 0.1, everybody, 1):
        for user, silo, row in zip(block.user, block.silo, block.rows, strict=True):
            mine = (data.user == user) & (data.silo == silo)
            assert np.allclose(row, of_records[mine].mean(0), rtol=1e-9, atol=1e-12)
            checked += 1
    assert checked > 10


def test_even_weights_change_nothing(tmp_path: Path) -> None:
    even, data = local_and_data(tmp_path)
    ones, _ = local_and_data(tmp_path, training={"class_weights": [1.0, 1.0]})
    assert np.allclose(records_of(even, data), records_of(ones, data), rtol=1e-12, atol=1e-15)


@for_each("system", ["uldp-avg", "uldp-sgd", "uldp-naive", "uldp-group", "fedavg", "disco"])
def test_weights_stand_in_the_log_and_change_no_promise(tmp_path: Path, system: str) -> None:
    other: dict[str, Any] = {
        "uldp-group": {"uldp": {"group_records": 4}},
        "disco": {"privacy": {"unit": "silo", "noise_multiplier": 2.0}},
    }.get(system, {})
    write(tmp_path)
    weights = {"class_weights": [1.0, 1000.0]}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        weighed = pp.run(configuration(system, training=weights, **other), "weighed")
        even = pp.run(configuration(system, **other), "even")
        assert b'"class_weights":["1.0","1000.0"]' in Path("weighed/log.jsonl").read_bytes()
        assert b"class_weights" not in Path("even/log.jsonl").read_bytes()
        found, usual = audit_budget("weighed"), audit_budget("even")
    assert weighed.guarantee.epsilon == even.guarantee.epsilon
    assert found.supported == usual.supported
    assert [one.id for one in found.hazards] == [one.id for one in usual.hazards]


@for_each(
    "weights", [[1.0], [1.0, 2.0, 3.0], [1.0, 0.0], [1.0, -1.0], [1.0, 1e7], 2.0, ["a", "b"], []]
)
def test_weights_that_fit_no_classes_are_refused(tmp_path: Path, weights: Any) -> None:
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        with pytest.raises(InvalidInput, match="`class_weights`"):
            pp.run(configuration(training={"class_weights": weights}), "out")
    assert not (tmp_path / "out").exists()


def test_survival_has_no_classes(tmp_path: Path) -> None:
    tables = configuration(training={"class_weights": [1.0, 2.0]})
    tables["data"]["label"] = {
        "column": "age",
        "kind": "survival",
        "range": [0, 110],
        "event": "outcome",
        "values": ["no", "yes"],
    }
    tables["data"]["columns"] = {
        name: said for name, said in tables["data"]["columns"].items() if name != "age"
    }
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        with pytest.raises(InvalidInput, match="no classes"):
            pp.run(tables, "out")
