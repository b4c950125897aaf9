"""The files of kept answers: a header that says why and with what, and the cases."""

from __future__ import annotations

import json
import lzma
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "golden"
LIBRARIES: Final = ("numpy", "scipy", "torch", "scikit-learn", "typer", "dp-accounting")
"""Libraries whose versions a header names: another one may answer otherwise."""


@dataclass(frozen=True)
class Case:
    """What is asked, by a name that no other case of its section has."""

    name: str
    asked: Mapping[str, Any]


@dataclass(frozen=True)
class Golden:
    """The kept answers of a section: by case, what was asked and what was answered."""

    section: str
    header: dict[str, Any]
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)


def versions() -> dict[str, str]:
    """Return the versions of what computes the answers."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = metadata.version(name)
    return found


def path_of(section: str) -> Path:
    """Return the file of a section."""
    return FOLDER / f"{section}.json.xz"


def read(section: str) -> Golden:
    """Return what is kept of a section."""
    content = json.loads(lzma.decompress(path_of(section).read_bytes()))
    return Golden(section, content["header"], content["cases"])


def write(golden: Golden) -> int:
    """Keep the answers of a section; return the bytes that they take."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps({"header": golden.header, "cases": golden.cases}, separators=(",", ":"))
    packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    path_of(golden.section).write_bytes(packed)
    return len(packed)
