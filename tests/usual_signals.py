"""Signals as in a program that somebody started by hand, for tests that send them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def usual_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM do what they do in a program in the foreground; also a decorator.

    A script starts its background processes with SIGINT ignored, and they hand that on.  privplan
    leaves it so, as programs should; a test of what an interruption does must not depend on it.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.getsignal(number) for number in usual}
    for number, handler in usual.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
