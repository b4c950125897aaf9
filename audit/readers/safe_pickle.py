"""Pickles read without running them, protocols 0 to 5.

Plain values come out as themselves (None, bool, int, float, str, bytes, tuple, list, dict, set);
what a global of the closed list in `inert_values.py` would build comes out as a plain value or as
an `Inert` placeholder, and a pickle that names any other global is refused.  Nothing is imported,
called, or looked up by name.

The machine never walks what it built, so that shared and nested values cost nothing, and it hashes
short keys only.  What a pickle can cost is bounded by counts of opcodes, marks, memo entries, keys
and copied items (`pickle_calls.py`).

Source: CPython 3.11, pickletools, whose `genops` decodes opcodes and executes none.
"""

from __future__ import annotations

import pickletools
import re
import struct
import warnings
from io import BytesIO
from typing import BinaryIO, Final

from ...accountant.errors import InvalidInput
from .pickle_calls import MAX_OPCODES, UnreadablePickle, refusal
from .pickle_machine import PickleMachine

MAX_PICKLE_BYTES: Final = 64 * 1024 * 1024

NEWEST_PROTOCOL: Final = 5

_TEXT_PICKLE: Final = re.compile(
    rb"\(d[p.]|\(l[p.]|[}\]][q.]|c[\w.]+\n[\w.]+\n|\(i[\w.]+\n[\w.]+\n"
)
"""How a pickle of protocol 0 or 1 begins that holds a dict or a list, or calls something."""


def looks_like_pickle(content: bytes) -> bool:
    """Return whether content begins as a pickle does, with its protocol or as protocol 0 or 1.

    >>> looks_like_pickle(b"\\x80\\x04}."), looks_like_pickle(b'{"history": []}')
    (True, False)
    """
    if content[:1] == b"\x80":
        return content[1:2] != b"" and content[1] <= NEWEST_PROTOCOL
    return _TEXT_PICKLE.match(content) is not None and content.rstrip().endswith(b".")


def read_pickle(content: bytes, source: str) -> object:
    """Return what one pickle holds, as plain values and placeholders; `source` names it in errors.

    Raises `InvalidInput` for what is no pickle, a global outside the closed list (it is named),
    and a pickle that would cost too much.

    >>> read_pickle(b"(dp0\\nS'steps'\\nI3\\ns.", "state.pkl")
    {'steps': 3}
    """
    if len(content) > MAX_PICKLE_BYTES:
        raise refusal(source, f"It is larger than {MAX_PICKLE_BYTES // 2**20} MiB.")
    return next_pickle(BytesIO(content), source)


def next_pickle(stream: BinaryIO, source: str) -> object:
    """Return what the pickle at a stream's position holds, and leave the stream behind it.

    Raises `InvalidInput` as `read_pickle` does.
    """
    try:
        with warnings.catch_warnings():
            # Text of protocol 0 is Python's, and strange escapes in it need not reach the reader.
            warnings.simplefilter("ignore")
            return _followed(stream)
    except UnreadablePickle as error:
        raise refusal(source, str(error)) from None
    except (
        ValueError,
        LookupError,
        EOFError,
        OverflowError,
        TypeError,
        AttributeError,
        struct.error,
        MemoryError,
    ):
        # Opcodes that are cut off, or in an order that no pickler writes: what follows.
        pass
    raise InvalidInput(
        f"`{source}` does not hold a whole pickle.",
        "Its bytes are damaged, cut off, or of another format.",
        "Save the file again.",
    )


def _followed(stream: BinaryIO) -> object:
    machine = PickleMachine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if count >= MAX_OPCODES:
            raise UnreadablePickle(f"It has more than {MAX_OPCODES:,} opcodes.")
        if opcode.name == "STOP":
            return machine.result()
        machine.step(opcode.name, argument)
    raise EOFError("a pickle without an end")
