"""What a party did, a JSON object a line with the time: for who operates it, and no release.

It lies next to the log of the run, is its owner's alone, and is never sent anywhere: times tell
how long a round took, which may depend on the data.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

FILE: Final = "guard.jsonl"
SERVER_FILE: Final = "server.jsonl"
EARLIER: Final = ".1"
"""What the name of the file before the last one ends with."""

MAX_BYTES: Final = 2**24
"""How long a file may be: whoever sends requests without end must not fill a silo's disk."""


class GuardLog:
    """Lines about requests: what was given out, what was refused and why; at the server, of rounds.

    `tell` is called with each of them, for a screen.
    """

    def __init__(
        self, folder: Path, tell: Callable[[str], None] | None = None, file: str = FILE
    ) -> None:
        self.path, self._tell = folder / file, tell
        self._lock = threading.Lock()

    def write(self, what: str, **about: object) -> None:
        """Append a line; where the disk is full it is lost, and nothing else depends on it."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "what": what, **about}
        text = json.dumps(line, sort_keys=True) + "\n"
        if self._tell is not None:
            self._tell(text.rstrip("\n"))
        with self._lock:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
                descriptor = os.open(self.path, flags, 0o600)
                try:
                    os.write(descriptor, text.encode())
                    full = os.fstat(descriptor).st_size >= MAX_BYTES
                finally:
                    os.close(descriptor)
                if full:
                    self.path.replace(f"{self.path}{EARLIER}")
            except OSError:
                return
