"""`privplan run`: what is refused before a run begins, and what a whole run leaves."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privplan.accountant.errors import MissingExtra
from privplan.cli.pages import topics
from privplan.fl.declarations.registry import keys_by_table

from ..cases import for_each
from .conftest import Refused, Run
from .runs import CONFIG, log_of, written

# -- without any package of the extra -----------------------------------------------------------


def test_the_page_names_every_key() -> None:
    text = topics.page("run")
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
    assert not Path("out").exists()


def test_a_folder_that_holds_anything_is_refused(refused: Refused) -> None:
    Path("out").mkdir()
    (Path("out") / "thesis.pdf").write_text("mine")
    assert "Give a new folder" in refused("run", written(), "--out", "out")
    assert [path.name for path in Path("out").iterdir()] == ["thesis.pdf"]
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


@for_each("package", ["torch", "cryptography"])
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
        for name in [module for module in sys.modules if module.split(".")[0] == "privplan"]:
            del sys.modules[name]
        sys.modules.update(before)
    assert outcome.exit_code == 4, outcome.stderr
    what, _, step = outcome.stderr.splitlines()
    assert package in what.lower()
    assert step.startswith(" next: pip install ")
    assert "[fl]" in step
    assert not Path("out").exists()


def test_a_missing_extra_keeps_its_kind() -> None:
    from privplan.cli.commands.doctor import naming_install_command

    with pytest.raises(MissingExtra, match=r"No torch\.") as caught, naming_install_command("fl"):
        raise MissingExtra("No torch.", "why", "pip")
    assert caught.value.what == "No torch."
    assert caught.value.next_step.startswith("pip install ")


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
    assert {path.name for path in Path("out").iterdir()} == {
        *("config.toml", "log.jsonl", "sealed.jsonl", "model.npz", "metrics.json"),
    }
    assert Path("out/config.toml").read_bytes() == Path("run.toml").read_bytes()


@pytest.mark.usefixtures("fl")
def test_the_same_for_a_program(run: Run) -> None:
    envelope = run("run", written(), "--out", "out", "--json").json
    assert envelope["ok"]
    result = envelope["result"]
    assert result["system"] == "uldp-avg"
    assert (result["rounds"], result["planned"], result["asked"]) == (3, 3, 3)
    assert 1.3 < result["epsilon"]["lower"] <= result["epsilon"]["upper"] < 1.4
    assert [row["observer"] for row in result["observers"]] == ["model", "server", "silo"]
    assert result["metrics"]
    assert result["head"] == log_of("out")[-1]["hash"]
    assert any("Each user's contribution" in line for line in envelope["assumptions"])
    quiet = run("run", "run.toml", "--out", "quiet", "-q")
    assert float(quiet.out) >= result["epsilon"]["upper"]


@pytest.mark.usefixtures("fl")
@for_each(
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
def test_rows_of_somebody_under_the_name_of_a_data_set_are_refused(refused: Refused) -> None:
    columns = ["Time", *(f"V{number}" for number in range(1, 29)), "Amount", "Class"]
    rows = [",".join(["1.0"] * 30 + [str(index % 2)]) for index in range(400)]
    Path("creditcard.csv").write_text("\n".join([",".join(columns), *rows]) + "\n")
    config = Path(written()).read_text()
    data = 'name = "creditcard"\npath = "creditcard.csv"\n'
    Path("run.toml").write_text(config.replace('name = "breast-cancer"\n', data))
    said = refused("run", "run.toml", "--out", "out")
    assert "not the published file" in said
    assert 'name = "table"' in said
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
    verified = verify("out", key.public_key())
    assert verified.ok
    assert verified.complete
    assert "key.pem" not in Path("out/log.jsonl").read_text()
