"""A log is audited by whoever has numpy and scipy: no extra is needed, but for signatures.

The commands run in a process of their own, in which every package of every extra is as if it were
not installed, on runs of every system and aggregation.  They say there what they say here.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from privplan.cli.main import app

HERE: Final = Path(__file__).parent / "earlier"
ROOT: Final = Path(__file__).parents[2]

NAMES: Final = {"scikit-learn": "sklearn", "pynacl": "nacl"}
"""Packages that are imported by another name than their own."""

Answers: TypeAlias = dict[str, tuple[int, Any]]

QUICK: Final = (
    *("avg-uniform-plain", "avg-records-masked", "avg-private", "avg-published", "avg-dropouts"),
    *("avg-moments-masked", "avg-private-slots", "avg-signed", "avg-unfinished-torn", "fedavg"),
    *("fedavg-masked", "group-plain", "group-masked", "naive-plain", "naive-masked"),
    *("naive-published", "sgd-private", "sgd-records-plain", "sgd-uniform-masked", "avg-digits"),
)
"""A run of every system and aggregation."""

PROGRAM: Final = """
import contextlib, io, json, sys

missing = set(json.loads(sys.argv[1]))

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
from privplan.cli.main import app

answers = {}
for words in json.loads(sys.argv[2]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app([*words, "--json"])
        except SystemExit as end:
            code = end.code or 0
    answers[" ".join(words)] = code, json.loads(out.getvalue())
print(json.dumps([answers, sorted(missing & set(sys.modules))]))
"""


def extras() -> list[str]:
    """Return the import names of all packages that only an extra brings."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = [one.split(">=")[0] for part in ("fl", "plots", "report") for one in extra[part]]
    assert {"torch", "cryptography", "scikit-learn", "msgpack", "jinja2"} <= set(names)
    return sorted({NAMES.get(name, name) for name in names})


def without_extras(*commands: list[str]) -> Answers:
    """Return exit code and JSON of commands, by their words, where no extra is installed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(extras()), json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    answers, loaded = json.loads(done.stdout)
    assert loaded == []
    return {words: (code, said) for words, (code, said) in answers.items()}


def with_extras(*commands: list[str]) -> Answers:
    """Return the same where they are installed."""
    found: Answers = {}
    for words in commands:
        out = io.StringIO()
        err = contextlib.redirect_stderr(io.StringIO())
        with contextlib.redirect_stdout(out), err, pytest.raises(SystemExit) as end:
            app([*words, "--json"])
        found[" ".join(words)] = int(end.value.code or 0), json.loads(out.getvalue())
    return found


def commands_on(folder: Path) -> list[list[str]]:
    sealed = ["--sealed"] * (folder / "sealed.jsonl").exists()
    return [["audit", "log", str(folder)], ["audit", "budget", str(folder), *sealed]]


def check_same(folders: list[Path]) -> None:
    """Check that every log is judged alike with the extras and without, but for signatures."""
    commands = [words for folder in folders for words in commands_on(folder)]
    bare, usual = without_extras(*commands), with_extras(*commands)
    assert bare.keys() == usual.keys()
    for words, (code, said) in bare.items():
        signature = (said["result"] or {}).get("signature")
        if signature is not None:
            assert signature["checked"] == "none"
            signature["checked"] = "beside"
        assert (code, said) == usual[words], words


def test_logs_of_every_system_and_aggregation_are_judged_alike(runs: Path) -> None:
    check_same([runs / name for name in QUICK])


@pytest.mark.slow  # 67 runs, twice
def test_all_earlier_logs_are_judged_alike(runs: Path) -> None:
    check_same(sorted(runs.iterdir()))


def test_a_signature_reads_not_checked_and_a_key_cannot_be_taken(
    runs: Path, tmp_path: Path
) -> None:
    signed, key = str(runs / "avg-signed"), tmp_path / "key"
    key.write_text("00" * 32)
    given = ["audit", "log", signed, "--public-key", str(key)]
    plain = ["audit", "log", signed]
    answers = without_extras(given, plain, ["audit", "budget", *given[2:]])
    code, said = answers[" ".join(plain)]
    assert (code, said["result"]["signature"]["checked"]) == (0, "none")
    for words in (given, ["audit", "budget", *given[2:]]):
        code, said = answers[" ".join(words)]
        assert code == 4
        assert "cryptography" in said["error"]["what"]
        assert said["result"] is None


def test_released_models_are_compared_without_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import privplan as pp

    tables = {
        "run": {"system": "uldp-avg", "rounds": 2, "seed": 1},
        "data": {"name": "breast-cancer", "users": 20, "silos": 2},
        "privacy": {"noise_multiplier": 5.0, "delta": 1e-3},
        "training": {"local_epochs": 1},
        "log": {"save_models": True},
    }
    folder = tmp_path / "out"
    pp.run(tables, folder)
    words = ["audit", "log", str(folder), "--models", str(folder / "models")]
    code, said = without_extras(words)[" ".join(words)]
    assert code == 0
    assert said["result"]["models"]["matched"] == 2
    first, second = sorted((folder / "models").iterdir())
    second.write_bytes(first.read_bytes())
    assert without_extras(words)[" ".join(words)][0] == 1
