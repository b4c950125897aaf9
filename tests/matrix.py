"""The default tests on every Python that is at hand, and with the oldest allowed libraries.

    python tests/matrix.py                        # `make matrix`: all of it, then a table
    python tests/matrix.py 3.12 oldest -- -x      # these environments; the rest goes to pytest

An environment has the versions of `constraints.txt`; `oldest` is the oldest Python with the oldest
numpy, scipy and typer that `pyproject.toml` allows, and the newest of everything else.  torch is
installed where its CPU wheel is found (`PIP_FIND_LINKS`, or an index that has `+cpu` versions), as
anything else would fetch gigabytes; without it, tests that need none are run.  Interpreters are
looked for on the path, with uv and with pyenv; one that is missing is reported, and not fetched
(`uv python install 3.14` fetches one).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
WORK: Final = ROOT / "build" / "matrix"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
OLDEST: Final = ("numpy", "scipy", "typer")
CONSTRAINTS: Final = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

WITHOUT_TORCH: Final = (
    "tests/accountant",
    *("tests/audit/test_check_*.py", "tests/audit/test_description_*.py"),
    *("tests/audit/test_readers_*.py", "tests/audit/test_reproduction_*.py"),
    *("tests/cli/test_account*.py", "tests/cli/test_calibrate*.py", "tests/cli/test_check*.py"),
    *("tests/cli/test_explain.py", "tests/cli/test_plan.py", "tests/cli/test_risk.py"),
)
"""Tests that train nothing."""

MODULES: Final = """
import doctest, importlib, importlib.util, pathlib, sys
root, failed, lacking, count = pathlib.Path(sys.argv[1]), 0, [], 0
trains = () if importlib.util.find_spec("torch") else ("privplan.fl.running.run_and_resume",)
for floor in ("accountant", "audit", "fl", "cli"):
    for path in sorted((root / floor).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] == "__main__":
            continue
        name = ".".join(("privplan", *parts)).removesuffix(".__init__")
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            if error.name != "torch":
                raise
            lacking.append(name)
            continue
        except Exception as error:
            if type(error).__name__ != "MissingExtra":
                raise
            lacking.append(name)
            continue
        count += 1
        failed += 0 if name in trains else doctest.testmod(module).failed
print(f"{count} modules, {len(lacking)} more need torch; {failed} examples failed")
raise SystemExit(failed > 0)
"""
"""Import every module, and try the examples in its docstrings, but where torch is missing."""


@dataclass(frozen=True)
class Row:
    """What one environment showed."""

    name: str
    versions: str = ""
    tests: str = ""
    result: str = ""
    seconds: float = 0.0
    passed: bool = False


def interpreter(version: str) -> str | None:
    """Return the path of a Python of this version, or None where none is at hand."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}")]
    if uv := shutil.which("uv"):
        asked = [uv, "python", "find", "--no-python-downloads", version]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        found.append(done.stdout.strip() if done.returncode == 0 else None)
    found += [str(path / "bin" / "python") for path in sorted(pyenv.glob(f"{version}.*"))]
    for path in found:
        if path and _prints(path, "import sys; print('%d.%d' % sys.version_info[:2])") == version:
            return path
    return None


def _prints(python: str, program: str) -> str | None:
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def least(requirements: list[str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the oldest version that is allowed of each of some packages.

    >>> least(["numpy>=2.0", "scipy>=1.17"], ("scipy",))
    {'scipy': '1.17'}
    """
    split = [re.split(r">=|,|;", requirement) for requirement in requirements]
    return {name.strip(): version.strip() for name, version, *_ in split if name.strip() in names}


def constrained(oldest: bool) -> str:
    """Return the constraints of an environment: those of the repository, or the oldest."""
    if not oldest:
        return CONSTRAINTS
    pins = least(PROJECT["dependencies"], OLDEST)
    return "".join(f"{name}=={version}\n" for name, version in pins.items())


def requirements(torch: str | None) -> list[str]:
    """Return what tests need, with this torch or with none."""
    extras: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *extras["fl"], *extras["report"], *extras["test"]]
    kept = [each for each in named if not each.startswith(("torch", "privplan"))]
    return [*kept, torch] if torch else kept


def cpu_torch(python: str) -> str | None:
    """Return the pinned torch as its CPU wheel, where pip finds one for this Python."""
    pinned = re.search(r"^torch==([\d.]+)$", CONSTRAINTS, re.MULTILINE)
    wheel = f"torch=={pinned[1]}+cpu" if pinned else "torch"
    asked = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", wheel]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return wheel if done.returncode == 0 else None


def environment(name: str, python: str) -> tuple[str, str | None]:
    """Make an environment; return its Python, and its torch. Raise `CalledProcessError`."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = str(folder / "bin" / "python")
    torch = cpu_torch(inside)
    file = folder / "constraints.txt"
    file.write_text(constrained(name == "oldest"), encoding="utf-8")
    pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "-c", str(file), *requirements(torch)], check=True)
    editable = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    subprocess.run([*pip, *editable], check=True)
    return inside, torch


def tried(name: str, more: list[str]) -> Row:
    """Make one environment and run the tests in it."""
    version = PYTHONS[0] if name == "oldest" else name
    python = interpreter(version)
    if python is None:
        return Row(name, result="no such interpreter is at hand", passed=True)
    began = time.monotonic()
    try:
        inside, torch = environment(name, python)
    except subprocess.CalledProcessError as error:
        return Row(name, result=f"not installed (exit code {error.returncode})")
    shown = ", ".join(
        f"{each} {_prints(inside, f'from importlib.metadata import *; print(version({each!r}))')}"
        for each in OLDEST
    )
    chosen = ["tests"] if torch else [str(p) for g in WITHOUT_TORCH for p in sorted(ROOT.glob(g))]
    given = dict(os.environ, OPENBLAS_NUM_THREADS="1", MPLBACKEND="agg")
    modules = subprocess.run(
        [inside, "-c", MODULES, str(ROOT)], env=given, cwd=WORK, check=False, text=True
    )
    log = WORK / f"{name}.log"
    with log.open("w", encoding="utf-8") as file:
        command = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, *chosen]
        tests = subprocess.run(command, env=given, cwd=ROOT, check=False, stdout=file, stderr=file)
    said = log.read_text(encoding="utf-8").strip().splitlines()
    return Row(
        name,
        f"Python {_prints(inside, 'import platform; print(platform.python_version())')}, {shown}",
        "all" if torch else "those without torch",
        f"{'modules failed; ' if modules.returncode else ''}{said[-1].strip('= ') if said else ''}",
        time.monotonic() - began,
        modules.returncode == tests.returncode == 0,
    )


def main() -> int:
    """Try the environments that are named, or all; return 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join((*PYTHONS, 'oldest'))}")
    own, _, more = " ".join(sys.argv[1:]).partition(" -- ")
    names = parser.parse_args(own.split()).names or [*PYTHONS, "oldest"]
    if unknown := set(names) - {*PYTHONS, "oldest"}:
        parser.error(f"not one of them: {', '.join(sorted(unknown))}")
    WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in names:
        print(f"==> {name}", flush=True)
        rows.append(tried(name, more.split() or ["-n", "2"]))
    print(f"\n{'':8}{'versions':58}{'tests':21}{'seconds':>8}  result")
    for row in rows:
        print(f"{row.name:8}{row.versions:58}{row.tests:21}{row.seconds:>8.0f}  {row.result}")
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
