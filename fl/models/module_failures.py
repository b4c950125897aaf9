"""What a module of one's own raises at somebody's records: it ends no run, and nobody hears of it.

Whatever it is, it is a failure at these records: an end of the program, a cancelled task, and an
interruption that the module raises itself, too.  Ctrl-C and SIGTERM still end the run: they are
told by the signal, not by what is raised, so a module can neither feign nor swallow them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Interruption:
    """What a handler of a signal raised while a module computes; in the main thread alone."""

    def __init__(self) -> None:
        self.watched = False
        self.raised: BaseException | None = None

    def noting(self, handler: Callable[[int, FrameType | None], Any]) -> Callable[..., None]:
        def handled(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                self.raised = error
                # One of its own, so that no module writes into that which goes on.
                raise KeyboardInterrupt from None

        return handled


_INTERRUPTION: Final = _Interruption()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interruptions_noted() -> Iterator[None]:
    """Tell within what a signal raises from what a module does; at the end the signal prevails.

    Signals come to the main thread alone; elsewhere nothing is changed.
    """
    if not _in_main_thread() or _INTERRUPTION.watched:
        yield
        return
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    _INTERRUPTION.watched, _INTERRUPTION.raised = True, None
    try:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, _INTERRUPTION.noting(handler))
        yield
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)
        raised, _INTERRUPTION.raised = _INTERRUPTION.raised, None
        _INTERRUPTION.watched = False
        if raised is not None:
            raise raised from None


class contained:  # noqa: N801 - as contextlib.suppress, of which it is one
    """Let whatever a module raises within end the block, and nothing else.

    What a signal raised goes on, without anything of the module.
    """

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        """Return whether what was raised, if anything was, is a failure of the module."""
        if not _in_main_thread():
            return True
        if _INTERRUPTION.raised is not None:
            raise _INTERRUPTION.raised from None
        # Where nobody watches for signals, as at the door, it may be one.
        return _INTERRUPTION.watched or kind is None or not issubclass(kind, KeyboardInterrupt)
