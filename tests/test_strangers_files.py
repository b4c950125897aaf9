"""Files and variables that somebody else has put there: never followed, waited for, or filled up.

Every reader of files is given a pipe, and links to one and to a device, in the place of its file.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import privplan.cli.__main__ as cli_main
from privplan.accountant import events, regular_file
from privplan.accountant.claims.table import SYSTEMS
from privplan.accountant.errors import InvalidInput
from privplan.audit.edits.stored_model import StoredModel, text_of
from privplan.audit.residual.tier import _previous
from privplan.cli.__main__ import leave_working_directory
from privplan.cli.cache import store
from privplan.cli.commands.claims import _measured_runs
from privplan.cli.inputs import curve_file, defaults_file
from privplan.cli.main import app
from privplan.cli.terminal.output import printable
from privplan.fl.declarations import registry
from privplan.fl.files import atomic, stored_arrays
from privplan.fl.log import read
from privplan.fl.log.sidecar import Sidecar
from privplan.fl.log.signing import public_key
from privplan.fl.parties.transcripts import read_transcript
from privplan.fl.running.checkpoint import Checkpoint
from privplan.fl.running.signing_key import key_is_open, private_key
from privplan.fl.settings.toml_file import read_settings
from privplan.fl.statistics.statistics import ReleasedStatistics

from .cases import for_each

READERS = {
    "log.jsonl": lambda path: list(read(path.parent)),
    "sealed.jsonl": lambda path: Sidecar.read(path.parent),
    "model.npz": StoredModel.read,
    "checkpoint.npz": Checkpoint.read,
    "released.npz": ReleasedStatistics.load,
    "metrics.json": text_of,
    "sealed-report.json": lambda path: _previous(path, "run"),
    "event.json": lambda path: curve_file.read_event(str(path)),
    "config.toml": read_settings,
    "key.pem": lambda path: private_key(path, "--sign-key"),
    "key.pub": public_key,
    "transcripts/server.jsonl": lambda path: list(read_transcript(path.parents[1], "server")),
}


@for_each("name", READERS)
@for_each("kind", ["pipe", "link to a pipe", "link to a device"])
def test_nothing_waits_for_what_is_no_regular_file(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if kind == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path if kind == "pipe" else tmp_path / "pipe")
        if kind != "pipe":
            path.symlink_to(tmp_path / "pipe")
    with pytest.raises((InvalidInput, OSError)):
        READERS[name](path)


@for_each("name", ["log.jsonl", "sealed.jsonl", "model.npz", "metrics.json"])
def test_a_link_out_of_the_folder_of_a_run_is_not_followed(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidInput, match="link out of its folder"):
        READERS[name](tmp_path / "run" / name)


def test_a_link_within_a_folder_and_a_folder_that_is_a_link_are_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "kept").write_text("{}")
    (tmp_path / "run" / "metrics.json").symlink_to("kept")
    (tmp_path / "other").symlink_to("run")
    assert text_of(tmp_path / "other" / "metrics.json") == {}


def test_what_is_larger_than_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="larger than 1 MiB"):
        regular_file.regular_content(path, 2**20)
    with pytest.raises(InvalidInput, match="larger than 64 MiB"):
        text_of(path)


# --- what is written ------------------------------------------------------------------------------


def test_a_link_beside_a_file_is_never_written_through(tmp_path: Path) -> None:
    """Earlier versions wrote to a name that anybody could foretell."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".page.html.part").symlink_to(victim)
    names = set()
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        names.add(self.name)
        return replace(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", watched)
        for content in (b"first", b"second"):
            atomic.write(tmp_path / "page.html", content)
    assert victim.read_text() == "mine"
    assert (tmp_path / "page.html").read_bytes() == b"second"
    assert len(names) == 2
    assert all(atomic.unfinished_name(name) == "page.html" for name in names)


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "page.html").symlink_to(tmp_path / "victim")
    atomic.write(tmp_path / "page.html", b"page")
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "page.html").is_symlink()


@for_each("rights", [0o600, 0o640, 0o644])
def test_a_file_that_is_replaced_keeps_its_rights(rights: int, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(rights)
    atomic.write(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == rights
    atomic.write(path, b"newer", private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --- arrays ---------------------------------------------------------------------------------------


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + content


def of_shape(shape: str, kind: str = "<f8") -> bytes:
    return npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}")


BOMBS = {
    "compressed": ({"parameters.npy": b"\0" * 10**6}, zipfile.ZIP_DEFLATED),
    "longer than it is": ({"parameters.npy": of_shape("(1000000000000,)")}, zipfile.ZIP_STORED),
    "negative": ({"parameters.npy": of_shape("(-1,)")}, zipfile.ZIP_STORED),
    "objects": ({"parameters.npy": of_shape("(0,)", "|O")}, zipfile.ZIP_STORED),
    "no numbers": ({"parameters.npy": of_shape("(0,)", "<U8")}, zipfile.ZIP_STORED),
    "no header": ({"parameters.npy": b"nothing"}, zipfile.ZIP_STORED),
    "nested": ({"parameters.npy": npy("(" * 100)}, zipfile.ZIP_STORED),
    "many": ({f"{number}.npy": b"" for number in range(17)}, zipfile.ZIP_STORED),
}


@for_each("name", BOMBS)
def test_arrays_allocate_no_more_than_their_file(name: str, tmp_path: Path) -> None:
    members, method = BOMBS[name]
    path = archive(tmp_path / "checkpoint.npz", members, method)
    with pytest.raises(ValueError):
        stored_arrays.read(path, 2**30)
    for reader in (Checkpoint.read, ReleasedStatistics.load, StoredModel.read):
        with pytest.raises(InvalidInput):
            reader(path)


def test_arrays_that_numpy_saves_are_read_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    arrays = {
        "rows": rng.normal(size=(3, 4)),
        "columns": np.asfortranarray(rng.normal(size=(3, 4))),
        "words": np.frombuffer(b"text", np.uint8),
        "none": np.zeros((0, 3)),
        "scalar": np.array(7),
    }
    np.savez(tmp_path / "arrays.npz", **arrays)
    held = stored_arrays.read(tmp_path / "arrays.npz", 2**20)
    assert held.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(held[name], array)
        assert held[name].dtype == array.dtype
        assert held[name].flags.writeable
    with pytest.raises(ValueError):
        stored_arrays.read(tmp_path / "arrays.npz", 100)


# --- terminals, variables, keys -------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert printable("a\nb \x1b[31m\r\x07\u202e") == "a\nb \\x1b[31m\\r\\x07\\u202e"


@for_each(("name", "nearest"), [("PRIVPLAN_HEAD", ""), ("PRIVPLAN_DELTTA", "PRIVPLAN_DELTA")])
def test_a_variable_that_sets_nothing_is_refused(
    name: str, nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    outcome = CliRunner().invoke(app, ["account", "--noise-multiplier", "1"])
    assert outcome.exit_code == 2
    assert f"{name} sets no option" in outcome.stderr
    assert nearest in outcome.stderr
    assert CliRunner().invoke(app, ["account", "--help"]).exit_code == 0
    monkeypatch.delenv(name)
    monkeypatch.setenv("PRIVPLAN_DEBUG", "")
    defaults_file.require_known_variables(list)


EVENT = ["account", "--noise-multiplier", "1", "--rate", "0.01", "--rounds", "10"]


def test_what_the_command_line_does_not_show_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = CliRunner().invoke(app, [*EVENT, "--delta", "1e-5"])
    assert plain.stderr == ""
    (tmp_path / "privplan.toml").write_text("[account]\ndelta = 1e-5\n")
    said = CliRunner().invoke(app, EVENT)
    assert said.stdout == plain.stdout
    assert said.stderr == "from privplan.toml: --delta 1e-05\n"
    monkeypatch.setenv("PRIVPLAN_DELTA", "1e-5")
    assert CliRunner().invoke(app, EVENT).stderr == "from the environment: --delta 1e-05\n"
    flagged = CliRunner().invoke(app, [*EVENT, "--delta", "1e-5"])
    assert flagged.stderr == ""


@for_each(("error", "says"), [(MemoryError, "more memory"), (RecursionError, "nested too deeply")])
def test_what_is_too_large_is_a_refusal(
    error: type[Exception], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(_: str) -> None:
        raise error

    (tmp_path / "event.json").write_text("{}")
    monkeypatch.setattr(events, "from_json", raising)
    arguments = ["account", str(tmp_path / "event.json"), "--delta", "1e-5"]
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 3
    assert says in outcome.stderr


@for_each(("rights", "is_open"), [(0o600, False), (0o400, False), (0o644, True), (0o620, True)])
def test_a_key_that_others_can_read_is_open(rights: int, is_open: bool, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text("")
    path.chmod(rights)
    assert key_is_open(path) is is_open
    assert not key_is_open(tmp_path / "none")


# --- what is kept between runs ------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep one answer, and return its file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store.write("claims-disco", "1", "claims", [1.5])
    assert store.read("claims-disco", "1", "claims") == [1.5]
    return store.folder() / "claims-disco-1.json"


def signed(content: object, name: str, secret: bytes) -> str:
    return json.dumps({"digest": store.digest_of(content, name, secret), "claims": content})


def test_an_answer_that_was_edited_without_the_key_is_not_shown(kept: Path) -> None:
    kept.write_text(signed([2.5], kept.name, b"\0" * store.CACHE_KEY_BYTES))
    with pytest.raises(ValueError, match="not what was written"):
        store.read("claims-disco", "1", "claims")


def test_an_answer_that_was_moved_to_another_name_is_not_shown(kept: Path) -> None:
    kept.rename(kept.with_name("claims-flame-1.json"))
    with pytest.raises(ValueError, match="not what was written"):
        store.read("claims-flame", "1", "claims")


def test_a_key_that_others_can_read_signs_nothing_and_is_made_anew(kept: Path) -> None:
    key = kept.with_name(store.CACHE_KEY_FILE)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.write_bytes(b"\0" * store.CACHE_KEY_BYTES)
    key.chmod(0o644)
    kept.write_text(signed([2.5], kept.name, b"\0" * store.CACHE_KEY_BYTES))
    with pytest.raises(ValueError, match="not the user's own"):
        store.read("claims-disco", "1", "claims")
    store.write("claims-disco", "1", "claims", [1.5])
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert store.read("claims-disco", "1", "claims") == [1.5]


def test_a_cache_folder_that_is_a_link_is_neither_read_nor_written(kept: Path) -> None:
    folder, moved = kept.parent, kept.parents[1] / "elsewhere"
    folder.rename(moved)
    folder.symlink_to(moved)
    with pytest.raises(OSError, match="a link"):
        store.read("claims-disco", "1", "claims")
    before = {path.name for path in moved.iterdir()}
    with pytest.raises(OSError, match="a link"):
        store.write("claims-disco", "2", "claims", [1.5])
    assert {path.name for path in moved.iterdir()} == before


# --- code in the working directory ----------------------------------------------------------------


@for_each("first", ["", "here"])
def test_no_code_is_loaded_from_the_working_directory(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = [str(tmp_path) if first else "", "/elsewhere"]
    leave_working_directory(path)
    assert path == ["/elsewhere"]
    leave_working_directory(path)
    assert path == ["/elsewhere"]
    # Where the package itself lies there, it stays.
    monkeypatch.chdir(Path(cli_main.__file__).resolve().parents[2])
    path = [""]
    leave_working_directory(path)
    assert path == [""]


def test_the_claims_load_no_other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr(registry, "foreign_systems", lambda: asked.append("all") or ())
    assert _measured_runs(SYSTEMS, measure=False)[0] == []
    assert asked == []
    registry.declared()
    assert asked == ["all"]
