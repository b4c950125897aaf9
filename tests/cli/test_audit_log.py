"""`privplan audit log`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import privplan as pp
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter
from privplan.fl.log.hash_chain import LOG
from privplan.fl.log.reader import UNBEGUN

from ..audit import logs
from .conftest import Refused, Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole run of three rounds."""
    return logs.small_log(tmp_path / "run", fsync="records")


def test_a_good_log(run: Run, folder: Path) -> None:
    outcome = run("audit", "log", "run")
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out == (
        f"records    8\nhead       {verify(folder).head}\ncomplete   yes\n"
        "run        uldp-avg, run-1\nchecked    chain only (privplan explain log)\n"
    )


def test_json_of_a_good_log(run: Run, folder: Path) -> None:
    outcome = run("audit", "log", "run", "--json")
    assert outcome.code == 0
    assert outcome.json["ok"] is True
    assert outcome.json["result"] == {
        "records": 8,
        "head": verify(folder).head,
        "complete": True,
        "problem": None,
        "first_bad": None,
        "torn": None,
        "run_id": "run-1",
        "dangling": [],
        "recoveries": 0,
        "signed": None,
        "anchor": None,
        "checked": "chain only",
        "up_to": None,
        "signature": None,
        "contradictions": [],
        "models": None,
    }


def test_what_no_run_writes_fails_although_the_chain_is_whole(run: Run, folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_[3].update(round=3) or all_[4].update(round=3))
    outcome = run("audit", "log", "run")
    assert outcome.code == 1
    assert "complete   no\n" in outcome.out
    assert "FAILED     missing-rounds: Behind round 1 stands round 3" in outcome.out
    result = run("audit", "log", "run", "--json").json
    assert result["ok"] is False
    (contradiction,) = result["result"]["contradictions"]
    assert contradiction["id"] == "missing-rounds"
    assert result["result"]["complete"] is False


def test_quiet_prints_the_head_which_is_the_anchor_of_later(run: Run, folder: Path) -> None:
    head = run("audit", "log", "run", "-q").out
    assert head == f"{verify(folder).head}\n"
    outcome = run("audit", "log", "run", "--head", head.upper())
    assert outcome.code == 0
    assert "line 8 has the expected head" in outcome.out


@pytest.mark.parametrize("flags", [(), ("--json",), ("-q",)])
def test_a_bad_line_is_named_and_fails(run: Run, folder: Path, flags: tuple[str, ...]) -> None:
    lines = logs.lines_of(folder)
    logs.write_lines(folder, [*lines[:3], *lines[4:]])
    outcome = run("audit", "log", "run", *flags)
    assert outcome.code == 1
    if not flags:
        assert "FAILED     line 4 is bad: `seq` is 4 where 3 belongs" in outcome.out
        assert "complete   no" in outcome.out
    if flags == ("--json",):
        assert outcome.json["ok"] is False
        result = outcome.json["result"]
        assert result["first_bad"]["line"] == 4
        assert "removed" in result["first_bad"]["reason"]
        assert result["records"] == 3
        assert result["complete"] is False


def test_a_torn_line_is_named_and_fails(run: Run, folder: Path) -> None:
    with (folder / LOG).open("a") as file:
        file.write('{"aggre')
    outcome = run("audit", "log", "run")
    assert outcome.code == 1
    assert "line 9 is torn: the last 7 bytes were cut off" in outcome.out
    assert run("audit", "log", "run", "--json").json["result"]["torn"] == {"line": 9, "bytes": 7}


def test_a_newer_format_is_refused_clearly(run: Run, folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_[0].update(schema="privplan-log/2", new=1))
    outcome = run("audit", "log", "run")
    assert outcome.code == 1
    assert "line 1 is bad: The log is written as `privplan-log/2`" in outcome.out
    assert "reads `privplan-log/1`" in outcome.out


def test_a_run_that_is_not_closed_is_no_failure(run: Run, tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False, fsync="records")
    outcome = run("audit", "log", "run")
    assert outcome.code == 0
    assert "complete   no" in outcome.out
    assert outcome.err.startswith("warning: The run is not closed.")
    assert run("audit", "log", "run", "--head", str(verify(folder).head)).err == ""


def test_spending_without_release_is_shown(run: Run, tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False, fsync="records")
    with LogWriter.resume(folder, randomness=logs.SECURE)[0] as writer:
        writer.append(logs.intent(4))
    with LogWriter.resume(folder, randomness=logs.SECURE)[0] as writer:
        writer.append(logs.closing(3))
    out = run("audit", "log", "run").out
    assert "dangling     1 intent without a release, spent\n" in out
    assert "recoveries   2\n" in out
    result = run("audit", "log", "run", "--json").json["result"]
    assert result["dangling"] == [8]
    assert result["recoveries"] == 2


def test_an_empty_log(run: Run, tmp_path: Path) -> None:
    LogWriter.create(tmp_path / "run").close()
    outcome = run("audit", "log", "run", "--json")
    assert outcome.code == 1
    assert outcome.json["result"]["head"] is None
    assert outcome.json["result"]["records"] == 0
    assert outcome.json["result"]["problem"] == UNBEGUN
    assert "none: the log is empty" in run("audit", "log", "run").out


def test_an_empty_log_is_no_run_for_any_command(run: Run, refused: Refused, tmp_path: Path) -> None:
    """A start that was killed before its first line leaves it, or half of that line."""
    folder = LogWriter.create(tmp_path / "run").close() or tmp_path / "run"
    for torn in ("", '{"aggregation":"pl'):
        (folder / LOG).write_text(torn)
        log, budget = run("audit", "log", "run"), run("audit", "budget", "run")
        assert (log.code, budget.code) == (1, 1)
        assert f"FAILED     no-run: {UNBEGUN}\n" in log.out
        said = " ".join(budget.out.split())
        assert f"error no-run {UNBEGUN[0].upper()}{UNBEGUN[1:]}." in said
        assert "broken-chain" not in said
        assert UNBEGUN in " ".join(refused("report", "run", "-o", "page.html").split())
        assert "no run to say anything about" in " ".join(refused("audit", "attack", "run").split())


def test_a_log_that_may_have_lost_intents_says_so(run: Run, tmp_path: Path) -> None:
    logs.small_log(tmp_path / "run", fsync="never")
    outcome = run("audit", "log", "run")
    assert outcome.code == 0
    assert "fsync `never`" in " ".join(outcome.err.split())


def test_another_anchor_fails(run: Run, folder: Path) -> None:
    assert folder.is_dir()
    outcome = run("audit", "log", "run", "--head", "0" * 64)
    assert outcome.code == 1
    assert "FAILED     no line has the expected head" in outcome.out


def test_signatures(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, other = (Ed25519PrivateKey.from_private_bytes(bytes([byte] * 32)) for byte in (1, 2))
    logs.small_log(tmp_path / "run", key=key, fsync="records")
    for name, private_key in (("key", key), ("other", other)):
        (tmp_path / name).write_text(private_key.public_key().public_bytes_raw().hex())
    good = run("audit", "log", "run", "--public-key", "key")
    assert good.code == 0
    assert "signed     lines 1 to 8" in good.out
    bad = run("audit", "log", "run", "--public-key", "other")
    assert bad.code == 1
    assert "signed by another key" in bad.out
    assert "No signature covers" not in good.err


def test_lines_behind_the_last_signature_are_told(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
    logs.small_log(tmp_path / "run", close=False, key=key, sign_every=3)
    (tmp_path / "key").write_text(key.public_key().public_bytes_raw().hex())
    outcome = run("audit", "log", "run")
    assert outcome.code == 0
    assert "No signature covers the lines after line 7" in outcome.err
    outcome = run("audit", "log", "run", "--public-key", "key")
    assert outcome.code == 1
    assert "the end is not signed: the last signature covers line 7" in outcome.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "There is no folder nowhere."),
        (("file",), "file is not a folder."),
        (("empty",), "empty holds no log.jsonl."),
        (("run", "--head", "abc"), "must be 32 to 64 hexadecimal digits"),
        (("run", "--public-key", "nowhere"), "nowhere cannot be read"),
        (("run", "--public-key", "file"), "holds no Ed25519 public key"),
        ((), "Missing argument"),
        (("run", "--colour", "red"), "has no option --colour"),
    ],
)
def test_what_cannot_be_asked(
    refused: Refused, folder: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert folder.is_dir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    said = refused("audit", "log", *words)
    assert message in said


def test_usage_errors_name_the_whole_command(refused: Refused) -> None:
    assert "next: privplan audit log --help" in refused("audit", "log")


@pytest.mark.usefixtures("folder")
def test_a_log_that_may_not_be_read(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("privplan.fl.log.reader.open_regular", denied)
    assert "cannot be read: Permission denied" in refused("audit", "log", "run")


def test_names_in_a_log_cannot_speak_to_the_terminal(run: Run, folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_[0].update(system="\x1b[31mred", run_id="a\nb"))
    out = run("audit", "log", "run").out
    assert "\x1b" not in out
    assert "\\x1b[31mred, a b\n" in out


def test_the_group_alone_shows_its_commands(run: Run) -> None:
    outcome = run("audit")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "log" in outcome.err


def test_it_needs_no_numbers_and_no_extra(folder: Path) -> None:
    heavy = ("numpy", "scipy", "torch", "cryptography", "rich")
    program = (
        "import sys\n"
        "from privplan.cli.main import app\n"
        "try:\n"
        "    app(['audit', 'log', sys.argv[1]])\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"
    assert json.loads(logs.lines_of(folder)[0])["run_id"] in done.stdout


@pytest.mark.slow
def test_the_commands_take_the_folder_of_a_loop_of_others(run: Run, tmp_path: Path) -> None:
    """A log that `RunLog` wrote is checked, audited and reported, and not attacked."""
    plan = pp.TrainingPlan(
        steps=3,
        noise_multiplier=1.0,
        clip=1.0,
        delta=1e-5,
        rate=0.01,
        rate_source="published",
        steps_per_intent=2,
    )
    with pp.RunLog(tmp_path / "loop", plan) as log:
        for size in (3, 5, 4):
            with log.step(batch_size=size):
                pass
    for words in (("audit", "log"), ("audit", "budget"), ("check",)):
        outcome = run(*words, "loop", "--json")
        assert outcome.code == 0, outcome.err
    assert outcome.json["result"]["verdict"] == "holds"
    budget = run("audit", "budget", "loop").out
    assert "3 of 3 rounds" not in budget
    assert "2 of 2 rounds, closed" in budget
    assert run("report", "loop", "-o", "loop.html").code == 0
    attacked = run("audit", "attack", "loop", "--no-append")
    assert attacked.code == 3
    assert "privplan audit counts" in attacked.err
