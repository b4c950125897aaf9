"""FedPower that is cut off: it goes on from the kept iterate, and what was begun is spent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.audit.verify import verify
from privplan.fl.fedpower.power import SINGULAR_VALUES
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, EARLY_FILE, MODEL_FILE, Checkpoint

from ...cases import for_each
from ...cli.killing import at_each_write
from ..extras import needs
from ..small_runs import interrupted, of, require_whole, resumed, started
from .power_runs import configuration

pytestmark = needs("sklearn", "cryptography")

DATA = 'name = "breast-cancer"\nusers = 12\nsilos = 3'
SEEDED = {"run": 'system = "fedpower-power"\nrounds = 3\nseed = 5', "data": DATA}

CONFIG = """\
[run]
system = "{system}"
{rounds}
[data]
name = "breast-cancer"
users = 12
silos = 3
[privacy]
noise_multiplier = 3.0
[security]
aggregation = "{aggregation}"
[fedpower]
rank = 2
row_norm = 6.0
"""


def written(folder: Path, system: str, aggregation: str = "plain", rounds: str = "") -> Path:
    path = folder / "run.toml"
    path.write_text(CONFIG.format(system=system, aggregation=aggregation, rounds=rounds))
    return path


@for_each("aggregation", ["plain", "masked", "shares"])
def test_seeded_runs_repeat(aggregation: str, whole: Any, tmp_path: Path) -> None:
    """The same to the last bit, however silos are summed; so any two of them are."""
    own = configuration(**{**SEEDED, "security": f'aggregation = "{aggregation}"'})
    again = started(own, tmp_path / "run.d")
    assert np.array_equal(again.parameters, whole(configuration(**SEEDED))[1].parameters)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
def test_a_power_iteration_goes_on_after_a_kill_at_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    config = written(tmp_path, "fedpower-power", "shares", "rounds = 2")
    tried = at_each_write(config, tmp_path / "runs")
    assert len(tried) > 20
    assert all("is closed" in each["refused"] for each in tried if each["refused"])
    for each in tried:
        folder = Path(each["folder"])
        if each["refused"]:  # closed, though files of the run were still there
            assert len(of(folder, records.RoundRelease)) == 2
            continue
        require_whole(folder, 2)
        kept = Checkpoint.read(folder / MODEL_FILE)
        assert kept.state[SINGULAR_VALUES].shape == (2,)
        basis = kept.parameters.reshape(30, 2)
        assert np.abs(basis.T @ basis - np.eye(2)).max() < 1e-12


def test_a_gram_release_is_never_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    tried = at_each_write(written(tmp_path, "fedpower"), tmp_path / "runs")
    assert all("is closed" in each["refused"] for each in tried if each["refused"])
    released = []
    for each in tried:
        folder = Path(each["folder"])
        verified = verify(folder)
        assert verified.complete, verified.problem
        assert len(of(folder, records.RoundIntent)) == 1
        (close,) = of(folder, records.RunClose)
        assert close.epsilon["model"] > 0.0  # spent, whether anything was released or not
        assert not (folder / EARLY_FILE).exists()
        kept = Checkpoint.read(folder / MODEL_FILE).parameters
        released.append(bool(of(folder, records.RoundRelease)))
        assert kept.any() == released[-1]
    assert released[-1]
    assert not all(released)


def test_a_round_that_is_lost_is_paid_for_and_the_next_one_is_made(
    whole: Any, tmp_path: Path
) -> None:
    """Stopped at the second intent, after round 1: round 2 is spent, and 3 starts from 1."""
    folder = tmp_path / "run.d"
    own = configuration(**SEEDED)
    interrupted(own, folder, after=5)  # opening, intent, release, evaluation, intent
    kept = Checkpoint.read(folder / CHECKPOINT_FILE)
    assert kept.round == 1
    done = resumed(own, folder)
    assert (done.rounds, done.planned) == (2, 3)
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    assert [one.round for one in intents] == [1, 2, 3]
    assert [one.round for one in releases] == [1, 3]
    assert intents[2].model_in == releases[0].model_out
    uncut_folder, uncut = whole(own)
    closes = [of(where, records.RunClose)[0] for where in (folder, uncut_folder)]
    assert closes[0].epsilon == closes[1].epsilon
    assert not np.array_equal(done.parameters, uncut.parameters)


def test_a_kept_iterate_that_was_changed_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from privplan.accountant.errors import InvalidInput

    folder, own = tmp_path / "run.d", configuration(**SEEDED)
    interrupted(own, folder, after=4)
    kept = Checkpoint.read(folder / CHECKPOINT_FILE)
    wrong: dict[str, Any] = {SINGULAR_VALUES: kept.state[SINGULAR_VALUES] + 1.0}
    replace(kept, state=wrong).write(folder / CHECKPOINT_FILE)
    with pytest.raises(InvalidInput):
        resumed(own, folder)


def test_dropouts_leave_enough_noise(tmp_path: Path) -> None:
    """With one share that may miss, each of the four is a third of the variance."""
    tables = {
        **SEEDED,
        "data": 'name = "breast-cancer"\nusers = 12\nsilos = 4',
        "security": 'aggregation = "masked"\ndropouts = 1',
    }
    started(configuration(**tables), tmp_path / "run.d")
    noise = of(tmp_path / "run.d", records.RoundIntent)[0].noise
    assert (noise.shares, noise.tolerated_dropouts) == (4, 1)
    assert noise.share_std == pytest.approx(noise.std / 3**0.5)
