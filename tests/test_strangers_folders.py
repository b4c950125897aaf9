"""Folders that a stranger gave away: nothing is read from beside them, nor written there."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import struct
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.regular_file import is_own_stream, own_folder
from privplan.audit.check.causes import accounting
from privplan.audit.configuration.first_line import compare_with_file
from privplan.audit.configuration.logged_settings import path_in, require_same_file
from privplan.cli.inputs import curve_file
from privplan.cli.inputs.run_files import read_source
from privplan.cli.main import KEYS_BY_TABLE, app
from privplan.cli.terminal import exit_codes, output
from privplan.cli.terminal.output import table
from privplan.fl.datasets import idx
from privplan.fl.parties.network import Message
from privplan.fl.parties.transcripts import append_transcripts
from privplan.fl.running.checkpoint import Checkpoint
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.folder import require_own_folders

from .cases import for_each


def network() -> Any:
    return SimpleNamespace(take=lambda: [Message(b"", 1, "kind", "silo 1", "server", b"body")])


def rights_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- what is written ------------------------------------------------------------------------------


def test_transcripts_are_not_written_through_a_linked_folder(tmp_path: Path) -> None:
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.mkdir(mode=0o755)
    run.mkdir()
    (victim / "server.jsonl").write_text("a line that does not end")
    (run / "transcripts").symlink_to(victim)
    before = rights_of(victim / "server.jsonl")
    with pytest.raises(OSError, match="link"):
        append_transcripts(run, network())
    assert (victim / "server.jsonl").read_text() == "a line that does not end"
    assert (rights_of(victim), rights_of(victim / "server.jsonl")) == (0o755, before)
    with pytest.raises(InvalidInput, match="it is a link"):
        require_own_folders(run)


@for_each("kind", ["hard link", "link", "pipe"])
def test_a_transcript_is_a_file_of_its_own(kind: str, tmp_path: Path) -> None:
    victim, transcript = tmp_path / "victim", tmp_path / "transcripts" / "server.jsonl"
    transcript.parent.mkdir()
    victim.write_text("a line that does not end")
    before = rights_of(victim)
    if kind == "hard link":
        transcript.hardlink_to(victim)
    elif kind == "link":
        transcript.symlink_to(victim)
    else:
        os.mkfifo(transcript)
    with pytest.raises(OSError):
        append_transcripts(tmp_path, network())
    assert victim.read_text() == "a line that does not end"
    assert rights_of(victim) == before
    with pytest.raises(InvalidInput, match="link, or no regular file"):
        require_own_folders(tmp_path)


def test_transcripts_of_a_run_s_own_are_continued(tmp_path: Path) -> None:
    append_transcripts(tmp_path, network())
    (tmp_path / "transcripts").chmod(0o755)
    append_transcripts(tmp_path, network())
    assert rights_of(tmp_path / "transcripts") == 0o700
    assert len((tmp_path / "transcripts" / "server.jsonl").read_text().splitlines()) == 2
    require_own_folders(tmp_path)


def test_models_are_not_written_through_a_linked_folder(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "models").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="link"):
        own_folder(tmp_path / "models")
    with pytest.raises(InvalidInput, match="it is a link"):
        require_own_folders(tmp_path)
    (tmp_path / "models").unlink()
    own_folder(tmp_path / "models")
    own_folder(tmp_path / "models")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        own_folder(tmp_path / "file")


# --- what is read ---------------------------------------------------------------------------------

READERS = {
    "config.toml": {
        "resume": lambda path: Configuration.read(path, within=path.parent),
        "attack": lambda path: require_same_file(path.parent, SimpleNamespace()),
        "path of the data": lambda path: path_in(path.parent),
    },
    "checkpoint.npz": {"model": Checkpoint.read},
    "model.npz": {"model": Checkpoint.read},
}


@for_each(("name", "who"), [(name, who) for name, readers in READERS.items() for who in readers])
def test_what_a_run_keeps_is_read_in_its_folder(name: str, who: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "outside").write_text('[run]\nsystem = "a secret"\n')
    (tmp_path / "run" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidInput, match="link out of its folder"):
        READERS[name][who](tmp_path / "run" / name)


def test_a_configuration_elsewhere_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.audit.configuration import first_line

    (tmp_path / "run").mkdir()
    (tmp_path / "outside").write_text("")
    (tmp_path / "run" / "config.toml").symlink_to(tmp_path / "outside")
    monkeypatch.setattr(first_line, "parse", lambda *_: pytest.fail("it was read"))
    opened: Any = SimpleNamespace(configuration={})
    assert compare_with_file(tmp_path / "run", opened).not_stated == ("config.toml",)


# --- what is said of it ---------------------------------------------------------------------------


def command(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


EVENT = '{"type": "gaussian", "noise_multiplier": 1}'
FORGED = "r\nlog       intact"


def test_a_line_break_in_a_name_is_written_out(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text(EVENT)
    said = command("account", str(tmp_path / "e.json"), "--curve", str(tmp_path / f"{FORGED}.csv"))
    assert said.exit_code == 0
    assert f"{tmp_path}/r\\nlog       intact.csv" in said.stdout
    assert table([("appended", FORGED)]) == "appended   r\\nlog       intact"


def test_a_name_in_a_command_is_quoted(tmp_path: Path) -> None:
    folder = tmp_path / "d;touch pwn"
    folder.mkdir()
    (folder / "log.jsonl").write_text("")
    said = command("account", str(folder))
    assert f"privplan audit budget '{folder}'" in said.stderr
    (tmp_path / "x;touch pwn.json").write_text("{}")
    assert (
        f"check '{tmp_path}/x;touch pwn.json'"
        in command("account", f"{tmp_path}/x;touch pwn.json").stderr
    )


def test_a_first_line_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("root:x:0\nbin:x:1\n")
    said = command("account", str(tmp_path / "secret.csv"))
    assert said.exit_code == 2
    assert "root:x" not in said.stderr


class Full:
    """A standard output that takes nothing."""

    encoding = "utf-8"

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        """Have nothing to flush."""


def test_an_output_that_takes_nothing_is_no_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = output.Report({}, "text", "1")
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(OSError) as stopped:
        output.show(report, as_json=False, quiet=False)
    assert output.fail(stopped.value, as_json=False) == exit_codes.NOT_COMPUTABLE
    assert "could not be written: No space left on device" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", None)
    output.show(report, as_json=False, quiet=False)
    output.discard_unwritten()
    monkeypatch.setattr(sys, "stderr", Full())
    monkeypatch.setattr(Full, "fileno", lambda _: os.open(os.devnull, os.O_RDONLY), raising=False)
    output.note("nobody reads it")


# --- privplan.toml, and variables -----------------------------------------------------------------

RUN = ("account", "--noise-multiplier", "1", "--rate", "0.01", "--rounds", "10")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "privplan.toml"


@for_each("kind", ["digits", "pipe", "folder", "device", "nowhere"])
def test_a_file_of_defaults_that_is_none_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "privplan.toml"
    if kind == "digits":
        here.write_text(f"[account]\ndelta = {'1' * 5000}\n")
    elif kind == "pipe":
        os.mkfifo(here)
    elif kind == "folder":
        here.mkdir()
    else:
        here.symlink_to("/dev/zero" if kind == "device" else "missing")
    said = command(*RUN)
    assert said.exit_code == 2
    assert "privplan.toml" in said.stderr


def test_a_mark_that_editors_write_is_passed_over(here: Path) -> None:
    here.write_bytes(b"\xef\xbb\xbf[account]\ndelta = 1e-5\n")
    assert command(*RUN).exit_code == 0


def test_only_what_was_used_is_announced(here: Path) -> None:
    here.write_text("[account]\nepsilon = 3.0\nrecords = 1000\nbatch = 10\ngroup = 1\n")
    said = command(*RUN, "--delta", "1e-5")
    assert said.exit_code == 0
    assert said.stderr == "from privplan.toml: --group 1\n"


def test_a_refused_value_says_where_it_was_set(here: Path) -> None:
    here.write_text("[account]\ndelta = 2\n")
    said = command(*RUN)
    assert said.exit_code == 2
    assert "from privplan.toml: --delta 2" in said.stderr
    assert said.stderr.startswith("error:")


def test_every_option_of_the_file_has_a_variable() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, keys in KEYS_BY_TABLE.items():
        variables = {each.name: each.envvar for each in commands[name].params}
        for key in keys:
            assert variables[key] == f"PRIVPLAN_{key.upper()}"


def test_units_may_be_set_by_a_variable(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not here.exists()
    monkeypatch.setenv("PRIVPLAN_UNITS", "1000")
    said = command(*RUN, "--delta", "0.5")
    assert said.exit_code == 2
    assert "1,000" in said.stderr or "1000" in said.stderr


# --- data, and what the user connects -------------------------------------------------------------


@for_each("announced", [10, 2**32 - 1])
def test_no_more_is_unpacked_than_is_announced(announced: int, tmp_path: Path) -> None:
    head = bytes((0, 0, 8, 1)) + struct.pack(">I", announced)
    path = tmp_path / "x-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(head + bytes(2**24), 1))
    tracemalloc.start()
    with pytest.raises(InvalidInput, match="too long"):
        idx._idx(tmp_path, "x-labels", 1, "X")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert announced > 10 or peak < 2**22


def test_a_pipe_that_the_user_connects_is_read() -> None:
    for read in (curve_file.read_event, lambda path: read_source(path).event):
        reading, writing = os.pipe()
        os.write(writing, EVENT.encode())
        os.close(writing)
        assert read(f"/dev/fd/{reading}") == ev.Gaussian(1.0)
        os.close(reading)
    assert not is_own_stream("/dev/zero")
    assert not is_own_stream("/dev/fd/../zero")


def test_a_claim_that_is_false_may_not_be_true() -> None:
    proof: Any = SimpleNamespace(class_lower=2.0)
    for standing, fires in (("false", False), ("holds", False), ("unproven", True)):
        claim = SimpleNamespace(highest=1.0)
        case: Any = SimpleNamespace(proof=proof, claim=claim, status=standing)
        assert (accounting.not_from_this_number(case) is not None) == fires
