"""Asks the cases of a section, by processes that share them."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from . import command
from .golden import Case

SECTIONS: Final = ("logs", "commands", "events", "refusals")
"""In the order in which they are asked: what takes longest first, so that no process waits."""
PROCESSES: Final = 2


LIBRARIES: Final = (
    *("scipy.signal", "scipy.stats", "dp_accounting.pld", "dp_accounting.rdp", "prv_accountant"),
    *("torch", "sklearn.datasets", "cryptography", "phe"),
)
"""What is loaded before a time limit: a library whose loading is cut off stays broken."""


@dataclass(frozen=True)
class Answered:
    """A case of a section and its answer; the answer is None where it took too long."""

    section: str
    case: Case
    answer: Any


class TooSlow(BaseException):
    """A case has used more processor time than it may.  No handler of errors catches this."""


def answers(
    cases: Iterable[tuple[str, Case]],
    *,
    processes: int = PROCESSES,
    limit: float | None = None,
) -> Iterator[Answered]:
    """Yield the answers to cases of sections in their order.

    `limit` is in seconds of processor time, for each case.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=command.settle) as pool:
        waiting = [
            (section, case, pool.submit(answer_of, section, case.asked, limit))
            for section, case in cases
        ]
        for section, case, future in waiting:
            yield Answered(section, case, future.result())


def answer_of(section: str, asked: Mapping[str, Any], limit: float | None = None) -> Any:
    """Return the answer to one case, in a clean folder; None where it takes too long.

    What nobody expected to be raised is an answer too: it should not stay one.
    """
    module = importlib.import_module(f".{section}", __package__)
    try:
        with command.clean_folder(), _limited(limit):
            return module.answer(asked)
    except TooSlow:
        return None
    except Exception as error:
        return {"raised": type(error).__name__, "says": str(error)}


@contextlib.contextmanager
def _limited(limit: float | None) -> Iterator[None]:
    """Raise `TooSlow` after so many seconds of processor time."""
    if limit is None:
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        raise TooSlow

    for library in LIBRARIES:
        importlib.import_module(library)
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def another_processor() -> Iterator[None]:
    """Let processes that start here compute as an older processor would."""
    import numpy as np

    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    dispatched = np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
    older = {
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in dispatched if features.get(name)),
        "OPENBLAS_CORETYPE": "Nehalem",
        "ATEN_CPU_CAPABILITY": "default",
    }
    before = {name: os.environ.get(name) for name in older}
    os.environ.update(older)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
