"""One FILE of `privplan check`: a file, a run of privplan, or standard input if it is `-`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...audit.description.reading import Reading

STANDARD_INPUT: Final = "standard input"
MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that are taken from standard input."""


def read_source(source: str) -> Reading:
    """Return what a file says of a run; raise `InvalidInput` for what is not understood."""
    from ...accountant.errors import InvalidInput
    from ...audit.readers.recognition import read_content, read_file

    if source != "-":
        return read_file(source)
    content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(content) > MAX_INPUT_BYTES:
        raise InvalidInput(
            f"Standard input holds more than {MAX_INPUT_BYTES // 1024**2} MiB.",
            "What describes a run is short.",
            "Give the file itself, of which only the accountant's part is read.",
        )
    return read_content(content, STANDARD_INPUT)
