"""The FILEs of `privplan check`: files, folders, runs of privplan, or standard input if `-`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...audit.description.run_description import Reading

STANDARD_INPUT: Final = "standard input"
MAX_FOLDER_FILES: Final = 1000
MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that are taken from standard input."""


def read_source(source: str) -> Reading:
    """Return what a file says of a run; raise `InvalidInput` for what is not understood."""
    from ...accountant.errors import InvalidInput
    from ...accountant.regular_file import first_bytes_given, is_own_stream
    from ...audit.readers.recognition import read_content, read_file

    if source != "-" and not is_own_stream(source):
        return read_file(source)
    if source != "-":
        try:
            content = first_bytes_given(source, MAX_INPUT_BYTES)
        except OSError:
            return read_file(source)  # which says what is wrong
    else:
        content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(content) > MAX_INPUT_BYTES:
        raise InvalidInput(
            f"Standard input holds more than {MAX_INPUT_BYTES // 1024**2} MiB.",
            "What describes a run is short.",
            "Give the file itself, of which only the accountant's part is read.",
        )
    return read_content(content, STANDARD_INPUT)


def expanded(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the sources with every folder, but the runs of privplan, as the files in it.

    Hidden files and folders in a folder are left out.  Raises `InvalidInput` for a folder without
    files, or with more than `MAX_FOLDER_FILES`.
    """
    return tuple(dict.fromkeys(file for source in sources for file in _files_of(source)))


def _files_of(source: str) -> tuple[str, ...]:
    from ...accountant.errors import InvalidInput
    from ...audit.readers.recognition import LOG_FILE

    try:
        folder = Path(source)
        if source == "-" or not folder.is_dir() or (folder / LOG_FILE).exists():
            return (source,)
        names = sorted(
            entry.name
            for entry in folder.iterdir()
            if entry.is_file() and not entry.name.startswith(".")
        )
    except (OSError, ValueError):
        return (source,)  # reading it says what is wrong
    if not names:
        raise InvalidInput(
            f"{source} is a folder without log.jsonl, and without any file.",
            "A run of privplan has a log; other runs are described by files.",
            "Name the files that hold the runs' numbers: privplan check runs/*.toml",
        )
    if len(names) > MAX_FOLDER_FILES:
        raise InvalidInput(
            f"{source} has more than {MAX_FOLDER_FILES:,} files.",
            "Each would be a run of its own.",
            "Name the files that hold the runs' numbers: privplan check runs/*.toml",
        )
    return tuple(str(folder / name) for name in names)
