"""States of generators that noise was drawn from, over all processes of a run.

    noise-states.txt      for the owner alone: a name of each state, with its place in the log

A run that goes on from a checkpoint may take up the generator of that time, and draw the same noise
for other sums: their difference has none.  A name is a digest of a state, and says nothing of the
data; who knows a state can tell which it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias

from ...accountant.errors import LogBroken

STATES_FILE: Final = "noise-states.txt"

Place: TypeAlias = tuple[str, int]
"""A stream of the log, and a position in it."""


class NoiseStates:
    """Where in the log each state was first drawn from; kept in the folder of the log."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        try:
            self._file = os.fdopen(os.open(folder / STATES_FILE, flags, 0o600), "r+b", buffering=0)
            kept = self._file.read().decode("ascii", "replace")
        except OSError as error:
            raise _unwritten(error) from None
        self._places: dict[str, Place] = {}
        for line in kept.splitlines():
            words = line.split()
            if len(words) == 3 and words[2].isdecimal():  # a line that was cut off has no place
                self._places.setdefault(words[0], (words[1], int(words[2])))
        if kept and not kept.endswith("\n"):
            self._write("\n")

    def place(self, state: str, otherwise: Place) -> Place:
        """Return where a state was first drawn from; it is the given place for a new one.

        Raises `LogBroken` where that cannot be written: then no noise may be drawn.
        """
        if state not in self._places:
            stream, first = otherwise
            self._write(f"{state} {stream} {first}\n")
            self._places[state] = otherwise
        return self._places[state]

    def _write(self, text: str) -> None:
        content = text.encode("ascii")
        try:
            whole = self._file.write(content) == len(content)
        except OSError as error:
            raise _unwritten(error) from None
        if not whole:
            raise _unwritten(OSError(0, "the disk took a part of it"))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _unwritten(error: OSError) -> LogBroken:
    return LogBroken(
        f"The states that noise is drawn from cannot be kept: {error.strerror}.",
        "Noise that is drawn twice is found by them, in a later process too.",
        "Make room on the disk, and start in a new folder.",
    )
