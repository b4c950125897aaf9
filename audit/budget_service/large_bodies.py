"""Large bodies, which take a processor for a while: read apart from what answers everybody.

A body of a megabyte takes a tenth of a second to be parsed and looked up.  So one thread does that
for all of them, and one holder has one such body at a time: whoever sends many waits behind itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

from .names import Refusal

LARGE_BYTES: Final = 2**16
"""A body of more bytes is a large one."""

T = TypeVar("T")


class LargeBodies:
    """Who has a large body read or answered now, and the thread that reads them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "ledger-bodies")
        self._busy: set[str] = set()

    @contextmanager
    def turn(self, holder: str) -> Iterator[None]:
        """Let a holder have one large body until the end; raise `Refusal` (429) for a second."""
        if holder in self._busy:
            raise Refusal(
                429,
                "busy",
                f"Another body of yours with more than {LARGE_BYTES:,} bytes is being answered.",
                "One holder has one of them at a time, so that others are answered meanwhile.",
                "Ask again with the same key, or write what repeats as `repeat`.",
            )
        self._busy.add(holder)
        try:
            yield
        finally:
            self._busy.discard(holder)

    async def apart(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns, computed by the thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: function(*arguments)
        )


async def at_once(function: Callable[..., T], *arguments: object) -> T:
    """Return what a function returns that takes no time."""
    return function(*arguments)
