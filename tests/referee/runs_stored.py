"""The stored runs: their folders, packed; they are read and never run again."""

from __future__ import annotations

import functools
import io
import json
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .golden import FOLDER

ARCHIVE: Final = FOLDER / "runs.tar.xz"
ABOUT: Final = "about.json"
"""The member that says why the runs were made, and how each of them."""


@functools.cache
def _members() -> dict[str, bytes]:
    packed = lzma.decompress(ARCHIVE.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {
            member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


def about() -> dict[str, Any]:
    """Return why the runs were made, and by run how."""
    said: dict[str, Any] = json.loads(_members()[ABOUT])
    return said


def unpack(name: str, folder: Path) -> Path:
    """Write a stored run, and return its folder."""
    for path, content in _members().items():
        run, _, rest = path.partition("/")
        if run == name and rest:
            (folder / rest).parent.mkdir(parents=True, exist_ok=True)
            (folder / rest).write_bytes(content)
    return folder


def pack(said: Mapping[str, Any], folders: Mapping[str, Path]) -> int:
    """Store runs with what is said about them; return the bytes that they take."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:

        def add(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

        add(ABOUT, json.dumps(said).encode())
        for name, folder in folders.items():
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    add(f"{name}/{path.relative_to(folder)}", path.read_bytes())
    packed = lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    ARCHIVE.write_bytes(packed)
    return len(packed)
