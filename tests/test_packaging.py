"""What is packed, what is pinned, and that what docstrings show is true."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import linecache
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import privplan

from . import packages_listed
from .cases import for_each

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text(encoding="utf-8")
FLOORS = ("accountant", "audit", "fl", "cli")
CODE = sorted(path.relative_to(ROOT) for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))
TEXTS = sorted(
    path.relative_to(ROOT)
    for floor in FLOORS
    for path in (ROOT / floor).rglob("*")
    if path.suffix in (".txt", ".j2")
)
LIBRARIES = {
    "opacus": "opacus",
    "opacus_canaries": "opacus",
    "opacus_observer": "opacus",
    "jax_batches": "jax_privacy",
    "jax_mechanism": "jax_privacy",
    "jax_privacy": "jax_privacy",
    "flower": "flwr",
    "flower_observer": "flwr",
}
"""Adapters that cannot be imported without the library that they are for."""


def _is_importable(path: Path) -> bool:
    library = LIBRARIES.get(path.stem) if path.parent.name == "adapters" else None
    return library is None or importlib.util.find_spec(library) is not None


MODULES = [
    "privplan",
    *(
        ".".join(("privplan", *path.with_suffix("").parts)).removesuffix(".__init__")
        for path in CODE
        if path.stem != "__main__" and _is_importable(path)
    ),
]


def test_every_package_is_listed() -> None:
    """Else: `python tests/packages_listed.py --write`."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert packages_listed.listed(project) == packages_listed.packages()
    assert packages_listed.rewritten(project, packages_listed.packages()) == project


def test_a_folder_that_is_missing_is_written_into_the_list(tmp_path: Path) -> None:
    for folder in ("accountant/new/inner", "accountant/empty", "audit", "fl", "cli", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("accountant", "accountant/new", "accountant/new/inner", "tests"):
        (tmp_path / folder / "__init__.py").touch()
    names = packages_listed.packages(tmp_path)
    assert names == [
        "privplan",
        "privplan.accountant",
        "privplan.accountant.new",
        "privplan.accountant.new.inner",
    ]
    written = packages_listed.rewritten("[tool.setuptools]\npackages = [\n]\n", names)
    assert packages_listed.listed(written) == names
    with pytest.raises(ValueError, match="there must be one list"):
        packages_listed.rewritten("[tool.setuptools]\npackages = []\n", names)


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in CODE}
    assert [str(path) for path in folders if not (ROOT / path / "__init__.py").exists()] == []


def test_root_holds_no_other_module() -> None:
    assert sorted(path.name for path in ROOT.glob("*.py")) == ["__init__.py", "__main__.py"]


def test_version_is_stated_once_for_all() -> None:
    assert PROJECT["project"]["version"] == privplan.__version__
    assert f"## {privplan.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_constraints_pin_every_dependency() -> None:
    pinned, project = pins("constraints.txt"), PROJECT["project"]
    named = [*project["dependencies"]]
    for name, extra in project["optional-dependencies"].items():
        named += extra if name != "flower" else []
    names = {_canonical(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in named}
    assert names - {"privplan"} - set(pinned) == set()
    assert pinned["torch"] == "2.13.0"


def test_flower_has_versions_of_its_own() -> None:
    """It asks for older ones of some packages; all others are the same."""
    with_flower, without = pins("constraints-flower.txt"), pins("constraints.txt")
    assert with_flower["flwr"].startswith("1.42.")
    assert PROJECT["project"]["optional-dependencies"]["flower"] == ["flwr==1.42.*"]
    for name in ("numpy", "scipy", "torch", "cryptography", "pynacl", "msgpack", "pyarrow"):
        assert with_flower[name] == without[name]


def pins(file: str) -> dict[str, str]:
    """Return the versions that a file of constraints pins, by package."""
    lines = (ROOT / file).read_text().splitlines()
    split = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {_canonical(name): version for name, version in split}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_wheel_holds_privplan_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path / "some-checkout"
    skipped = shutil.ignore_patterns(
        *(".*", "build", "dist", "*.egg-info", "__pycache__"),
        *("*.ipynb", "*.json", "*.jsonl", "*.npz"),  # many, and what is beside them stays
    )
    shutil.copytree(ROOT, source, ignore=skipped)
    program = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = f"privplan-{privplan.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"privplan", info}
    assert f"{info}/licenses/LICENSE" in names
    code = {f"privplan/{path.as_posix()}" for path in CODE}
    code |= {f"privplan/{path.as_posix()}" for path in TEXTS}
    packed = {name for name in names if name.startswith("privplan/")}
    root = {"__init__.py", "__main__.py", "py.typed"}
    assert packed >= code | {f"privplan/{name}" for name in root}
    examples = {
        f"privplan/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "examples").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed >= examples
    assert {name.split("/")[1] for name in packed} == {*root, *FLOORS, "examples"}


@for_each("name", MODULES, items=12)
def test_examples_in_docstrings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Before each example the debugger looks on disk for changes of all that was ever quoted.
    monkeypatch.setattr(linecache, "checkcache", lambda *_: None)
    if name == "privplan.fl.network.flower":
        pytest.importorskip("flwr")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_public_names_have_docstrings_with_examples() -> None:
    for name in ("account", "calibrate", "plan_run", "resume", "run"):
        assert ">>> " in getattr(privplan, name).__doc__


def test_readme_states_the_command_that_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    command = re.search(r"^readme_tests='(.+)'$", script, re.MULTILINE)
    assert command is not None
    assert f"\n{command[1]}\n" in README


def test_what_is_left_out_by_default_is_run_by_ci() -> None:
    assert "-m 'not slow'" in PROJECT["tool"]["pytest"]["ini_options"]["addopts"]
    script = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^[^#]*check python -m pytest -n 2 -m slow$", script, re.MULTILINE)
