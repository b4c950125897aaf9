"""The list `packages` in `pyproject.toml`, written from the folders: setuptools cannot find them.

The repository root is the package `privplan`, and setuptools looks for packages below a folder,
never for that folder itself.

    python tests/packages_listed.py            # says whether the list is right; exit code 1 if not
    python tests/packages_listed.py --write    # writes it
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FLOORS: Final = ("accountant", "audit", "fl", "cli")

LIST: Final = re.compile(r"^packages = \[\n.*?^\]\n", re.MULTILINE | re.DOTALL)


def packages(root: Path = ROOT) -> list[str]:
    """Return every package of a checkout, floor by floor: a folder of a floor with `__init__`."""
    folders = [
        path.parent.relative_to(root).parts
        for floor in FLOORS
        for path in sorted((root / floor).rglob("__init__.py"), key=lambda path: path.parent.parts)
    ]
    return [".".join(("privplan", *parts)) for parts in [(), *folders]]


def listed(project: str) -> list[str]:
    """Return the packages that the text of a `pyproject.toml` lists."""
    names: list[str] = tomllib.loads(project)["tool"]["setuptools"]["packages"]
    return names


def rewritten(project: str, names: list[str]) -> str:
    """Return the text of a `pyproject.toml` with this list; raise `ValueError` if it has none.

    >>> print(rewritten('x = 1\\npackages = [\\n    "a",\\n]\\ny = 2\\n', ["a", "a.b"]), end="")
    x = 1
    packages = [
        "a",
        "a.b",
    ]
    y = 2
    """
    if len(LIST.findall(project)) != 1:
        raise ValueError("there must be one list `packages = [`, a line for each package")
    lines = "".join(f'    "{name}",\n' for name in names)
    return LIST.sub(lambda _: f"packages = [\n{lines}]\n", project)


def main() -> int:
    """Compare the list with the folders, or write it."""
    parser = argparse.ArgumentParser(description="The list `packages` in pyproject.toml.")
    parser.add_argument("--write", action="store_true", help="write it from the folders")
    write = parser.parse_args().write
    file = ROOT / "pyproject.toml"
    project = file.read_text(encoding="utf-8")
    right = rewritten(project, packages())
    if write:
        file.write_text(right, encoding="utf-8")
    elif right != project:
        for name in sorted(set(packages()) ^ set(listed(project))):
            print("not listed:" if name in packages() else "no package:", name)
        print("next: python tests/packages_listed.py --write")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
