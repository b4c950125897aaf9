"""What each party of a run received, in files: evidence that nothing more reached it.

`transcripts/<party>.jsonl` holds one message a line, in the order in which they arrived: `session`
(hex), `round`, `kind`, `sender`, and `body` (Base64 of the bytes that travelled: MessagePack, but
for masked words, which are their own bytes).  A party's view is the whole of its file and what it
owns itself.  The files are for a trusted auditor: all of them together tell more than any party
knows.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_appended, open_regular, own_folder
from .network import Message, Network

FOLDER: Final = "transcripts"

_SEARCH_BLOCK_BYTES: Final = 1 << 16
"""Bytes that are searched at once for the end of the last line."""

_FIELDS: Final = ("session", "round", "kind", "sender", "body")


def append_transcripts(folder: Path, network: Network) -> None:
    """Append what the network has kept since the last time, each message to its receiver's file.

    The files can be read by their owner only, those of a folder that was copied too.  A last line
    that was cut off is taken away first.  Nothing is written through a link, or to what is no
    regular file: that raises `OSError`, as any fault does.
    """
    transcripts = folder / FOLDER
    own_folder(transcripts, 0o700)
    lines: dict[str, list[str]] = {}
    for message in network.take():
        lines.setdefault(message.receiver, []).append(_line(message))
    for name, content in lines.items():
        handle = open_appended(transcripts / f"{name}.jsonl")
        with os.fdopen(handle, "a", encoding="ascii") as file:
            _mend(handle)
            file.writelines(content)


def read_transcript(folder: Path, name: str) -> Iterator[Message]:
    """Yield the messages that a party received, in their order; `folder` is that of the run.

    Raises `InvalidInput` for a line that is no message; `OSError`.
    """
    path = folder / FOLDER / f"{name}.jsonl"
    with open_regular(path, within=folder) as file:
        for number, line in enumerate(file, 1):
            yield _message(line, name, number)


def _mend(handle: int) -> None:
    """Cut off a last line that does not end, which the next one would run on in."""
    end = os.fstat(handle).st_size
    while end:
        first = max(0, end - _SEARCH_BLOCK_BYTES)
        last = os.pread(handle, end - first, first).rfind(b"\n")
        if last >= 0:
            os.ftruncate(handle, first + last + 1)
            return
        end = first
        if not end:
            os.ftruncate(handle, 0)


def _line(message: Message) -> str:
    fields = {
        "session": message.session.hex(),
        "round": message.round,
        "kind": message.kind,
        "sender": message.sender,
        "body": base64.b64encode(message.body).decode("ascii"),
    }
    return json.dumps(fields, separators=(",", ":")) + "\n"


def _message(line: bytes, receiver: str, number: int) -> Message:
    try:
        fields = parsed_json(line.decode("ascii"))
        session, round, kind, sender, body = (fields[field] for field in _FIELDS)
        if type(round) is int and type(kind) is str and type(sender) is str:
            raw = base64.b64decode(body, validate=True)
            return Message(bytes.fromhex(session), round, kind, sender, receiver, raw)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass  # and what was found wrong, which quotes the line
    raise InvalidInput(
        f"Line {number} of the transcript of {receiver!r} is no message.",
        "The run may have been cut off while it wrote the line.",
        "Use the transcript up to the line before.",
    )
