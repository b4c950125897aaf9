"""Interruptions (Ctrl-C, a scheduler's SIGTERM) wait while something is being written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

from ...accountant.records import Record, Recorder

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptions_delayed() -> Iterator[None]:
    """Hold interruptions back until the block is left; then the first of them takes effect.

    Elsewhere than in the main thread, which alone is interrupted, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Handlers only note the signal; the first one noted is delivered when the block is left.
    waiting: list[int] = []
    before: dict[int, Callable[[int, FrameType | None], Any]] = {}
    for each in _SIGNALS:
        handler = signal.getsignal(each)
        if callable(handler):
            before[each] = handler
            signal.signal(each, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            before[waiting[0]](waiting[0], None)


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does: by `KeyboardInterrupt`.

    A program that handles it itself, or was started with it ignored, goes on doing so; elsewhere
    than in the main thread nothing is changed.
    """
    # Python lets only the main thread set handlers, and whatever somebody asked for stays.
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


class UninterruptedRecorder:
    """A recorder that no interruption reaches while it writes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def append(self, record: Record) -> int:
        """Append to the recorder, whole."""
        with interruptions_delayed():
            return self._recorder.append(record)

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Seal at the recorder, whole."""
        with interruptions_delayed():
            return self._recorder.seal(items)

    def settle(self) -> None:
        """Settle the recorder, whole."""
        with interruptions_delayed():
            self._recorder.settle()
