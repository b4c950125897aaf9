"""Folders on a disk of their own that can be full: Linux, and root."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = 4096
"""Such a disk hands out room by so many bytes."""


@contextmanager
def small_disk(folder: Path, kilobytes: int = 512) -> Iterator[None]:
    """Put a folder, with what is in it, on a disk of its own; skip the test where none is."""
    kept = folder.with_name(f"{folder.name}-kept")
    folder.rename(kept)
    folder.mkdir(mode=0o700)
    size = f"size={kilobytes}k,mode=700"
    command = ["mount", "-t", "tmpfs", "-o", size, "none", str(folder)]
    try:
        failed = subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:
        failed = 1
    if failed:
        pytest.skip("no disk can be mounted here: it takes Linux, and root")
    try:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path, leave: int = 0) -> None:
    """Write a file until the disk is full but for so many pages."""
    with path.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(bytes(PAGE)):
                pass
        file.truncate(max(path.stat().st_size // PAGE - leave, 0) * PAGE)
