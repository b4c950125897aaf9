"""The system that the documentation adds, as it stands there: run, killed, resumed and audited."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.running import metrics_file, run_data

from ..packages.inside import privplan
from .extras import needs
from .foreign import ROOT, as_pip, killed

pytestmark = needs("torch", "sklearn", "cryptography")


def section() -> dict[str, str]:
    """Return the files of the section: the last file named in the text before each block."""
    text = (ROOT / "docs" / "how-to" / "add-system.md").read_text()
    files, last = {}, ""
    for before, kind, content in re.findall(r"(.*?)```(\w*)\n(.*?)```", text, re.S):
        names = re.findall(r"`([\w/]+\.(?:py|toml))`", before)
        last = names[-1] if names else last
        if kind:
            files[last] = content
    return files


def installed(place: Path, version: str = "1.0") -> Path:
    """Follow the section, and do what pip would do with it."""
    files = section()
    assert set(files) == {
        *("damped_avg/__init__.py", "damped_avg/system.py", "heavy_avg/system.py"),
        *("pyproject.toml", "run.toml"),
    }
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    return as_pip(place, place, version)


def test_the_system_of_the_section_runs_and_is_audited(tmp_path: Path) -> None:
    place = installed(tmp_path / "package")
    shown = privplan(place, "explain", "run").stdout
    assert "damped-avg" in shown
    assert "[damped]  what only damped-avg has" in shown
    assert "damped-avg 1.0" in privplan(place, "doctor").stdout
    ran = privplan(place, "run", "run.toml", "--out", "out")
    assert ran.returncode == 0, ran.stderr
    opened = json.loads((place / "out" / "log.jsonl").read_text().splitlines()[0])
    assert opened["system"] == "damped-avg"
    assert opened["configuration"]["damped"] == {"share": "0.25"}
    assert "uldp" not in opened["configuration"]
    assert opened["code"]["damped-avg"] == "1.0"
    found = json.loads(privplan(place, "audit", "budget", "out", "--json").stdout)
    assert found["ok"] is True
    assert found["result"]["hazards"] == []


@pytest.mark.slow  # two runs and three audits in processes of their own
def test_a_log_of_a_system_that_is_not_installed_is_audited_all_the_same(tmp_path: Path) -> None:
    place = installed(tmp_path / "package")
    assert privplan(place, "run", "run.toml", "--out", "out").returncode == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(place / "out", elsewhere / "out")
    residual = privplan(place, "audit", "attack", "out", "--tier", "residual")
    assert residual.returncode == 0, residual.stderr
    with_it = json.loads(privplan(place, "audit", "budget", "out", "--json").stdout)["result"]
    done = privplan(elsewhere, "audit", "budget", "out", "--json")
    without = json.loads(done.stdout)["result"]
    assert done.returncode == 0
    assert without["epsilon"] == with_it["epsilon"]
    assert without["observers"] == with_it["observers"]


@pytest.mark.slow  # two runs and two audits in processes of their own
def test_it_is_resumed_and_not_with_another_version(tmp_path: Path) -> None:
    place = installed(tmp_path / "package")
    killed(place)
    shutil.move(place / "damped_avg-1.0.dist-info", tmp_path / "kept")
    other = installed(tmp_path / "other", version="2.0")
    shutil.copytree(place / "out", other / "out")
    refused = privplan(other, "run", "--resume", "--out", "out")
    assert refused.returncode == 2
    said = " ".join(refused.stderr.split())
    assert "was begun with damped-avg 1.0; here is damped-avg 2.0" in said
    shutil.move(tmp_path / "kept", place / "damped_avg-1.0.dist-info")
    resumed = privplan(place, "run", "--resume", "--out", "out")
    assert resumed.returncode == 0, resumed.stderr
    audited = json.loads(privplan(place, "audit", "budget", "out", "--json").stdout)
    assert audited["ok"] is True
    assert audited["result"]["rounds"] == 3


@pytest.mark.slow
def test_hooks_of_the_section_run_and_are_resumed(tmp_path: Path) -> None:
    place = installed(tmp_path / "package")
    declared = place / "damped_avg" / "__init__.py"
    source = declared.read_text().replace("damped_avg.system:damped", "heavy_avg.system:heavy")
    declared.write_text(source)
    killed(place)
    resumed = privplan(place, "run", "--resume", "--out", "out")
    assert resumed.returncode == 0, resumed.stderr
    audited = json.loads(privplan(place, "audit", "budget", "out", "--json").stdout)
    assert audited["ok"] is True
    assert audited["result"]["hazards"] == audited["result"]["not_stated"] == []


HOOKS = """
import numpy as np
from privplan.fl.data.federation import Federation

def measure(prepared, parameters):
    return {"length": float(len(parameters))}

def data(settings):
    records = dict(features=np.zeros((2, 1)), labels=settings.labels, user=[0, 1], silo=[0, 0])
    test = dict(test_features=np.zeros((1, 1)), test_labels=[0])
    return Federation(name="toy", task="binary", classes=2, users=2, silos=1, **records, **test), {}

def none(settings):
    return "a federation", {}

def numbers(settings):
    return data(settings)[0], {"records": 7}

def alone(settings):
    return data(settings)[0]
"""


def test_a_system_says_what_it_makes_of_data_and_how_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy_hooks.py").write_text(HOOKS)
    monkeypatch.syspath_prepend(tmp_path)
    system = replace(declaration_of("uldp-avg"), measure="toy_hooks:measure", data="toy_hooks:data")
    settings: Any = SimpleNamespace(system=system, run=SimpleNamespace(system="toy"), labels=[0, 1])
    for public, said in ((True, {"length": 2.0}), (False, {})):
        prepared: Any = SimpleNamespace(settings=settings, test=SimpleNamespace(public=public))
        assert metrics_file.measure(prepared, np.zeros(2)) == said
    federation, dataset = run_data.federation_of(settings)
    assert federation.labels.tolist() == [0, 1]
    assert list(dataset) == ["federation"]
    assert run_data.federation_of(settings)[1] == dataset
    settings.labels = [1, 1]  # a run would not be resumed on them, though no digest was given
    assert run_data.federation_of(settings)[1] != dataset
    for bad in ("none", "numbers", "alone"):
        settings.system = replace(system, data=f"toy_hooks:{bad}", package="toys")
        with pytest.raises(InvalidInput, match=r"`data` of toy \(package toys\)"):
            run_data.federation_of(settings)
