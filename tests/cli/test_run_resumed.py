"""`privplan run --resume`: a run that was cut off goes on, and nothing of it is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..cases import for_each
from ..usual_signals import usual_signals
from .conftest import Refused, Run
from .runs import content_of, log_of, written
from .test_run_killed import followed


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize("at", [1, 2, 5, 9, 11])
def test_ctrl_c_and_go_on(at: int, cut: Callable[..., Any], run: Run) -> None:
    outcome = cut(at, written(), "--out", "out")
    assert outcome.code == 130
    assert outcome.out == ""
    assert "privplan run --resume --out out" in outcome.err
    assert "Traceback" not in outcome.err
    again = run("run", "--resume", "--out", "out")
    assert again.code == 0, again.err
    assert [line["type"] for line in log_of("out")].count("run.close") == 1
    assert run("run", "--resume", "--out", "out").code == 2


@pytest.mark.usefixtures("fl")
def test_a_start_that_was_cut_off_loses_no_configuration(run: Run, refused: Refused) -> None:
    Path("out").mkdir()
    config = Path(written("out/config.toml", system="uldp-group", more="[uldp]\ngroup_records = 4"))
    wrong = config.read_text()
    config.write_text(wrong.replace("users = 6", "users = 6000"))
    refused("run", "--resume", "--out", "out")
    assert config.exists()
    config.write_text(wrong)
    assert run("run", "--resume", "--out", "out").code == 0


@pytest.mark.usefixtures("fl")
def test_a_full_disk_is_an_error_with_a_way_on(cut: Callable[..., Any], run: Run) -> None:
    full = OSError(28, "No space left on device")
    outcome = cut(4, written(), "--out", "out", error=full)
    assert outcome.code == 3
    assert "The run stopped: No space left on device" in outcome.err
    assert "privplan run --resume --out out" in outcome.err
    result = run("run", "run.toml", "--resume", "--out", "out", "--json").json["result"]
    assert result["rounds"] <= result["planned"] == 3


HIDDEN = """
[security]
aggregation = "private-weighting"
key_bits = 2048
"""


@pytest.mark.usefixtures("fl")
@for_each("step", ["meet", "update"])
def test_a_fault_of_a_protocol_leaves_its_trace_and_says_how_to_go_on(
    step: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`meet` is a step of the setup, before any round; `update` one of a round."""
    pytest.importorskip("phe")
    from privplan.accountant.errors import MissingParty
    from privplan.fl.uldp.weighting.enrolment import Enrolment
    from privplan.fl.uldp.weighting.silo import Silo

    def gone(*_: Any) -> None:
        raise MissingParty("silo-1 sent nothing.", "It is gone.", "Begin a new session.")

    config = written(more=HIDDEN)
    with monkeypatch.context() as patch:
        patch.setattr(Enrolment if step == "meet" else Silo, step, gone)
        outcome = run("run", config, "--out", "out")
    assert outcome.code == 1
    assert "silo-1 sent nothing" in outcome.err
    assert "new session" not in outcome.err
    assert "then: privplan run --resume --out out" in outcome.err
    last = log_of("out")[-1]
    assert (last["type"], last["round"], last["reason"]) == ("round.abort", 1, "missing-party")
    assert (last["intent"] is None) == (step == "meet")
    assert ("nothing is spent" in outcome.err) == (step == "meet")
    assert run("audit", "log", "out").code == 0
    again = run("run", "--resume", "--out", "out", "--json")
    assert again.code == 0, again.err
    assert again.json["result"]["rounds"] == (3 if step == "meet" else 2)
    assert run("audit", "budget", "out").code == 0


@pytest.mark.usefixtures("fl")
def test_what_was_lost_is_said(cut: Callable[..., Any], run: Run) -> None:
    cut(3, written(), "--out", "out")
    text = run("run", "--resume", "--out", "out").out
    assert "2 of 3 rounds" in text
    assert "1 rounds, spent where the run was cut off" in text or "1 round" in text


@pytest.mark.usefixtures("fl")
def test_what_must_not_be_resumed(cut: Callable[..., Any], refused: Refused) -> None:
    assert cut(9, written(), "--out", "out").code == 130
    before = Path("out/log.jsonl").read_bytes()
    resume = ("run", "--resume", "--out", "out")
    copy = Path("out/config.toml")
    original = copy.read_text()

    other = written("other.toml", privacy="noise_multiplier = 50.0")
    assert "differs from the run's own" in refused("run", other, "--resume", "--out", "out")

    copy.write_text(original.replace("rounds = 3", "rounds = 300"))
    assert "[run] rounds" in refused(*resume)
    copy.write_text(original)

    Path("out/log.jsonl").write_bytes(before.replace(b'"round":1', b'"round":9', 1))
    assert "is bad" in refused(*resume)
    Path("out/log.jsonl").write_bytes(before.replace(b"privplan-log/1", b"privplan-log/2"))
    assert "is bad" in refused(*resume)
    Path("out/log.jsonl").write_bytes(before)

    sealed = Path("out/sealed.jsonl").read_bytes()
    Path("out/sealed.jsonl").write_bytes(b"")
    assert "on which records" in refused(*resume)
    Path("out/sealed.jsonl").write_bytes(sealed)

    kept = Path("out/checkpoint.npz").read_bytes()
    Path("out/checkpoint.npz").write_bytes(kept[:-9])
    assert "checkpoint.npz is no model" in refused(*resume)
    Path("out/checkpoint.npz").unlink()
    assert "model is missing" in refused(*resume)
    Path("out/checkpoint.npz").write_bytes(kept)

    assert Path("out/log.jsonl").read_bytes() == before  # no refusal has changed the log
    assert "not an empty folder" in refused("run", "run.toml", "--out", "out")


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("damage", [b"", b"\r"])
def test_a_log_that_lost_its_lines_is_not_cleared_away(
    damage: bytes, kept: bool, cut: Callable[..., Any], refused: Refused
) -> None:
    cut(9, written(), "--out", "out")
    log = Path("out/log.jsonl")
    log.write_bytes(log.read_bytes().replace(b"\n", damage) if damage or not kept else b"")
    if not kept:
        Path("out/checkpoint.npz").unlink()
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    assert "lost its first line" in refused("run", "--resume", "--out", "out")
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize("lost", ["emptied", "removed"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_sidecar_of_a_round_is_not_cleared_away(
    lost: str, kept: bool, cut: Callable[..., Any], refused: Refused
) -> None:
    """Cut off before the first release was kept, and then the log was lost."""
    cut(3, written(), "--out", "out")
    Path("out/log.jsonl").write_bytes(b"")
    if lost == "removed":
        Path("out/log.jsonl").unlink()
    other = written("other.toml", privacy="noise_multiplier = 50.0")
    commands = [["--resume"], ["run.toml", "--resume"]]
    if not kept:
        Path("out/config.toml").unlink()
        commands += [["run.toml"], [other], [other, "--resume"]]
    before = content_of("out")
    for words in commands:
        assert "lost its first line" in refused("run", *words, "--out", "out")
        assert content_of("out") == before


@pytest.mark.usefixtures("fl")
def test_an_item_that_was_sealed_behind_a_line_is_not_cleared_away(
    cut: Callable[..., Any], refused: Refused
) -> None:
    cut(3, written(), "--out", "out")
    Path("out/log.jsonl").write_bytes(b"")
    sidecar = Path("out/sealed.jsonl")
    whole = sidecar.read_bytes()
    first, second = whole.splitlines(keepends=True)[:2]
    for left in (second, first + second[:9]):
        sidecar.write_bytes(left)
        assert "lost its first line" in refused("run", "--resume", "--out", "out")


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize("at", [2, 3, 6])
def test_a_configuration_that_was_removed_is_named_again_and_kept(
    at: int, cut: Callable[..., Any], run: Run, refused: Refused
) -> None:
    """Before the first release, at it, and behind it."""
    config = written("CONFIG.toml")
    cut(at, config, "--out", "a folder")
    Path("a folder/config.toml").unlink()
    before = content_of("a folder")
    other = written("other.toml", privacy="noise_multiplier = 50.0")
    error = refused("run", other, "--resume", "--out", "a folder")
    assert "begun with other settings; changed: [privacy] noise_multiplier" in error
    assert content_of("a folder") == before

    tried = followed(run, "run", "--resume", "--out", "a folder")
    assert tried[1:] == ["run CONFIG.toml --resume --out a folder"]
    assert Path("a folder/config.toml").read_bytes() == Path(config).read_bytes()
    assert run("audit", "budget", "a folder").code == 0


@pytest.mark.usefixtures("fl")
@for_each("number", [signal.SIGINT, signal.SIGTERM])
@usual_signals()
def test_an_interruption_at_the_last_line_leads_to_the_audit(
    number: signal.Signals, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.accountant.records import RunClose
    from privplan.fl.log import LogWriter

    append = LogWriter.append

    def signalled(self: LogWriter, record: Any) -> int:
        if isinstance(record, RunClose):
            signal.raise_signal(number)
        return append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "append", signalled)
        outcome = run("run", written(), "--out", "out")
    assert outcome.code == 130
    assert log_of("out")[-1]["type"] == "run.close"
    assert "next: privplan audit budget out" in outcome.err
    assert run("audit", "budget", "out").code == 0


@pytest.mark.usefixtures("fl")
def test_the_folder_of_a_closed_run_leads_to_its_audit(run: Run) -> None:
    assert run("run", written(), "--out", "out").code == 0
    other = written("other.toml", privacy="noise_multiplier = 50.0")
    for words in (["run.toml"], ["--resume"], [other], [other, "--resume"]):
        assert followed(run, "run", *words, "--out", "out")[1:] == ["audit budget out"]


@pytest.mark.usefixtures("fl")
def test_a_folder_of_other_files_leads_to_a_new_one(run: Run) -> None:
    written("CONFIG.toml")
    folder = Path("out")
    folder.mkdir()
    (folder / "log.jsonl").touch()
    (folder / "notes.txt").write_text("mine")
    before = content_of("out")
    tried = followed(run, "run", "--resume", "--out", "out")
    assert tried[1:] == ["run CONFIG.toml --out DIR"]
    assert content_of("out") == before


@pytest.mark.usefixtures("fl")
@for_each("moment", ["log", "configuration", "report"])
def test_an_interruption_outside_of_the_rounds_says_how_to_go_on(
    moment: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the log was made, after the configuration was kept, and after the last line."""
    from privplan.cli.reports import run as run_report
    from privplan.fl.running import begin_or_resume, warnings

    if moment == "log":
        owner, name = begin_or_resume, "save_configuration"
    elif moment == "configuration":
        owner, name = warnings, "warnings_of"
    else:
        owner, name = run_report, "report_of"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    words = ("run", written(), "--out", "out")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        outcome = run(*words, "--json")
    assert outcome.code == 130
    error = outcome.json["error"]
    assert error["what"] == "The run was interrupted."
    assert error["next"] in outcome.err
    command = error["next"].removeprefix("privplan ").split()
    assert (
        command
        == {
            "log": ["Give", "the", "same", "command", "again."],
            "configuration": ["run", "--resume", "--out", "out"],
            "report": ["audit", "budget", "out"],
        }[moment]
    )
    assert run(*(words if moment == "log" else command)).code == 0
    assert log_of("out")[-1]["type"] == "run.close"


@pytest.mark.usefixtures("fl")
@for_each("empty", [True, False])
def test_a_run_that_another_process_began_meanwhile_is_not_cleared_away(
    empty: bool, run: Run, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.fl.running import preparation

    folder, prepare = Path("out"), preparation.prepare
    folder.mkdir()
    Path(written()).rename(folder / "config.toml")
    for name in ("log.jsonl", "sealed.jsonl") if empty else ():
        (folder / name).touch()
    resume = ("run", "--resume", "--out", "out")

    def slowly(*values: Any, **named: Any) -> Any:
        monkeypatch.setattr(preparation, "prepare", prepare)
        assert run(*resume).code == 0  # the other process
        return prepare(*values, **named)

    monkeypatch.setattr(preparation, "prepare", slowly)
    assert "was begun by another process" in refused(*resume)
    assert run("audit", "log", "out").code == 0
    assert len(list(folder.iterdir())) == 5


@pytest.mark.usefixtures("fl")
def test_a_configuration_that_cannot_be_kept_leaves_no_folder(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("privplan.fl.files.atomic.write", full)
    outcome = run("run", written(), "--out", "out")
    assert outcome.code == 3
    assert "config.toml cannot be written: No space left on device" in outcome.err
    assert not Path("out").exists()


@pytest.mark.usefixtures("fl")
def test_other_records_are_refused(
    cut: Callable[..., Any], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.fl.datasets import breast_cancer

    cut(6, written(), "--out", "out")
    real = breast_cancer.bundled

    def other(*words: Any) -> Any:
        features, labels = real(*words)
        features = features.copy()
        features[3, 2] += 1.0
        return features, labels

    monkeypatch.setattr(breast_cancer, "bundled", other)
    assert "not those that the run was begun with" in refused("run", "--resume", "--out", "out")
