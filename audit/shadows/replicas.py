"""Replicas of a run: the same system and settings, with each unit in or out, on its own path.

Each one is planned and made as the run was: by `fl.frame.system.build`, under a gate and a budget
of its own, with its own noise; only the recorder keeps nothing, since nothing is released.  The
first model and the order of batches are public, and the same in all of them.

Their jobs are independent: an executor does them in this process, or in several by joblib.  It has
one method.  One that sends jobs to the machines of a cluster fits as well: a job and the function
that does it can be pickled, and answers come back in the order of the jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import Protocol, TypeVar

import numpy as np

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray
from ...accountant.errors import InvalidInput, MissingExtra, PrivplanError, Unsupported
from ...accountant.mechanisms import Gate
from ...accountant.odometer import Odometer
from ...accountant.randomness import Streams
from ...accountant.records import Record
from ...fl.data.federation import Federation
from ...fl.data.moments import Moments
from ...fl.frame.rounds import simulated_rounds
from ...fl.running.prepared_run import PreparedRun
from ...fl.settings.schema import Settings

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


@dataclass(frozen=True, eq=False)
class Replica:
    """The last model of a replica, (D,); and what its features are normalised by, if private."""

    parameters: FloatArray
    moments: Moments | None = None


class DiscardingRecorder:
    """A recorder that discards every record: a replica is never released."""

    def __init__(self) -> None:
        self._written = 0

    def append(self, record: Record) -> int:
        """Count the record, and discard it."""
        self._written += 1
        return self._written - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Return placeholders in the form of commitments."""
        return dict.fromkeys(items, "0" * 64)

    def settle(self) -> None:
        """Do nothing: no record is buffered."""


def replicas(
    settings: Settings,
    federation: Federation,
    inside: BoolArray,
    *,
    seed: int | None = None,
    executor: Executor | None = None,
) -> list[Replica]:
    """Return a replica of the run for each row of `inside`, (models, records).

    `federation` is the run's, as it is before a run normalises it by private moments.  With `seed`
    the noise can be repeated; without it, it comes from the operating system.  Masked sums are made
    in the clear, which gives the same model.  Raises `Unsupported` for private weighting, whose
    ciphertexts would take days, `InvalidInput`, and what a system raises.
    """
    given = np.asarray(inside)
    if given.dtype != bool or given.ndim != 2 or given.shape[1] != federation.records:
        raise InvalidInput(
            f"`inside` must be booleans of shape (models, {federation.records}).",
            next_step="Give a row for each model, and a column for each record.",
        )
    if seed is not None:
        validate.count_from(0, seed=seed)
    work = partial(_replica, without_cryptography(settings), federation, seed)
    runs = SerialExecutor() if executor is None else executor
    return runs.map(work, list(enumerate(given)))


def without_cryptography(settings: Settings) -> Settings:
    """Return settings whose released model has the same law, and that need no cryptography.

    A masked sum is the plain one, bit for bit.  Where silos may be missing, their noise is made for
    that, and the masks stay.
    """
    how = settings.security
    if how.aggregation == "private-weighting":
        raise Unsupported(
            "Runs under private weighting are not repeated for membership inference.",
            "Each round of each model would encrypt every user's weight again.",
            "Audit the same settings with aggregation = 'masked' and weighting = 'records'.",
        )
    # The server's sum is the same modulo the ring; only its messages differ.
    plain = how.aggregation == "masked" and not how.dropouts
    changed = replace(how, aggregation="plain") if plain else how
    return replace(settings, security=replace(changed, keep_transcripts=False))


def _replica(
    settings: Settings,
    federation: Federation,
    seed: int | None,
    job: tuple[int, BoolArray],
) -> Replica:
    from ...fl.training.threads import one_thread

    number, inside = job
    streams = Streams.secure() if seed is None else Streams.seeded(seed, number)
    # A warning of numpy's in the middle of a round would tell of data before the noise.
    with one_thread(), np.errstate(all="ignore"):
        return _trained(_prepared(settings, federation.only(inside), streams))


def _prepared(settings: Settings, federation: Federation, streams: Streams) -> PreparedRun:
    from ...fl.frame.system import build
    from ...fl.settings.public_test_data import evaluation_data
    from ...fl.training.chosen_model import chosen_model
    from ...fl.training.local_training import TorchLocalTraining

    model = chosen_model(
        settings,
        federation.features.shape[1:],
        federation.classes,
        numbers=federation.task == "regression",
    )
    system = build(settings, federation, TorchLocalTraining(settings, federation, model), streams)
    return PreparedRun(
        settings,
        federation,
        model,
        system,
        streams,
        system.plan(),
        system.opening(),
        {},
        evaluation_data(settings),
    )


def _trained(prepared: PreparedRun) -> Replica:
    # A gate and a budget as in the run, so that each replica spends no more than its plan.
    odometer = Odometer.for_plan(prepared.plan) if prepared.promises else None
    gate = Gate(odometer, DiscardingRecorder(), prepared.streams)
    parameters, state = prepared.system.initial(), prepared.system.initial_state()
    for _, _, moved in simulated_rounds(prepared.system, gate):
        parameters, state = moved.parameters, moved.state
    return Replica(parameters, Moments.from_arrays(state))
