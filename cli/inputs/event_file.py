"""Reading an event from a file or from standard input, and refusing whatever is not one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import first_bytes_given

if TYPE_CHECKING:
    from ...accountant.events import Event

MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Most bytes that are read as an event."""

EVENT_EXAMPLE: Final = (
    """echo '{"type": "gaussian", "noise_multiplier": 1}' | privplan account - --delta 1e-5"""
)


def read_event(source: str) -> Event:
    """Return the event in the file `source`, or on standard input if it is `-`.

    Raises `InvalidInput`, which names the source, for whatever cannot be read as an event.
    """
    from ...accountant.events import from_json

    name = "Standard input" if source == "-" else f"The file {source!r}"
    try:
        content = _read_stream() if source == "-" else first_bytes_given(source, MAX_EVENT_BYTES)
    except IsADirectoryError:
        is_run = (Path(source) / "log.jsonl").is_file()
        raise InvalidInput(
            f"{source!r} is a directory.",
            "An event is one JSON file." if not is_run else "It is what a run left, and no event.",
            f"privplan audit budget {shlex.quote(source)}"
            if is_run
            else "Name the file in it that is meant.",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"{name} cannot be read: {reason}.",
            "An event is read from a JSON file, or from standard input if it is `-`.",
            f"Check the path, or try: {EVENT_EXAMPLE}",
        ) from None
    if len(content) > MAX_EVENT_BYTES:
        raise InvalidInput(
            f"{name} is larger than {MAX_EVENT_BYTES // 1024**2} MiB.",
            "An event is a short description, not the data.",
            "Write equal steps as one `repeat`.",
        )
    try:
        # Some editors put a byte order mark in front of UTF-8.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name} is not UTF-8 text (byte {error.start}).",
            "An event is JSON, and JSON is UTF-8.",
            "Save the file as UTF-8.",
        ) from None
    if not text.strip():
        raise InvalidInput(
            f"{name} is empty.", "There is no event to account for.", f"Try: {EVENT_EXAMPLE}"
        )
    try:
        return from_json(text)
    except InvalidInput as error:
        raise InvalidInput(
            f"{name}: {error.what}", error.why, _next_step(source, text, error.next_step)
        ) from None


def _next_step(source: str, text: str, step: str) -> str:
    """Return what to do next about a text that is no event."""
    # Whoever misspells an event's field has a type in it; everything else is another kind of file.
    if '"type"' in text:
        return step or f"Try: {EVENT_EXAMPLE}"
    named = shlex.quote(source)
    return f"For another library's file, or a description of a run: privplan check {named}"


def names_event(word: str) -> bool:
    """Return whether `word` is a path (it exists or ends in .json or .csv) or `-`."""
    if word == "-" or word.lower().endswith((".json", ".csv")):
        return True
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def _read_stream() -> bytes:
    if sys.stdin is None:
        return b""
    return sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
