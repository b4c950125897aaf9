"""Files that were damaged at random, and what a reader may do with them: read, or refuse."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.audit.description.run_description import Fact, Reading

MAX_EDITS: Final = 6

Recognises = Callable[[bytes, str], bool]
Reads = Callable[[bytes, str], Reading]


def damaged(files: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy of files of which bytes were replaced, taken out, put in or cut off."""

    @st.composite
    def draw_file(draw: st.DrawFn) -> bytes:
        content = bytearray(draw(st.sampled_from(files)))
        for _ in range(draw(st.integers(1, MAX_EDITS))):
            position = draw(st.integers(0, max(len(content) - 1, 0)))
            length = draw(st.integers(0, 8))
            content[position : position + length] = draw(st.binary(max_size=8))
        if draw(st.booleans()):
            del content[draw(st.integers(0, len(content))) :]
        return bytes(content)

    return draw_file()


def read_or_refused(recognises: Recognises, read: Reads, content: bytes) -> Reading | None:
    """Return a reading whose parts have their types; None where the content is refused.

    Any error but `InvalidInput` escapes, and fails the test.
    """
    with contextlib.suppress(InvalidInput):
        recognises(content, "file")
    try:
        reading = read(content, "file")
    except InvalidInput:
        return None
    assert all(isinstance(fact, Fact) for fact in reading.facts.values())
    assert all(isinstance(doubt, str) and doubt for doubt in reading.doubts)
    return reading
