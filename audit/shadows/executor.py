"""Executors of independent jobs: in this process, or in several by joblib.

An executor has one method.  One that sends jobs to the machines of a cluster fits as well: a job
and the function that does it can be pickled, and answers come back in the order of the jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Protocol, TypeVar

from ...accountant import validate
from ...accountant.errors import MissingExtra, PrivplanError

J = TypeVar("J")
R = TypeVar("R")


class Executor(Protocol):
    """Runs independent jobs."""

    def map(self, work: Callable[[J], R], jobs: Sequence[J]) -> list[R]:
        """Return `work(job)` for every job, in their order; or raise, and return none of them."""


@dataclass(frozen=True)
class SerialExecutor:
    """Runs jobs one after the other, in this process."""

    def map(self, work: Callable[[J], R], jobs: Sequence[J]) -> list[R]:
        """Return `work(job)` for every job, in their order."""
        return [work(job) for job in jobs]


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@dataclass(frozen=True)
class JoblibExecutor:
    """In so many processes of this machine, by joblib; all of its cores if nothing is said.

    Raises `MissingExtra` where joblib is absent, what a job raises, and `PrivplanError` where a
    process died: no result is made of the jobs that were done.  Jobs go through pipes, never
    through files, as joblib's large arrays would: they hold private records.
    """

    processes: int = field(default_factory=_cores)

    def __post_init__(self) -> None:
        validate.count(processes=self.processes)

    def map(self, work: Callable[[J], R], jobs: Sequence[J]) -> list[R]:
        """Return `work(job)` for every job, in their order."""
        try:
            from joblib import Parallel, delayed, parallel_config
            from joblib.externals.loky.process_executor import BrokenProcessPool
        except ImportError:
            raise MissingExtra(
                "Training side by side needs joblib, which is not installed.",
                "It starts the processes.",
                'Install the extra: pip install "privplan[fl]", or use `SerialExecutor()`.',
            ) from None
        done = delayed(work)
        try:
            # One BLAS thread in each process, or the processes wait for one another.
            with parallel_config(backend="loky", inner_max_num_threads=1):
                return list(
                    Parallel(n_jobs=self.processes, max_nbytes=None)(done(job) for job in jobs)
                )
        except BrokenProcessPool:
            raise PrivplanError(
                "A process that trained models has died.",
                "It may have been short of memory.",
                "Use fewer processes.",
            ) from None


def all_cores() -> Executor:
    """Return the executor of this machine: joblib where it is installed, else one process."""
    return JoblibExecutor() if find_spec("joblib") is not None else SerialExecutor()
