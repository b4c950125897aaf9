"""A system without gradients: no torch, its own measures, and named parts of what it releases."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.training.local_training import NoTraining

from .extras import needs
from .foreign import BROUGHT

pytestmark = needs("sklearn")


def by_itself(role: str, folder: Path) -> list[str]:
    """Do something with the system in a process of its own; return what it said."""
    command = (sys.executable, str(BROUGHT / "conducting.py"), role, "means", str(folder))
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1]


def test_a_run_its_resume_and_its_audit_load_no_torch(conducting: Any, tmp_path: Path) -> None:
    """And it ends where it would have; that a system that trains loads torch, `test_hooks` has."""
    killed = f"means {-signal.SIGKILL}"
    assert by_itself("killed,whole,audited", tmp_path) == [killed, "4", "no torch"]
    assert by_itself("resumed,audited", tmp_path) == ["4", "no torch"]
    for folder in ("whole", "means"):
        kept = Checkpoint.read(tmp_path / folder / MODEL_FILE)
        assert set(kept.arrays()) == {"mean", "count"}
        assert kept.state["average"].shape == (31,)
        metrics = json.loads((tmp_path / folder / "metrics.json").read_text())
        assert [set(one["metrics"]) for one in metrics["rounds"]] == 4 * [{"distance"}]
    parameters, state = conducting.uninterrupted("means", conducting.CUT)
    assert kept.parameters.tobytes() == parameters.tobytes()
    assert kept.state["average"].tobytes() == state["average"].tobytes()


def test_nothing_is_there_to_train_with(conducting: Any) -> None:
    from privplan.fl.running.preparation import prepare

    prepared = prepare(conducting.settings_of("means"))
    assert prepared.trained is None
    assert prepared.width == 31
    with pytest.raises(Unsupported, match=r"means \(package numpy\) trains no model"):
        _ = prepared.model
    local = prepared.system.setup.local
    nobody, x = [np.arange(0)], np.zeros(3)
    for call in (
        local.initial,
        lambda: local.user_deltas(x, nobody, 1),
        lambda: local.user_gradients(x, nobody, 1),
        lambda: local.silo_deltas(x, 1),
        lambda: local.record_gradients(x[None], np.arange(0), 0),
    ):
        with pytest.raises(Unsupported, match="declares that it does not train"):
            call()
    assert isinstance(local, NoTraining)


def test_parts_that_are_not_all_of_it_are_refused(
    conducting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import means

    from privplan.fl.running.preparation import prepare

    monkeypatch.setattr(means.Means, "parts", {"mean": (30,)})
    with pytest.raises(InvalidInput, match=r"`parts` of means .* 30 numbers; its vector has 31"):
        prepare(conducting.settings_of("means"))


def test_files_keep_parts_and_earlier_ones_are_one_part(tmp_path: Path) -> None:
    kept = Checkpoint("run", 1, "m", np.arange(6.0), parts=(("a", (2, 2)), ("b", (2,))))
    kept.write(tmp_path / MODEL_FILE)
    found = Checkpoint.read(tmp_path / MODEL_FILE)
    assert found.parts == kept.parts
    assert found.arrays()["a"].tolist() == [[0.0, 1.0], [2.0, 3.0]]
    earlier = replace(kept, parts=())
    earlier.write(tmp_path / MODEL_FILE)
    assert "parts" not in json.loads(np.load(tmp_path / MODEL_FILE)["about"].tobytes())
    assert list(Checkpoint.read(tmp_path / MODEL_FILE).arrays()) == ["parameters"]
    for parts in ((("a", (2, 2)),), (("a", (7,)),)):
        replace(kept, parts=parts).write(tmp_path / CHECKPOINT_FILE)
        with pytest.raises(InvalidInput, match="no model of a run"):
            Checkpoint.read(tmp_path / CHECKPOINT_FILE)


def test_a_trained_model_names_its_layers() -> None:
    pytest.importorskip("torch")
    from privplan.fl.models import model_named

    for name, features in (("logistic", 4), ("mlp", 4), ("cnn", 784), ("softmax", 4)):
        model = model_named(name, features, 3 if name in ("softmax", "cnn") else 2)
        assert sum(int(np.prod(one)) for one in model.parts.values()) == model.parameters
        assert tuple(model.parts.values()) == tuple(map(tuple, model.shapes))
