"""What `privplan run` prints of its examples, of test data and of each observer."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from ..cases import for_each
from .conftest import Refused, Run
from .runs import ROOT, log_of, written


def test_the_examples_are_configurations() -> None:
    from privplan.fl.settings.toml_file import read_settings

    settings = {path.name: read_settings(path) for path in (ROOT / "examples").glob("*.toml")}
    assert set(settings) >= {"heart.toml", "breast-cancer.toml"}


@pytest.mark.usefixtures("fl")
def test_the_example_works_out_of_the_box(run: Run) -> None:
    outcome = run("run", str(ROOT / "examples" / "breast-cancer.toml"), "--out", "out", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["result"]["epsilon"]["upper"] <= 8.0


@for_each(
    ("privacy", "more", "code"),
    [
        ("noise_multiplier = 1e19", "", 2),
        ("noise_multiplier = 1e150", "", 3),
        ("noise_multiplier = 1e-200", "", 3),
        ("noise_multiplier = 5.0", "clip = 1e308", 2),
        ("noise_multiplier = 5.0", "clip = 1e-300", 2),
    ],
)
@for_each("system", ["uldp-avg", "uldp-naive"])
@pytest.mark.usefixtures("fl")
def test_noise_that_cannot_be_drawn_is_refused_before_there_is_a_folder(
    system: str, privacy: str, more: str, code: int, refused: Refused
) -> None:
    config = written(system=system, privacy=privacy, more=more)
    assert refused("run", config, "--out", "out", code=code)
    assert not Path("out").exists()


@pytest.mark.usefixtures("fl")
def test_a_group_of_one_record_is_refused(refused: Refused) -> None:
    """A record that goes lets another one of its user in, so none could be promised anything."""
    config = written(system="uldp-group", more="batch = 4\n[uldp]\ngroup_records = 1")
    assert "group_records" in refused("run", config, "--out", "out", code=2)


@pytest.mark.usefixtures("fl")
def test_a_silo_that_holds_records_of_a_group_has_a_row_of_its_own(run: Run) -> None:
    """Its own flags say nothing of what lies elsewhere, so it has the number of any silo."""
    config = written(system="uldp-group", more="batch = 4\n[uldp]\ngroup_records = 4")
    said = run("run", config, "--out", "out").out
    assert "against a silo that has no records of the user, and knows its own noise" in said
    assert "against a silo that holds some of the user's records" in said
    envelope = run("audit", "budget", "out", "--json").json
    assert any(
        "of which it holds nothing itself" in sentence for sentence in envelope["assumptions"]
    )
    rows = {row["observer"]: row["epsilon"]["upper"] for row in envelope["result"]["observers"]}
    assert rows["silo-with-records"] == rows["silo"] < math.inf


@pytest.mark.usefixtures("fl")
@for_each(
    ("changes", "why"),
    [
        ({"more": '[evaluation]\ntest = "none"'}, 'test = "none" in [evaluation]'),
        ({"run": "evaluate_every = 0"}, "evaluate_every = 0 in [run]"),
    ],
)
def test_a_run_without_test_data_says_so(changes: dict[str, str], why: str, run: Run) -> None:
    outcome = run("run", written(**changes), "--out", "out")
    assert outcome.code == 0, outcome.err
    assert f"test      none: {why}" in outcome.out
    assert not any(line["type"] == "evaluation" for line in log_of("out"))
    assert run("audit", "budget", "out").code == 0
    assert run("report", "out", "-o", "page.html").code == 0
    assert "none: the model was not measured" in Path("page.html").read_text()
    envelope = run("run", written(**changes), "--out", "again", "--json").json
    assert envelope["result"]["metrics"] == {}
    assert envelope["result"]["test"] == {"public": False, "source": None, "why": why}
    assert not any("test records" in line for line in envelope["assumptions"])


@pytest.mark.usefixtures("fl")
def test_what_silos_must_not_tell_is_said(run: Run) -> None:
    for changes, weights in (({}, False), ({"more": 'weighting = "records"'}, True)):
        envelope = run("run", written(**changes), "--out", f"out-{weights}", "--json").json
        assert any("none of them tells another" in line for line in envelope["assumptions"])
        rows = {row["observer"]: row["rests_on"] for row in envelope["result"]["observers"]}
        assert set(rows) == {"model", "server", "silo", *(("silo-with-records",) * weights)}
        for observer in ("model", "server", "silo"):
            assert any("N_u" in supposition for supposition in rows[observer]) == weights
        assert not rows.get("silo-with-records")  # there is no number to rest on anything


@pytest.mark.usefixtures("fl")
def test_a_device_that_is_not_here_is_refused_before_there_is_a_folder(refused: Refused) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    text = Path(written(system="fedavg", run='device = "cuda"')).read_text()
    Path("run.toml").write_text(text.replace("[privacy]\nnoise_multiplier = 5.0\n", ""))
    assert "no device" in refused("run", "run.toml", "--out", "out")
    assert not Path("out").exists()


@pytest.mark.usefixtures("fl")
def test_what_is_said_against_a_silo_is_said_of_records_elsewhere(run: Run) -> None:
    """A silo sees what it holds, so no number can be about that."""
    said = run("run", written(), "--out", "out").out
    assert "against a silo, which knows its own noise, for records in other silos" in said
    rows = [
        line for line in run("audit", "budget", "out").out.splitlines() if "before silo" in line
    ]
    assert rows
    assert all(line.endswith(", of records in other silos") for line in rows)


@pytest.mark.usefixtures("fl")
def test_each_number_stands_with_what_it_rests_on(run: Run) -> None:
    records = written(more='weighting = "records"\n[security]\naggregation = "masked"', silos=3)
    said = run("run", records, "--out", "out").out.splitlines()
    numbers = [index for index, line in enumerate(said) if "epsilon" in line]
    assert len(numbers) == 3
    for index in numbers[1:]:
        assert said[index + 1].strip().startswith("rests on: N_u")
    assert "rests on: N_u" in said[numbers[0] + 2]  # under `against`
    (nothing,) = (index for index, line in enumerate(said) if "no guarantee against" in line)
    assert "because a silo that holds a record of a user" in said[nothing + 1]
    assert any(line.startswith("instead") and "uniform" in line for line in said)
    audited_said = run("audit", "budget", "out").out
    assert audited_said.count("rests on: N_u") == 3
    assert "before silo-with-records   no guarantee: a silo that holds a record" in audited_said
    assert "\nworst " in audited_said
    assert ", of 3 observers asked for" in " ".join(audited_said.split())
    assert "the same" not in audited_said


@pytest.mark.usefixtures("fl")
def test_a_coalition_that_learns_the_same_whatever_it_holds_is_said_once(run: Run) -> None:
    masked = '[security]\naggregation = "masked"\ncolluders = 2\ndropouts = 1'
    said = run("run", written(more=masked, silos=5), "--out", "out").out
    assert said.count("the server with 2 silos, whatever they hold, and 1 of the others") == 1
    assert "rests on: no more than 2 silos tell the server what they know; the noise of no" in said
    claimed = written(privacy='epsilon = 8\nobserver = "server+2"', more=masked, silos=5)
    said = run("run", claimed, "--out", "told").out
    assert "against   the server with 2 silos that hold nothing of the unit" in said
    result = run("audit", "budget", "told", "--json").json["result"]
    assert result["claim"]["observer"] == "server+2"
    assert result["supported"]
    assert result["epsilon"]["upper"] == pytest.approx(8.0, abs=1e-3)


_UTILITY = """
[run]
system = "fedpower-utility"
rounds = 1

[data]
name = "low-rank"
silos = 4

[privacy]
epsilon = 2
delta = 0.3
observer = "client"
accept_delta = true

[security]
aggregation = "masked"

[fedpower]
rank = 3
row_norm = 1
"""


@pytest.mark.usefixtures("fl")
def test_a_server_that_takes_noise_off_is_not_said_to_see_a_sum_alone(run: Run) -> None:
    Path("run.toml").write_text(_UTILITY)
    said = " ".join(run("run", "run.toml", "--dry-run").out.split())
    assert "which sees only the sum" not in said
    assert "the sum of all noise but one silo's" in said


@pytest.mark.usefixtures("fl")
def test_no_error_of_the_audit_is_foretold_of_units_that_a_log_does_not_count(run: Run) -> None:
    """Of rows a log states no number; an audit cannot hold delta against it."""
    Path("run.toml").write_text(_UTILITY)
    said = " ".join(run("run", "run.toml", "--dry-run").err.split())
    assert "Delta 0.3 was accepted" in said
    assert "such a delta an error" not in said


def test_progress_on_a_terminal_is_of_whom_the_claim_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A promise before peers is more than one before the model, so the model's says too little."""
    from types import SimpleNamespace

    from privplan.cli.commands import run as command
    from privplan.fl.running.checkpoint import RoundMeasurement

    shown: list[str] = []
    monkeypatch.setattr(
        "rich.progress.Progress.update",
        lambda *_, description, **__: shown.append(description),
    )
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(command.sys, "stderr", terminal)
    claim = SimpleNamespace(claim=SimpleNamespace(observer="peer"))
    ready = SimpleNamespace(prepared=SimpleNamespace(rounds=20, opening=claim))
    measured = RoundMeasurement(20, {"accuracy": 0.5}, {"model": 4.853, "peer": 5.0})
    with command._progress_bar(ready, shown=True) as tell:  # type: ignore[arg-type]
        assert tell is not None
        tell(measured, 20)
    assert shown == ["accuracy 0.5 epsilon so far 5.000, before peer"]
