"""Fields of an entry, read as strictly as the service writes them: a hostile history costs nothing.

A number stands as the shortest decimal of a double, so its length and its exponent are bounded.
"""

from __future__ import annotations

import math
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from ...fl.log.hash_chain import is_hash

_SHARE: Final = re.compile(r"[0-9](\.[0-9]{1,20})?(e-[0-9]{2,3})?")
_EPSILON: Final = re.compile(r"[0-9]{1,17}(\.[0-9]{1,20})?(e[+-][0-9]{2,3})?")


def share_in(source: object) -> Fraction:
    """Return a share of a cap, 0 to 1; `ValueError` for what no service writes."""
    if not isinstance(source, str) or _SHARE.fullmatch(source) is None:
        raise ValueError("a share is a decimal")
    share = Fraction(source)
    if share > 1:
        raise ValueError("a share is at most 1")
    return share


def epsilon_in(source: object) -> float:
    """Return an epsilon above 0; `ValueError` for what no service writes."""
    if not isinstance(source, str) or _EPSILON.fullmatch(source) is None:
        raise ValueError("epsilon is a decimal")
    epsilon = float(source)
    if not 0.0 < epsilon < math.inf:
        raise ValueError("epsilon is above 0 and finite")
    return epsilon


def key_in(source: object) -> str:
    """Return a public key in hex; `ValueError` for what is none."""
    if not isinstance(source, str) or not is_hash(source):
        raise ValueError("a public key has 64 hexadecimal digits")
    return source


def number_in(source: object) -> int:
    """Return the number of an entry; `ValueError` for what is none."""
    if type(source) is not int or source < 0:
        raise ValueError("a number of an entry is a whole number")
    return source


def text_in(source: object) -> str:
    """Return a text; `ValueError` for what is none."""
    if not isinstance(source, str):
        raise ValueError("it is no text")
    return source


_AGAIN_SECONDS: Final = 0.2


class _Interruption(BaseException):
    """Passes through what catches every `Exception`."""


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` where the body takes more seconds of a processor.

    A service prices in processes that it ends; an audit has one, and ends what takes so much longer
    that no service would have answered it.
    Only the main thread of a program can be interrupted so, and only where the system has timers;
    elsewhere the body is not limited.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def end(*_: object) -> None:
        raise _Interruption

    before = signal.signal(signal.SIGVTALRM, end)
    # Again and again: what is raised where an object is finalised goes no further.
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    except _Interruption:
        raise TimeoutError from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
