"""`privplan doctor`: is this installation complete, and does it compute correctly?"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ...accountant import rounding
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, table

PACKAGE_NAME: Final = "privplan"

EXACT_EPSILON_INTERVAL: Final = (4.377178095, 4.377178097)
"""Between these lies the epsilon of Gaussian(1) at delta 1e-5, adding or removing one record.

It solves Phi(1/2 - epsilon) - exp(epsilon) Phi(-1/2 - epsilon) = 1e-5.  Source: Balle and Wang
2018, Theorem 5, arXiv 1805.06530; solved with mpmath to 30 digits.
"""

MAX_SELF_TEST_INTERVAL: Final = 1e-2
"""How far apart the two ends may lie."""


@dataclass(frozen=True)
class SelfTest:
    """What one engine said about Gaussian(1) at delta 1e-5, or why it said nothing."""

    engine: str
    ok: bool
    lower: float | None = None
    upper: float | None = None
    trouble: str = ""

    def text(self) -> str:
        """Return the outcome for a person."""
        if self.lower is None or self.upper is None:
            return f"FAILED: {self.trouble}"
        interval = f"epsilon in [{rounding.down(self.lower, 9)}, {rounding.up(self.upper, 9)}]"
        verdict = "passed" if self.ok else "FAILED"
        return f"{verdict}: {interval}, exactly {EXACT_EPSILON_INTERVAL[0]:.6f}"


@dataclass(frozen=True)
class Extra:
    """An optional part of privplan: the packages that it lacks, and how to install them."""

    name: str
    missing: tuple[str, ...]
    install: str

    def text(self) -> str:
        """Return the state for a person."""
        if not self.missing:
            return "installed"
        return f"absent ({', '.join(self.missing)})   {self.install}"


@takes(OutputOptions)
def doctor(*_: object) -> Report:
    """Check the installation, and compute a known answer.

    Leaves with exit code 1 if a required package is missing or the self-test fails; --quiet
    prints the number of such problems.  Systems of other packages are imported and listed,
    with what is wrong with them.
    """
    required, extras = _requirements()
    versions = {name: _version(name) for name in required}
    # Two engines of independent mathematics against one exact number.
    tests = [self_test(engine) for engine in ("gdp", "pld")]
    others = foreign_systems()
    problems = sum(version is None for version in versions.values())
    # Extras may be absent and packages of others broken: neither is a fault of this installation.
    problems += sum(not test.ok for test in tests)
    rows = [
        (PACKAGE_NAME, _version(PACKAGE_NAME) or "not installed"),
        ("Python", f"{platform.python_version()} on {platform.platform(terse=True)}"),
        *((name, version or "MISSING") for name, version in versions.items()),
        *((f"extra {extra.name}", extra.text()) for extra in extras),
        *((f"self-test {test.engine}", test.text()) for test in tests),
        *((f"system {system['system']}", _foreign_text(system)) for system in others),
    ]
    result: dict[str, object] = {
        "privplan": _version(PACKAGE_NAME),
        "python": platform.python_version(),
        "executable": sys.executable,
        "dependencies": versions,
        "extras": {
            extra.name: {
                "installed": not extra.missing,
                "missing": list(extra.missing),
                "install": extra.install,
            }
            for extra in extras
        },
        "self_test": [asdict(test) for test in tests],
        "systems": others,
        "problems": problems,
    }
    return Report(result=result, text=table(rows), number=str(problems), ok=problems == 0)


def foreign_systems() -> list[dict[str, str | None]]:
    """Return the systems of other packages, or what is wrong with them."""
    from ...fl.declarations.packages import foreign_systems

    return [
        {
            "system": entry.name,
            "package": entry.package,
            "version": entry.version,
            "trouble": None if entry.trouble is None else entry.trouble.what,
        }
        for entry in foreign_systems()
    ]


def _foreign_text(system: Mapping[str, str | None]) -> str:
    from ...fl.declarations.packages import has_entry

    whose, name = f"{system['package']} {system['version']}", str(system["system"])
    if system["trouble"] is not None:
        return f"{whose}: CANNOT BE USED. {system['trouble']}"
    if has_entry(name):
        return whose
    return (
        f"{whose}: RUNS, AND ITS LOGS ARE NOT COMPARED. No entry point is named {name}, "
        "and a log loads no other."
    )


def self_test(engine: str) -> SelfTest:
    """Return whether `engine` brackets the known answer, closely; it never raises."""
    try:
        from ...accountant.account import account
        from ...accountant.events import Gaussian

        bounds = account(Gaussian(1.0), delta=1e-5, engine=engine).epsilon
    except Exception as error:  # whatever goes wrong in there is what doctor is for
        return SelfTest(engine, ok=False, trouble=f"{type(error).__name__}: {error}")
    low, high = EXACT_EPSILON_INTERVAL
    ok = bounds.lower <= high and bounds.upper >= low and bounds.gap <= MAX_SELF_TEST_INTERVAL
    return SelfTest(engine, ok, bounds.lower, bounds.upper)


def _requirements() -> tuple[list[str], list[Extra]]:
    """Return the required packages and the extras, as the installed metadata lists them."""
    from importlib import metadata

    required: list[str] = []
    optional: dict[str, list[str]] = {}
    try:
        lines = metadata.requires(PACKAGE_NAME) or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        # A requirement with an `extra` marker belongs to that extra, any other is required.
        marker = re.search(r"""extra\s*==\s*["']([^"']+)["']""", line)
        if marker is None:
            required.append(name)
        elif name != PACKAGE_NAME:
            optional.setdefault(marker[1], []).append(name)
    extras = [
        Extra(
            name=extra,
            missing=tuple(name for name in names if _version(name) is None),
            install=install_command(extra),
        )
        for extra, names in optional.items()
    ]
    return required, extras


def install_command(extra: str) -> str:
    """Return the command that adds `extra` to this installation, from where it came."""
    from importlib import metadata

    try:
        origin = json.loads(
            metadata.distribution(PACKAGE_NAME).read_text("direct_url.json") or "{}"
        )
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    return f"pip install {_requirement(extra, origin if isinstance(origin, dict) else {})}"


@contextmanager
def naming_install_command(extra: str) -> Iterator[None]:
    """Have a `MissingExtra` name the command that installs `extra` here, from where this came."""
    from ...accountant.errors import MissingExtra

    try:
        yield
    except MissingExtra as error:
        raise type(error)(error.what, error.why, install_command(extra)) from None


def _requirement(extra: str, origin: Mapping[str, object]) -> str:
    """Return what pip is to install; `origin` is the record of PEP 610."""
    from urllib.parse import unquote, urlparse

    url = origin.get("url")
    if not isinstance(url, str):
        return f"'{PACKAGE_NAME}[{extra}]'"
    directory, version = origin.get("dir_info"), origin.get("vcs_info")
    if isinstance(directory, Mapping):
        flag = "-e " if directory.get("editable") else ""
        folder = Path(unquote(urlparse(url).path))
        tested = folder / "constraints.txt"
        limit = f" -c '{tested}'" if tested.is_file() else ""
        return f"{flag}'{folder}[{extra}]'{limit}"
    if isinstance(version, Mapping):
        url = f"{version.get('vcs')}+{url}@{version.get('commit_id')}"
    return f"'{PACKAGE_NAME}[{extra}] @ {url}'"


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
