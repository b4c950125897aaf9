"""Every released model is kept where a run asks for it, and held against the log."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.edits.replay import Replay, replay
from privplan.cli.main import app
from privplan.fl.frame.model import model_digest
from privplan.fl.running.checkpoint import MODEL_FILE, MODELS_FOLDER, Checkpoint, round_model_name
from privplan.fl.settings.toml_file import parse

from ..cli.killing import at_each_write, attempt
from ..cli.runs import NOISY_TRAINING
from . import forging

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)

CONFIG = (
    """\
[run]
system = "uldp-avg"
rounds = 3
[data]
name = "breast-cancer"
users = 6
silos = 3
"""
    + NOISY_TRAINING
    + """\
[log]
save_models = true
"""
)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "run.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def made(config: Path) -> Path:
    folder = config.parent / "run"
    attempt(config, folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def of(folder: Path) -> Replay:
    return replay(folder, folder / MODELS_FOLDER)


def test_every_released_model_is_kept(folder: Path) -> None:
    names = sorted(path.name for path in (folder / MODELS_FOLDER).iterdir())
    assert names == [round_model_name(number) for number in (1, 2, 3)]
    last = Checkpoint.read(folder / MODELS_FOLDER / round_model_name(3))
    assert model_digest(last.parameters) == model_digest(
        Checkpoint.read(folder / MODEL_FILE).parameters
    )
    assert of(folder) == Replay((1, 2, 3), (), (), (), ())
    assert audit_budget(folder).ok


def test_it_is_off_unless_asked_for_and_never_logged(made: Path) -> None:
    assert parse(CONFIG.encode(), "run.toml").log.save_models
    assert not parse(CONFIG.split("[log]")[0].encode(), "run.toml").log.save_models
    assert "save_models" not in (made / "log.jsonl").read_text()


def test_a_folder_that_is_in_the_way_is_told_before_the_first_round(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.fl.running.session import _Execution

    opened = _Execution.open

    def blocked(self: _Execution) -> None:
        opened(self)
        (self.folder / MODELS_FOLDER).write_text("in the way")

    monkeypatch.setattr(_Execution, "open", blocked)
    with pytest.raises(FileExistsError):
        attempt(config, tmp_path / "run")
    assert "round.intent" not in (tmp_path / "run" / "log.jsonl").read_text()


def test_whatever_moment_it_is_cut_off_at_models_are_kept(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    lost = 0
    for one in at_each_write(config, tmp_path / "runs"):
        folder = Path(one["folder"])
        found = of(folder)
        assert found.ok, (folder, found)
        assert edits_of(folder) == ()
        lost += len(found.lost)
    assert lost > 0


def removed(folder: Path) -> None:
    (folder / MODELS_FOLDER / round_model_name(2)).unlink()


def added(folder: Path) -> None:
    shutil.copy(
        folder / MODELS_FOLDER / round_model_name(2), folder / MODELS_FOLDER / round_model_name(4)
    )


def named_otherwise(folder: Path) -> None:
    (folder / MODELS_FOLDER / "round-2.npz").write_bytes(b"")


def exchanged(folder: Path) -> None:
    shutil.copy(
        folder / MODELS_FOLDER / round_model_name(2), folder / MODELS_FOLDER / round_model_name(3)
    )


def spoilt(folder: Path) -> None:
    (folder / MODELS_FOLDER / round_model_name(1)).write_bytes(b"no model")


def said_otherwise(folder: Path, number: int, **fields: object) -> None:
    """Change what the file of a round says of itself; its model stays."""
    path = folder / MODELS_FOLDER / round_model_name(number)
    with np.load(path) as held:
        content = dict(held)
    about = json.loads(content["about"].tobytes()) | fields
    np.savez(path, **{**content, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)})


def of_another_run(folder: Path) -> None:
    said_otherwise(folder, 2, run_id="0" * 32)


def of_another_round(folder: Path) -> None:
    said_otherwise(folder, 2, round=77)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (removed, "FAILED     missing-models: no file of round 2"),
        (added, "FAILED     surplus-model: round-000004.npz is of no round"),
        (named_otherwise, "FAILED     surplus-model: round-2.npz is of no round"),
        (exchanged, "exchanged-model: round-000003.npz holds the model of round 2; its round"),
        (of_another_run, "exchanged-model: round-000002.npz is of the run 00000000"),
        (of_another_round, "round-000002.npz says that its model is of round 77"),
        (spoilt, "exchanged-model: round-000001.npz is no model of a run"),
    ],
)
def test_what_does_not_belong_to_the_log_is_named(
    folder: Path, change: Callable[[Path], None], said: str
) -> None:
    models = str(folder / MODELS_FOLDER)
    good = CliRunner().invoke(app, ["audit", "log", str(folder), "--models", models])
    assert good.exit_code == 0
    assert "models     3, each the one that its round released" in good.stdout
    change(folder)
    assert not of(folder).ok
    bad = CliRunner().invoke(app, ["audit", "log", str(folder), "--models", models])
    assert bad.exit_code == 1
    assert said in bad.stdout


def test_models_beside_a_log_from_which_rounds_were_cut_are_surplus(
    made: Path, tmp_path: Path
) -> None:
    folder = forging.forged(
        made, tmp_path / "forged", forging.without_rounds([3]), forging.renumbered
    )
    assert of(folder).surplus == (round_model_name(3),)


@pytest.mark.parametrize("lines", [1, 2])
def test_a_run_that_has_released_no_model_yet_has_none_to_compare(folder: Path, lines: int) -> None:
    log = folder / "log.jsonl"
    log.write_text("".join(line + "\n" for line in log.read_text().splitlines()[:lines]))
    for path in (folder / MODELS_FOLDER).iterdir():
        path.unlink()
    assert of(folder) == Replay((), (), (), (), ())
    arguments = ["audit", "log", str(folder), "--models", str(folder / MODELS_FOLDER)]
    (folder / MODEL_FILE).unlink()
    (folder / "metrics.json").unlink()
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_models_must_be_there(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="no folder of models"):
        replay(folder, folder / "elsewhere")
