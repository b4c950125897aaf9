"""Folders that a stranger gave away: nothing is read from beside them, nor written there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.regular_file import own_folder
from privplan.audit.configuration.first_line import compare_with_file
from privplan.audit.configuration.logged_settings import path_in, require_same_file
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
    with pytest.raises(NotADirectoryError):
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
