"""No command executes code that a log or a configuration names, but a run by who begins it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privplan.cli.main import app
from privplan.cli.pages.topics import page

from ..cases import for_each

pytest.importorskip("torch")
pytest.importorskip("cryptography")

CONFIGURATION = """
[run]
system = "SYSTEM"
rounds = 2
[data]
name = "breast-cancer"
users = 6
silos = SILOS
[privacy]
noise_multiplier = 5.0
delta = 1e-3
[training]
local_epochs = 1
model = "net.py:make"
"""

NET = """
from torch import nn

def make(features, classes):
    return nn.Sequential(nn.Linear(features, 2), nn.LayerNorm(2), nn.Linear(2, classes))
"""

TRAP = "import pathlib; pathlib.Path('executed').touch()\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration, its code, and the runs of two systems."""
    home = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        Path("net.py").write_text(NET)
        for system, silos in (("uldp-avg", 3), ("flame-simple", 1)):
            text = CONFIGURATION.replace("SYSTEM", system).replace("SILOS", str(silos))
            if system.startswith("flame"):
                text += '[flame]\ntransport = "ideal"\n'
            Path(f"{system}.toml").write_text(text)
            code, said = called("run", f"{system}.toml", "--out", system)
            assert code == 0, said
    return home


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, where `net.py` would leave a mark if anybody executed it."""
    shutil.copytree(folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    shutil.move("net.py", "kept.py")
    Path("net.py").write_text(TRAP + NET)
    return tmp_path / "copy"


def called(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@for_each(
    "words",
    [
        ("audit", "log", "uldp-avg"),
        ("audit", "log", "uldp-avg", "--edits"),
        ("audit", "budget", "uldp-avg"),
        ("check", "uldp-avg"),
        ("check", "uldp-avg.toml"),
        ("check", "uldp-avg/config.toml"),
        ("report", "uldp-avg", "-o", "page.html"),
        ("audit", "attack", "uldp-avg", "--canaries", "100", "--no-append"),
        ("audit", "attack", "flame-simple", "--canaries", "100", "--no-append"),
        ("audit", "attack", "uldp-avg", "--tier", "membership", "--no-append"),
    ],
)
def test_a_command_that_reads_executes_nothing_that_is_named(
    here: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    code, said = called(*words)
    assert code in (0, 1, 2, 3), said
    assert "Traceback" not in said
    assert not Path("executed").exists()


@pytest.mark.usefixtures("here")
def test_audits_do_not_need_the_code() -> None:
    Path("net.py").unlink()
    for words in (("audit", "log", "uldp-avg"), ("audit", "budget", "uldp-avg")):
        assert called(*words)[0] == 0
    code, said = called(
        "audit", "attack", "uldp-avg", "--tier", "claim", "--canaries", "100", "--no-append"
    )
    assert code == 0, said


@pytest.mark.usefixtures("here")
def test_an_attack_that_needs_the_code_says_so_and_takes_it_by_its_digest() -> None:
    attacked = (
        "audit",
        "attack",
        "flame-simple",
        "--canaries",
        "210",
        "--no-append",
        "--tier",
        "claim",
    )
    code, said = called(*attacked)
    assert code == 3
    assert "--model FILE" in said
    code, said = called(*attacked, "--model", "net.py")
    assert code == 2
    assert "its digest is not in the log" in said
    assert not Path("executed").exists()
    code, said = called(*attacked, "--model", "kept.py")
    assert code in (0, 1), said


@pytest.mark.usefixtures("here")
def test_code_for_a_run_of_no_own_model_is_refused() -> None:
    text = Path("uldp-avg.toml").read_text().replace("net.py:make", "softmax")
    Path("plain.toml").write_text(text)
    assert called("run", "plain.toml", "--out", "plain")[0] == 0
    code, said = called("audit", "attack", "plain", "--no-append", "--model", "net.py")
    assert code == 2
    assert "names no file of code" in said


@pytest.mark.usefixtures("here")
def test_an_edited_digest_is_found_by_the_chain() -> None:
    log = Path("uldp-avg/log.jsonl")
    first = json.loads(log.read_text().splitlines()[0])
    digest: Any = first["configuration"]["training"]["model_digest"]
    log.write_text(log.read_text().replace(digest, digest[:-4] + "0000"))
    assert called("audit", "log", "uldp-avg")[0] == 1


@pytest.mark.usefixtures("here")
def test_a_dry_run_by_its_owner_plans_with_the_code() -> None:
    code, said = called("run", "uldp-avg.toml", "--dry-run", "--json")
    assert code == 0, said
    assert json.loads(said)["result"]["rounds"] == 2
    assert Path("executed").exists()  # who runs a configuration has its code executed


def test_the_example_of_the_page_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = page("models").splitlines()
    first = next(number for number, line in enumerate(lines) if "def make(" in line)
    example = [line[2:] for line in lines[first:] if line.startswith("  ")]
    code = "\n".join(line for line in example if "pp." not in line and "audit attack" not in line)
    end = code.index("32, classes))") + len("32, classes))")
    Path("net.py").write_text("from torch import nn\n" + code[:end] + "\n")
    text = CONFIGURATION.replace("SYSTEM", "uldp-avg").replace("SILOS", "3")
    Path("run.toml").write_text(text)
    code_of_exit, said = called("run", "run.toml", "--out", "out")
    assert code_of_exit == 0, said
