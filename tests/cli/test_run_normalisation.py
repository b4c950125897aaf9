"""`privplan run` with normalisation = "private": one release more, in the plan, log and audit."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant import records
from privplan.audit.verify import verify
from privplan.fl.log import read

from ..cases import for_each
from .conftest import Refused, Run
from .killing import at_each_write

CONFIG = """\
[run]
system = "{system}"
rounds = 2
[data]
name = "breast-cancer"
users = 6
silos = 2
{data}
[privacy]
{privacy}
{more}
"""

TRAINING = "[training]\nlocal_rate = 0.1\nlocal_epochs = 1\nbatch = 64"

PRIVATE = 'normalisation = "private"'
NOISE = "noise_multiplier = 5.0\nnormalisation_noise = 3.0"

needs_fl = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)


def written(
    *, system: str = "uldp-avg", data: str = PRIVATE, privacy: str = NOISE, more: str = TRAINING
) -> str:
    Path("run.toml").write_text(CONFIG.format(system=system, data=data, privacy=privacy, more=more))
    return "run.toml"


@for_each(
    ("changes", "what"),
    [
        ({"privacy": "noise_multiplier = 5.0"}, "lacks `normalisation_noise` in [privacy]"),
        ({"data": ""}, "gives `normalisation_noise` in [privacy], which has no effect"),
        ({"data": 'normalisation = "none"'}, "which has no effect"),
        ({"system": "fedavg", "privacy": ""}, "fedavg cannot pay for it"),
        (
            {"system": "uldp-group", "more": "[uldp]\ngroup_records = 4"},
            "uldp-group cannot pay for it",
        ),
        (
            {"system": "uldp-naive", "more": "[uldp]\nas_published = true"},
            "uldp-naive as published cannot pay for it",
        ),
        (
            {"privacy": "noise_multiplier = 5.0\nnormalisation_noise = 0"},
            "`normalisation_noise` must be",
        ),
        ({"data": 'normalisation = "privat"'}, 'Did you mean normalisation = "private"?'),
    ],
)
def test_what_does_not_go_together_is_refused(
    changes: dict[str, str], what: str, refused: Refused
) -> None:
    assert what in refused("run", written(**changes), "--out", "out")
    assert not Path("out").exists()


def test_the_page_shows_the_keys(run: Run) -> None:
    page = " ".join(run("explain", "run").out.split())
    assert "normalisation_noise noise over the bound on one user" in page
    assert "released with noise, once, before the training (private)" in page
    assert "A run that is cut off in the middle of that release has lost it" in page


@needs_fl
@for_each(
    "changes",
    [
        {},
        {"more": f'{TRAINING}\nweighting = "records"'},
        {"system": "uldp-sgd", "more": "", "privacy": "epsilon = 4.0\nnormalisation_noise = 5.0"},
        {"system": "uldp-naive"},
        {"privacy": f'{NOISE}\nsampling_rate = 0.5\nneighbours = "replace-one"'},
        {"privacy": f"{NOISE}\nepsilon = 1.8"},
    ],
)
def test_the_audit_derives_both_phases(changes: dict[str, str], run: Run) -> None:
    outcome = run("run", written(**changes), "--out", "out", "--json")
    assert outcome.code == 0, outcome.err
    said = outcome.json["result"]
    assert run("audit", "log", "out").code == 0
    audited = run("audit", "budget", "out", "--json")
    result = audited.json["result"]
    assert audited.code == 0, result["hazards"]
    assert not [hazard for hazard in result["hazards"] if hazard["severity"] != "note"]
    log_records = [line.record for line in read("out")]
    (close,) = [record for record in log_records if isinstance(record, records.RunClose)]
    derived = {row["observer"]: row["epsilon"]["upper"] for row in result["observers"]}
    for who, epsilon in close.epsilon.items():
        assert float(derived[who]) == pytest.approx(epsilon, rel=1e-5)
    assert result["rounds"] == result["released"] == said["rounds"] + 1
    phases = [record.phase for record in log_records if isinstance(record, records.RoundIntent)]
    assert phases == ["normalise", *["train"] * said["rounds"]]


@needs_fl
def test_the_report_says_that_features_were_normalised(run: Run) -> None:
    outcome = run("run", written(), "--out", "out")
    assert outcome.code == 0, outcome.err
    assert "by moments with noise multiplier 3; each epsilon pays for them" in outcome.out
    with np.load("out/model.npz") as arrays:
        assert arrays["normalisation_mean"].shape == (30,)
        assert (arrays["normalisation_scale"] > 0.0).all()


@needs_fl
def test_killed_at_every_write_no_moments_are_released_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a kill spares what was written
    text = CONFIG.format(system="uldp-avg", data=PRIVATE, privacy=NOISE, more=TRAINING)
    config = tmp_path / "run.toml"
    config.write_text(text.replace("rounds = 2", "rounds = 1"))
    killed = at_each_write(config, tmp_path / "runs")
    lost = 0
    assert len(killed) > 25
    for attempted in killed:
        folder = Path(attempted["folder"])
        log_records = [line.record for line in read(folder)]
        begun = [record for record in log_records if isinstance(record, records.RoundIntent)]
        releases = [record for record in log_records if isinstance(record, records.RoundRelease)]
        assert [record.round for record in begun] in ([0], [0, 1])
        if verify(folder).complete:
            assert [record.round for record in begun] == [0, 1]
            assert releases[0].round == 0
            continue
        lost += 1
        assert "cut off while it released the moments" in attempted["refused"]
        assert not releases
        assert len(begun) == 1
    # Between the intent and the release of the moments: their file, and the start of the line.
    assert 1 <= lost <= 8


@needs_fl
@for_each("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_where_resuming_cannot_help_another_way_on_is_named(
    error: BaseException, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments are spent and lost: `--resume` would refuse."""
    from privplan.fl.log import LogWriter

    append = LogWriter.append

    def failing(self: LogWriter, record: records.Record) -> int:
        if isinstance(record, records.RoundRelease):
            raise error
        return append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "append", failing)
        outcome = run("run", written(), "--out", "out")
    assert "Start a new run in another folder" in outcome.err
    assert "--resume" not in outcome.err
    assert run("run", "--resume", "--out", "out").code == 2
