"""Runs of a second earlier version: what it said of them is said still, to the last digit.

`earlier/runs_two.zip` holds run folders as that version left them: every system, aggregation,
weighting and sampling, coalitions, dropouts, private moments, signatures, runs that were cut off,
aborted or resumed.  Its `expected.json` holds the results of `audit log --json` and
`audit budget --json` of that version, and the digest of the model to which it took each seeded run
that was cut off.  A field that is new may stand beside those, and a reason behind the one why a
number is refused; nothing that was there may change.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from privplan.cli.main import app

from ..cases import for_each

for _name in ("torch", "sklearn", "cryptography"):
    pytest.importorskip(_name)

RUNS: Final = Path(__file__).parent / "earlier" / "runs_two.zip"
with zipfile.ZipFile(RUNS) as _packed:
    EXPECTED: Final[dict[str, Any]] = json.loads(_packed.read("expected.json"))["runs"]
    MADE_ON: Final[dict[str, str]] = json.loads(_packed.read("expected.json"))["made_on"]

CLOSE: Final = 1e-12
"""Relative difference of the same number on two processors, or with other libraries."""

SLOW: Final = ("private", "published", "resumed", "group-")
"""Part of the names of runs whose audits or resumption take seconds."""


def here() -> dict[str, str]:
    """Return what decides over the last digit of a number."""
    import torch

    packages = {name: version(name) for name in ("numpy", "scipy")}
    processor = torch.backends.cpu.get_cpu_capability()
    return {**packages, "torch": torch.__version__, "processor": processor}


def wide_vectors() -> bool:
    """Return whether numpy uses AVX-512, whatever torch was told to use."""
    from numpy._core._multiarray_umath import __cpu_features__

    return bool(__cpu_features__["AVX512F"])


EXACT: Final = here() == MADE_ON and not wide_vectors()


def marked(names: list[str]) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.slow if any(s in name for s in SLOW) else ())
        for name in sorted(names)
    ]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the folders of all runs."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(RUNS) as archive:
        archive.extractall(folder)
    return folder


def call(*words: str) -> tuple[int, str]:
    """Run `privplan`; return the exit code and what it printed."""
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def require_kept(before: Any, now: Any, where: str) -> None:
    """Require that everything that was said is said still, in the same place."""
    if isinstance(before, dict):
        assert isinstance(now, dict), where
        for key, value in before.items():
            assert key in now, f"{where}.{key} is gone"
            require_kept(value, now[key], f"{where}.{key}")
    elif isinstance(before, list):
        assert isinstance(now, list), where
        assert len(before) == len(now), f"{where}: {before} and {now}"
        for number, (value, other) in enumerate(zip(before, now, strict=True)):
            require_kept(value, other, f"{where}[{number}]")
    elif where.endswith(".refused") and isinstance(before, str):
        # The run's own reason may stand behind those that facts give.
        assert isinstance(now, str), where
        assert now == before or now.startswith(f"{before}; "), where
    elif isinstance(before, float) and not EXACT:
        assert math.isclose(before, now, rel_tol=CLOSE), f"{where}: {before!r} and {now!r}"
    else:
        assert (type(before), before) == (type(now), now), where


@for_each("command", ["log", "budget"])
@for_each("name", marked(list(EXPECTED)))
def test_what_was_said_of_an_earlier_run_is_said_still(
    packed: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    monkeypatch.chdir(packed)
    expected = EXPECTED[name][command]
    code, printed = call(*expected["words"], "--json")
    answer = json.loads(printed)
    require_kept(expected["result"], answer["result"], name)
    assert (code, answer["ok"]) == (expected["code"], expected["ok"])


@for_each("name", marked([n for n, said in EXPECTED.items() if "cut" in said]))
def test_an_earlier_run_that_was_cut_off_goes_on_to_the_same_end(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The noise of a seeded run that lost a round is that of its next segment, then and now."""
    from privplan.fl.frame.model import model_digest
    from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

    monkeypatch.chdir(tmp_path)
    expected = EXPECTED[name]
    shutil.copytree(packed / name, name)
    code, _ = call("run", "--resume", "--out", name, "--json")
    assert code == expected.get("code", 0)
    if code:
        return
    code, printed = call("audit", "log", name, "--json")
    assert code == 0
    assert json.loads(printed)["result"]["complete"]
    wanted = expected.get("resumes_to")
    if wanted is None or not EXACT:
        return
    found = model_digest(Checkpoint.read(Path(name) / MODEL_FILE).parameters)
    assert found == wanted
    if name.endswith("-release"):  # nothing was lost: the end is that of a run in one piece
        assert found == expected["whole"] == EXPECTED[name.removesuffix("-cut-release")]["model"]


def test_what_is_compared_is_all_that_was_kept() -> None:
    """Of every system and aggregation there is a run, and a run that goes on."""
    cut = {name for name, said in EXPECTED.items() if "resumes_to" in said}
    for system in ("fedavg", "naive", "group", "avg", "sgd"):
        assert any(name.startswith(system) for name in cut), system
    for part in ("masked", "dropouts", "colluders", "coalition", "private-slots", "published"):
        assert any(part in name for name in EXPECTED), part
    with pytest.raises(AssertionError):
        require_kept({"epsilon": 1.0}, {"epsilon": 1.0 + 1e-9}, "control")
