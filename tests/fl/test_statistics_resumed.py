"""Private statistics that are cut off: the same release, and no new noise, or a spent intent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.audit.verify import verify
from privplan.fl.running import Configuration, ready_to_resume
from privplan.fl.running.checkpoint import EARLY_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.run_and_resume import resume

from ..cases import for_each
from ..cli.killing import at_each_write
from .extras import needs
from .small_runs import of

CONFIG = """\
[run]
system = "statistics"
[data]
name = "breast-cancer"
users = 12
silos = 3
[privacy]
noise_multiplier = 3.0
unit = "{unit}"
[security]
aggregation = "{aggregation}"
[statistics]
row_norm = 6.0
{table}
"""

pytestmark = needs("sklearn", "cryptography")


def configured(folder: Path, aggregation: str = "plain", unit: str = "record") -> Path:
    path = folder / "run.toml"
    table = "rows_per_user = 6" if unit == "user" else ""
    path.write_text(CONFIG.format(aggregation=aggregation, unit=unit, table=table))
    return path


def require_single_release(folder: Path) -> bool:
    """Require a closed run of one intent; return whether it has a release."""
    verified = verify(folder)
    assert verified.complete, verified.problem
    (intent,) = of(folder, records.RoundIntent)
    releases, (close,) = of(folder, records.RoundRelease), of(folder, records.RunClose)
    aborts = of(folder, records.RoundAbort)
    assert len(releases) <= 1
    assert close.rounds == len(releases)
    # Spent, whether anything was released or not.
    assert close.epsilon["model"] > 0.0
    kept = Checkpoint.read(folder / MODEL_FILE)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["released"] == len(releases)
    assert metrics["guarantees"]["model"]["epsilon"] > 0.0
    assert not (folder / EARLY_FILE).exists()
    assert not list(folder.glob(".*.part"))
    if releases:
        assert not aborts
        assert close.model == releases[0].model_out
        assert kept.round == 1
        assert kept.parameters.any()
    else:
        assert close.model == intent.model_in
        assert not any(measured["metrics"] for measured in metrics["rounds"])
        assert not kept.parameters.any()
    return bool(releases)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
@for_each(
    ("aggregation", "unit"),
    [("masked", "user"), pytest.param("shares", "record", marks=pytest.mark.slow)],
)
def test_what_a_kill_at_any_write_leaves_goes_on(
    aggregation: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a second intent: what was released is kept, and what was begun is spent."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    tried = at_each_write(configured(tmp_path, aggregation, unit), tmp_path / "runs")
    assert len(tried) > 15
    assert all("is closed" in each["refused"] for each in tried if each["refused"])
    released = [require_single_release(Path(each["folder"])) for each in tried]
    assert released[-1]  # nobody killed it
    assert not all(released)
    recovered = [Path(each["folder"]) for each in tried if not each["refused"]]
    assert any(of(folder, records.RunRecover) for folder in recovered)


class Killed(BaseException):
    """What stands for a process that ends at once."""


def killed(folder: Path, *patches: tuple[Any, str]) -> Path:
    """Make a run that is killed where one of these functions is called."""
    from privplan.fl.running import ready_new_run
    from privplan.fl.running.session import execute

    def kills(*_: Any, **__: Any) -> Any:
        raise Killed

    source, out = Configuration.read(configured(folder)), folder / "out"
    ready = ready_new_run(source, out)
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in patches:
            patched.setattr(owner, name, kills)
        with ready.writer, pytest.raises(Killed):
            execute(ready.prepared, out, ready.writer)
    return out


def test_a_run_that_is_killed_before_its_fit_draws_nothing_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its release, when it is first measured."""
    import privplan.fl.statistics.measure as module
    from privplan.accountant.mechanisms import NoisyGram

    out = killed(tmp_path, (module, "fitted"))
    (release,) = of(out, records.RoundRelease)
    statistics = [Checkpoint.read(path).parameters for path in out.glob("*.npz")]
    monkeypatch.setattr(NoisyGram, "share_steps", None)  # any draw would fail
    outcome = resume(out)
    assert require_single_release(out)
    assert of(out, records.RoundRelease) == [release]
    assert any(np.array_equal(outcome.parameters, kept) for kept in statistics)
    assert outcome.metrics["accuracy"] > 0.5


def test_a_release_that_was_kept_too_early_counts_for_nothing(tmp_path: Path) -> None:
    """Killed between the file and the line in the log: it was never released, and is not used."""
    from privplan.accountant.mechanisms.round_ticket import Ticket

    out = killed(tmp_path, (Ticket, "close"), (Ticket, "abort"))
    assert Checkpoint.read(out / EARLY_FILE).parameters.any()
    assert resume(out).result.rounds == 0
    assert not require_single_release(out)


def test_an_intent_that_dangles_is_spent_and_the_run_says_so(tmp_path: Path) -> None:
    import privplan.fl.statistics.system as module

    out = killed(tmp_path, (module.NoiseShown, "sent"))
    assert len(of(out, records.RoundIntent)) == 1
    outcome = resume(out)
    assert outcome.result.rounds == 0
    assert "0 of 1 rounds" in repr(outcome)
    assert not require_single_release(out)
    with pytest.raises(Exception, match="is closed"):
        ready_to_resume(Configuration.read(configured(tmp_path)), out)
