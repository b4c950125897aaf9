"""`privplan run`, from the configuration to the log, and back into a run that was cut off."""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privplan.accountant.errors import MissingExtra
from privplan.cli.run_page import run_page
from privplan.fl.declarations.registry import keys_by_table

from .conftest import Refused, Run
from .test_run_killed import followed

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("PRIVPLAN_DATA", ROOT / ".." / "shared" / "data"))

CONFIG = """\
[run]
system = "{system}"
rounds = 3
{run}
[data]
name = "breast-cancer"
users = 6
silos = {silos}
[privacy]
{privacy}
[training]
local_rate = 0.1
local_epochs = 1
{more}
"""


def written(
    name: str = "run.toml",
    *,
    system: str = "uldp-avg",
    run: str = "",
    privacy: str = "noise_multiplier = 5.0",
    more: str = "",
    silos: int = 2,
) -> str:
    given = {"system": system, "run": run, "privacy": privacy, "more": more, "silos": silos}
    Path(name).write_text(CONFIG.format(**given))
    return name


@pytest.fixture
def fl() -> None:
    """Skip without the packages of the extra."""
    for name in ("torch", "sklearn", "cryptography"):
        pytest.importorskip(name)


def log_of(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]


# -- without any package of the extra -----------------------------------------------------------


def test_the_page_names_every_key() -> None:
    text = run_page()
    for name, keys in keys_by_table().items():
        assert f"[{name}]" in text
        for key in keys:
            assert f"\n  {key.name} " in text
            assert " ".join(key.default.split()[:1]) in text


def test_a_configuration_and_a_folder_are_needed(refused: Refused) -> None:
    assert "`out` is missing" in refused("run", written())
    assert "configuration is missing" in refused("run", "--out", "out")
    assert "cannot be read" in refused("run", "missing.toml", "--out", "out")
    assert not Path("out").exists()


def test_a_wrong_configuration_writes_nothing(refused: Refused) -> None:
    error = refused("run", written(run="round = 3"), "--out", "out")
    assert "unknown key `round` in [run]" in error
    assert "next: Did you mean `rounds`?" in error
    assert "not available yet" in refused("run", written(system="disco"), "--out", "out", code=3)
    assert not Path("out").exists()


def test_a_folder_that_holds_anything_is_refused(refused: Refused) -> None:
    Path("out").mkdir()
    (Path("out") / "thesis.pdf").write_text("mine")
    assert "Give a new folder" in refused("run", written(), "--out", "out")
    assert [one.name for one in Path("out").iterdir()] == ["thesis.pdf"]
    Path("file").write_text("mine")
    assert "not an empty folder" in refused("run", written(), "--out", "file")
    Path("link").symlink_to("nowhere")
    assert "not an empty folder" in refused("run", written(), "--out", "link")


def test_nothing_to_resume(refused: Refused) -> None:
    assert "holds no run to resume" in refused("run", "--resume", "--out", "out")
    Path("out").mkdir()
    assert "holds no run to resume" in refused("run", "--resume", "--out", "out")


class Absent:
    """Finds no module of a package, as if it were not installed."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == self.package:
            raise ModuleNotFoundError("absent", name=name)


@pytest.mark.parametrize("package", ["torch", "cryptography"])
@pytest.mark.usefixtures("fl")
def test_missing_packages_are_named_with_the_command(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of privplan is imported anew where that package is not to be found."""
    before = dict(sys.modules)
    for name in before:
        if name.split(".")[0] in (package, "privplan"):
            del sys.modules[name]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "meta_path", [Absent(package), *sys.meta_path])
            fresh = importlib.import_module("privplan.cli.main")
            outcome = CliRunner().invoke(fresh.app, ["run", written(), "--out", "out"])
    finally:  # other tests are to find the modules that they know, and no others
        for name in [one for one in sys.modules if one.split(".")[0] == "privplan"]:
            del sys.modules[name]
        sys.modules.update(before)
    assert outcome.exit_code == 4, outcome.stderr
    what, _, step = outcome.stderr.splitlines()
    assert package in what.lower()
    assert step.startswith(" next: pip install ")
    assert "[fl]" in step
    assert not Path("out").exists()


def test_a_missing_extra_keeps_its_kind() -> None:
    from privplan.cli.run_command import _with_command

    found = _with_command(MissingExtra("No torch.", "why", "pip"))
    assert found.what == "No torch."
    assert found.next_step.startswith("pip install ")


# -- whole runs ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("fl")
def test_a_run_says_what_it_proves(run: Run) -> None:
    outcome = run("run", written(), "--out", "out")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    rows = dict(line.split("   ", 1) for line in outcome.out.splitlines() if line[0] != " ")
    rows = {key.strip(): value.strip() for key, value in rows.items()}
    assert rows["trained"].startswith("uldp-avg on breast-cancer: 3 of 3 rounds, 6 users, 2 silos")
    assert rows["proves"].startswith("epsilon 1.3")
    assert "at delta 1e-05, adding or removing one user" in rows["proves"]
    assert rows["against"] == "whoever sees the released models"
    assert "against the server" in outcome.out
    assert rows["test"].startswith("accuracy ")
    assert "on 113 records that are declared public" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 100
    assert rows["next"] == "privplan audit budget out"
    assert log_of("out")[-1]["hash"] == rows["head"]
    assert {one.name for one in Path("out").iterdir()} == {
        *("config.toml", "log.jsonl", "sealed.jsonl", "model.npz", "metrics.json"),
    }
    assert Path("out/config.toml").read_bytes() == Path("run.toml").read_bytes()


@pytest.mark.usefixtures("fl")
def test_the_same_for_a_program(run: Run) -> None:
    found = run("run", written(), "--out", "out", "--json").json
    assert found["ok"]
    result = found["result"]
    assert result["system"] == "uldp-avg"
    assert (result["rounds"], result["planned"], result["asked"]) == (3, 3, 3)
    assert 1.3 < result["epsilon"]["lower"] <= result["epsilon"]["upper"] < 1.4
    assert [one["observer"] for one in result["observers"]] == ["model", "server", "silo"]
    assert result["metrics"]
    assert result["head"] == log_of("out")[-1]["hash"]
    assert any("Each user's contribution" in one for one in found["assumptions"])
    quiet = run("run", "run.toml", "--out", "quiet", "-q")
    assert float(quiet.out) >= result["epsilon"]["upper"]


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"run": "seed = 3"}, "protects nobody"),
        ({"system": "fedavg", "privacy": ""}, "No noise is added"),
        (
            {"system": "uldp-naive", "more": "[uldp]\nas_published = true"},
            "which is not sound: there is no guarantee",
        ),
        ({"privacy": "noise_multiplier = 5\ndelta = 0.1"}, "not well below 1 / 6 users"),
        ({"run": "trials = 9"}, "chosen by 9 runs"),
        (
            {"privacy": "noise_multiplier = 5\nepsilon = 1.0"},
            "allows 1 of 3 rounds",
        ),
    ],
)
def test_what_a_person_must_know_is_said(changes: dict[str, str], warned: str, run: Run) -> None:
    outcome = run("run", written(**changes), "--out", "out")
    assert outcome.code == 0, outcome.err
    assert warned in " ".join(outcome.err.split())
    if "guarantee" in warned or "noise is added" in warned:
        assert "proves      nothing" in outcome.out or "nothing: there is no" in outcome.out
        assert run("run", "run.toml", "--out", "again", "-q").out.strip() == "inf"


@pytest.mark.usefixtures("fl")
def test_a_budget_too_small_leaves_no_folder(refused: Refused) -> None:
    config = written(privacy="noise_multiplier = 5\nepsilon = 0.01")
    assert "single round" in refused("run", config, "--out", "out", code=1)
    assert not Path("out").exists()


@pytest.mark.usefixtures("fl")
def test_wrong_data_leave_no_folder(refused: Refused, tmp_path: Path) -> None:
    data = tmp_path / "heart"
    data.mkdir()
    heart = CONFIG.replace("silos = {silos}\n", "").replace("breast-cancer", "heart-disease")
    text = heart.format(system="uldp-avg", run="", privacy="epsilon = 8", more="")
    Path("heart.toml").write_text(text.replace("users = 6", f'users = 6\npath = "{data}"'))
    refused("run", "heart.toml", "--out", "out")
    for name in ("cleveland", "hungarian", "switzerland", "va"):
        (data / f"processed.{name}.data").write_text("1,2,nan\n")
    assert "MD5" in refused("run", "heart.toml", "--out", "out")
    assert "takes no `path`" in refused("run", _with_path(), "--out", "out")
    assert not Path("out").exists()


@pytest.mark.usefixtures("fl")
def test_a_value_that_is_no_number_leaves_no_folder(refused: Refused) -> None:
    columns = ["Time", *(f"V{number}" for number in range(1, 29)), "Amount", "Class"]
    rows = [",".join(["1.0"] * 30 + [str(place % 2)]) for place in range(400)]
    wrong = [row.replace("1.0", "nan", 1) for row in rows]
    Path("creditcard.csv").write_text("\n".join([",".join(columns), *wrong]) + "\n")
    config = Path(written()).read_text()
    data = 'name = "creditcard"\npath = "creditcard.csv"\n'
    Path("run.toml").write_text(config.replace('name = "breast-cancer"\n', data))
    assert "NaN or infinite" in refused("run", "run.toml", "--out", "out")
    assert not Path("out").exists()


def _with_path() -> str:
    text = Path(written("path.toml")).read_text()
    Path("path.toml").write_text(text.replace("users = 6", 'users = 6\npath = "x"'))
    return "path.toml"


@pytest.mark.usefixtures("fl")
def test_a_signed_log(run: Run, refused: Refused) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from privplan.audit.verify import verify

    config = written(more='[log]\nsign_key = "key.pem"\nfsync = "never"')
    assert "sign_key" in refused("run", config, "--out", "out")
    Path("key.pem").write_text("not a key")
    assert "holds no Ed25519 private key" in refused("run", config, "--out", "out")
    assert not Path("out").exists()
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    Path("key.pem").write_bytes(pem)
    assert run("run", config, "--out", "out").code == 0
    found = verify("out", key.public_key())
    assert found.ok
    assert found.complete
    assert "key.pem" not in Path("out/log.jsonl").read_text()


# -- cut off, and resumed -----------------------------------------------------------------------


@pytest.fixture
def cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run, and stop at the record with number `at` as Ctrl-C (or a full disk) would."""

    def call(at: int, *words: str, error: BaseException | None = None) -> Any:
        from privplan.fl.log import LogWriter

        count = 0
        append = LogWriter.append

        def failing(self: LogWriter, record: Any) -> int:
            nonlocal count
            count += 1
            if count == at:
                raise KeyboardInterrupt if error is None else error
            return append(self, record)

        with monkeypatch.context() as patch:
            patch.setattr(LogWriter, "append", failing)
            return run("run", *words)

    return call


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
    found = run("run", "run.toml", "--resume", "--out", "out", "--json").json["result"]
    assert found["rounds"] <= found["planned"] == 3


HIDDEN = """
[security]
aggregation = "private-weighting"
key_bits = 2048
"""


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize("step", ["meet", "update"])
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


def content_of(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


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
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
@pytest.mark.parametrize("moment", ["log", "configuration", "report"])
def test_an_interruption_outside_of_the_rounds_says_how_to_go_on(
    moment: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the log was made, after the configuration was kept, and after the last line."""
    from privplan.cli import run_report
    from privplan.fl.running import starting, warnings

    if moment == "log":
        owner, name = starting, "save_configuration"
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
@pytest.mark.parametrize("empty", [True, False])
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


# -- and what the audit makes of it -------------------------------------------------------------


def audited(run: Run, folder: str = "out") -> tuple[int, dict[str, Any]]:
    outcome = run("audit", "budget", folder, "--json")
    return outcome.code, outcome.json["result"]


def require_agreement(said: dict[str, Any], found: dict[str, Any]) -> None:
    """Require that the log supports what the run said, for every observer."""
    assert found["supported"]
    assert found["complete"]
    assert found["released"] == said["rounds"]
    rows = {named(one): one for one in found["observers"]}
    assert set(rows) == {named(one) for one in said["observers"]}
    for one in said["observers"]:
        derived, stated = rows[named(one)], one["epsilon"]["upper"]
        assert float(derived["epsilon"]["upper"]) == pytest.approx(float(stated), rel=1e-9)
        assert derived["rests_on"] == one["rests_on"]


def named(row: dict[str, Any]) -> tuple[object, ...]:
    """Return what names the observer of a row."""
    return tuple(row.get(key) for key in ("observer", "colluders", "dropouts", "holds"))


@pytest.mark.quick(5)
@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"privacy": 'epsilon = 4\nneighbours = "replace-one"\nsampling_rate = 0.5'},
        {"more": 'weighting = "records"', "privacy": "epsilon = 4\nnoise_multiplier = 2"},
        {"system": "uldp-naive"},
        {"system": "uldp-group", "more": "[uldp]\ngroup_records = 4"},
        {"more": 'weighting = "records"\n[security]\ncolluders = 1', "silos": 3},
        {"more": '[security]\naggregation = "masked"\ncolluders = 1', "silos": 3},
        {"more": '[security]\naggregation = "private-weighting"\nkey_bits = 2048'},
    ],
)
def test_the_audit_finds_what_the_run_said(changes: dict[str, Any], run: Run) -> None:
    said = run("run", written(**changes), "--out", "out", "--json").json["result"]
    assert run("audit", "log", "out").code == 0
    code, found = audited(run)
    assert code == 0
    require_agreement(said, found)
    assert not [one for one in found["hazards"] if one["severity"] == "error"]


@pytest.mark.usefixtures("fl")
def test_the_audit_counts_what_was_lost(cut: Callable[..., Any], run: Run) -> None:
    cut(6, written(), "--out", "out")
    said = run("run", "--resume", "--out", "out", "--json").json["result"]
    assert (said["rounds"], said["planned"]) == (2, 3)
    code, found = audited(run)
    assert code == 0
    require_agreement(said, found)
    assert found["rounds"] == 3
    assert found["dangling"] == [4]  # the fifth line, counted from 0


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize(
    ("changes", "hazard"),
    [
        ({"run": "seed = 3"}, "seeded"),
        ({"system": "fedavg", "privacy": ""}, "no-noise"),
        ({"system": "uldp-naive", "more": "[uldp]\nas_published = true"}, "as-published"),
    ],
)
def test_the_audit_finds_what_protects_nobody(
    changes: dict[str, str], hazard: str, run: Run
) -> None:
    assert run("run", written(**changes), "--out", "out").code == 0
    code, found = audited(run)
    assert code == 1
    assert hazard in {one["id"] for one in found["hazards"]}


# -- the examples -------------------------------------------------------------------------------


def test_the_examples_are_configurations() -> None:
    from privplan.fl.settings.file import read_settings

    found = {path.name: read_settings(path) for path in (ROOT / "examples").glob("*.toml")}
    assert set(found) >= {"heart.toml", "breast-cancer.toml"}


@pytest.mark.usefixtures("fl")
def test_the_example_works_out_of_the_box(run: Run) -> None:
    outcome = run("run", str(ROOT / "examples" / "breast-cancer.toml"), "--out", "out", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["result"]["epsilon"]["upper"] <= 8.0


@pytest.mark.parametrize(
    ("privacy", "more", "code"),
    [
        ("noise_multiplier = 1e19", "", 2),
        ("noise_multiplier = 5.0", "clip = 1e308", 3),
        ("noise_multiplier = 5.0", "clip = 1e-300", 3),
    ],
)
@pytest.mark.parametrize("system", ["uldp-avg", "uldp-naive"])
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
    found = run("audit", "budget", "out", "--json").json
    assert any("of which it holds nothing itself" in one for one in found["assumptions"])
    rows = {one["observer"]: one["epsilon"]["upper"] for one in found["result"]["observers"]}
    assert rows["silo-with-records"] == rows["silo"] < math.inf


@pytest.mark.usefixtures("fl")
@pytest.mark.parametrize(
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
    found = run("run", written(**changes), "--out", "again", "--json").json
    assert found["result"]["metrics"] == {}
    assert found["result"]["test"] == {"public": False, "source": None, "why": why}
    assert not any("test records" in one for one in found["assumptions"])


@pytest.mark.usefixtures("fl")
def test_what_silos_must_not_tell_is_said(run: Run) -> None:
    for changes, weights in (({}, False), ({"more": 'weighting = "records"'}, True)):
        found = run("run", written(**changes), "--out", f"out-{weights}", "--json").json
        assert any("none of them tells another" in one for one in found["assumptions"])
        rows = {one["observer"]: one["rests_on"] for one in found["result"]["observers"]}
        assert set(rows) == {"model", "server", "silo", *(("silo-with-records",) * weights)}
        for observer in ("model", "server", "silo"):
            assert any("N_u" in one for one in rows[observer]) == weights
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
    rows = [one for one in run("audit", "budget", "out").out.splitlines() if "before silo" in one]
    assert rows
    assert all(one.endswith(", of records in other silos") for one in rows)


@pytest.mark.usefixtures("fl")
def test_each_number_stands_with_what_it_rests_on(run: Run) -> None:
    records = written(more='weighting = "records"\n[security]\naggregation = "masked"', silos=3)
    said = run("run", records, "--out", "out").out.splitlines()
    numbers = [place for place, line in enumerate(said) if "epsilon" in line]
    assert len(numbers) == 3
    for place in numbers[1:]:
        assert said[place + 1].strip().startswith("rests on: N_u")
    assert "rests on: N_u" in said[numbers[0] + 2]  # under `against`
    (nothing,) = (place for place, line in enumerate(said) if "no guarantee against" in line)
    assert "because a silo that holds a record of a user" in said[nothing + 1]
    assert any(line.startswith("instead") and "uniform" in line for line in said)
    audited_said = run("audit", "budget", "out").out
    assert audited_said.count("rests on: N_u") == 3
    assert "before silo-with-records   no guarantee: a silo that holds a record" in audited_said
    assert "\nworst " in audited_said
    assert "2 of the 2 others asked for lie below it" in " ".join(audited_said.split())


@pytest.mark.usefixtures("fl")
def test_a_coalition_that_learns_the_same_whatever_it_holds_is_said_once(run: Run) -> None:
    masked = '[security]\naggregation = "masked"\ncolluders = 2\ndropouts = 1'
    said = run("run", written(more=masked, silos=5), "--out", "out").out
    assert said.count("the server with 2 silos, whatever they hold, and 1 of the others") == 1
    assert "rests on: no more than 2 silos tell the server what they know; the noise of no" in said
    claimed = written(privacy='epsilon = 8\nobserver = "server+2"', more=masked, silos=5)
    said = run("run", claimed, "--out", "told").out
    assert "against   the server with 2 silos that hold nothing of the unit" in said
    found = run("audit", "budget", "told", "--json").json["result"]
    assert found["claim"]["observer"] == "server+2"
    assert found["supported"]
    assert found["epsilon"]["upper"] == pytest.approx(8.0, abs=1e-3)
