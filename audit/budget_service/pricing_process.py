"""The process in which events of strangers are priced: it forks for each, and can be ended.

It reads one question a line on standard input and writes one answer a line on standard output.  A
child has 2 seconds of CPU and 512 MB beyond what this process has; what exceeds them is ended by
the system, and the answer says so.  Where something else ended a child, or kept it from the CPU,
the answer says that as well: it is no property of the event.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.odometer import fitting
from ...accountant.odometer.pricing import whole_price
from .balances import price_vector, tightest
from .stating import as_charged
from .terms import Terms

CPU_SECONDS: Final = 2
MEMORY_BYTES: Final = 512 * 2**20
WALL_SECONDS: Final = 10.0
"""How long a child may take altogether, where other processes have the CPU."""

MAX_PRICE_BYTES: Final = 2**23
"""Most bytes of an answer: a body of 1 MB, with every field that it left out."""


def answer_of(question: Mapping[str, Any]) -> dict[str, object]:
    """Return the price of an event, or what would fit of it, or why there is none."""
    try:
        terms, event = Terms.from_json(question["terms"]), ev.from_json(question["event"])
        currency = terms.currency
        if question["rooms"] is not None:
            spent = tightest(question["rooms"])
            return {"fits": fitting(event, currency, currency.neighbours, spent).to_json()}
        charged, derivation = as_charged(event, question["stated"], terms)
        units = whole_price(charged, currency, currency.neighbours)
        return {
            "price": list(price_vector(units)),
            "event": event.to_json(),
            "derivation": derivation,
        }
    except PrivplanError as error:
        kind = type(error).__name__
        return {"refused": kind, "said": [error.what, error.why, error.next_step]}
    except RecursionError:
        return {"refused": "InvalidInput", "said": ["The event is nested too deeply.", "", ""]}
    except MemoryError:
        return {"exceeded": True}


def serve() -> None:
    """Answer questions until standard input ends."""
    for line in sys.stdin:
        sys.stdout.write(_answered_in_child(line) + "\n")
        sys.stdout.flush()


def _answered_in_child(line: str) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of the parent's is run at the end of a child, whatever ends it.
        with contextlib.suppress(BaseException):
            os.close(reader)
            _limit()
            data = json.dumps(answer_of(json.loads(line))).encode("ascii")
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(data)
        os._exit(0)
    os.close(writer)
    try:
        data = _read(reader)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    try:
        json.loads(data)
    except ValueError:
        exceeded = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        return json.dumps({"exceeded": True} if exceeded else {"failed": True})
    return data.decode("ascii")


def _read(reader: int) -> bytes:
    """Return what a child writes until it ends; nothing after too long."""
    data, left = b"", WALL_SECONDS
    while len(data) <= MAX_PRICE_BYTES:
        ready, _, _ = select.select([reader], [], [], left)
        if not ready:
            return b""
        part = os.read(reader, 2**16)
        if not part:
            return data
        data += part
    return b""


def _limit() -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        pages = int(file.read().split()[0])
    memory = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
