"""What an installed privplan must do, away from its checkout: `python smoke.py CHECKOUT`.

It is not collected by pytest: `.ci/wheel` runs a copy of it in an environment that has privplan
from a wheel, and gives the checkout only to say that nothing came from there.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.resources
import io
import json
import math
import pkgutil
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

CONFIGURATION: Final = """
[run]
system = "uldp-avg"
rounds = 2
[data]
name = "breast-cancer"
users = 20
silos = 2
[privacy]
unit = "user"
epsilon = 4.0
delta = 1e-5
"""


def check(holds: object, what: str) -> None:
    """Stop with a sentence where something does not hold; unlike `assert`, also under -O."""
    if not holds:
        raise SystemExit(f"smoke: {what}")


def installed_away_from(checkout: Path) -> Path:
    """Return the folder of privplan, which lies in this environment and not in the checkout."""
    import privplan

    folder = Path(privplan.__file__).resolve().parent
    check(checkout not in folder.parents and folder != checkout, f"{folder} is the checkout")
    packages = Path(sysconfig.get_path("purelib")).resolve()
    check(folder.parent == packages, f"{folder} is not in {packages}")
    check(importlib.metadata.version("privplan") == privplan.__version__, "another version")
    return folder


def whole(folder: Path, checkout: Path) -> None:
    """Compare the files with those of the checkout, and import every module."""
    import privplan

    floors = ("accountant", "audit", "fl", "cli")
    kinds = (".py", ".j2", ".txt", ".css")
    wanted = {
        path.relative_to(checkout)
        for floor in floors
        for path in (checkout / floor).rglob("*")
        if path.suffix in kinds
    }
    wanted |= {Path("__init__.py"), Path("__main__.py"), Path("py.typed")}
    wanted |= {
        path.relative_to(checkout)
        for path in (checkout / "examples").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    packed = {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    check(packed == wanted, f"not the files of the checkout: {sorted(packed ^ wanted)[:5]}")
    for module in pkgutil.walk_packages(privplan.__path__, "privplan."):
        if not module.name.endswith("__main__"):
            imported(module.name)


def imported(name: str) -> None:
    """Import a module; one for a library that the wheel was installed without may ask for it."""
    import privplan

    others = ("flwr", "jax", "jax_privacy", "opacus")
    try:
        importlib.import_module(name)
    except privplan.errors.MissingExtra:
        pass
    except ModuleNotFoundError as error:
        check((error.name or "").partition(".")[0] in others, f"{name} needs {error.name}")


def library() -> None:
    """Account and calibrate one Gaussian each."""
    import privplan as pp
    from privplan import events as ev

    epsilon = pp.account(ev.Gaussian(1.0), delta=1e-5).epsilon
    check(4.3771 < epsilon.lower <= epsilon.upper < 4.3773, f"Gaussian(1) is {epsilon}")
    found = pp.calibrate(ev.Gaussian, epsilon=epsilon.upper, delta=1e-5)
    check(math.isclose(found.value, 1.0, rel_tol=1e-4), f"its noise is {found.value}")
    check(found.guarantee.epsilon.upper <= epsilon.upper, "calibrated beyond the target")


def groups(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return the words of every command, groups of commands too."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from groups(inner, (*words, name))


def answer(*words: str) -> str:
    """Return what a command prints, in this process; stop where it does not end with 0."""
    from privplan.cli.main import app

    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app(list(words))
        except SystemExit as end:
            code = end.code or 0
    check(code == 0, f"privplan {' '.join(words)} ended with {code}: {err.getvalue()}")
    return out.getvalue()


def commands() -> None:
    """Ask the installed program, then every command, for help; show every page."""
    import typer.main

    from privplan.cli.main import app

    program = shutil.which("privplan", path=sysconfig.get_path("scripts"))
    check(program, "no program privplan was installed")
    for words in (("--version",), ("--help",)):
        done = subprocess.run([str(program), *words], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and "privplan" in done.stdout, f"privplan {words[0]} fails")
    every = list(groups(typer.main.get_command(app)))
    check(len(every) > 10, f"only {len(every)} commands")
    for words in every:
        check("Usage: privplan" in answer(*words, "--help"), f"no help of {words}")
    pages = importlib.resources.files("privplan.cli.pages")
    topics = [page.name.removesuffix(".txt") for page in pages.iterdir() if ".txt" in page.name]
    check(topics, "no pages")
    for topic in topics:
        check(answer("explain", topic).strip(), f"an empty page on {topic}")


def run(work: Path) -> None:
    """Make a small run, and audit, and report it."""
    (work / "ward.toml").write_text(CONFIGURATION, encoding="utf-8")
    folder = str(work / "ward")
    answer("run", str(work / "ward.toml"), "--out", folder)
    budget = json.loads(answer("audit", "budget", folder, "--json"))["result"]
    check(3.9 < budget["epsilon"]["upper"] <= 4.0, f"the log supports {budget['epsilon']}")
    answer("report", folder, "-o", str(work / "report.html"))
    check("</html>" in (work / "report.html").read_text(encoding="utf-8"), "no page")


def main(checkout: Path) -> None:
    """Do all of it, in the order of what rests on what."""
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        folder = installed_away_from(checkout)
        library()
        commands()
        run(Path(work))
        whole(folder, checkout)
    print(f"privplan {importlib.metadata.version('privplan')} works from {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
