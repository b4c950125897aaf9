"""Runs from a program: plan one, carry it out, and go on with one that was cut off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...accountant import rounding
from ...accountant.errors import InvalidInput, kind_of
from ...accountant.guarantee import Guarantee
from ..declarations.toml_key import flag
from ..frame.model import Parameters
from ..tables.table import Table
from .begin_or_resume import ReadyRun, ready_new_run, ready_to_resume
from .configuration import Configuration, RunDescription
from .folder import folder_at
from .forecast import Forecast, forecast
from .interrupted_run import RunInterrupted, between_rounds, stops_explained
from .interruption import sigterm_as_interrupt
from .model_from_program import with_given_model
from .prepared_run import PreparedRun
from .run_claim import RunClaim
from .run_records import RunResult
from .session import Report, execute
from .warnings import warnings_of


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """A run that is closed, and what it has left.

    `folder` holds log, model, metrics and configuration.  `head` is the hash of the last line of
    the log: kept elsewhere, it finds every later change of a line.  `result` is what was released,
    `prepared` what was planned; `warnings` are what a person must know of the run.
    """

    folder: Path
    head: str
    result: RunResult
    prepared: PreparedRun
    warnings: tuple[str, ...]

    @property
    def guarantee(self) -> Guarantee:
        """What is proven before the observer of the claim; its epsilon may be infinite."""
        return self.guarantees[self.prepared.opening.claim.observer]

    @property
    def guarantees(self) -> Mapping[str, Guarantee]:
        """What is proven of the whole plan, by observer."""
        return self.result.guarantees

    @property
    def parameters(self) -> Parameters:
        """The last released model, float64, shape (parameters,)."""
        return self.result.parameters

    @property
    def metrics(self) -> Mapping[str, float]:
        """What public test data say of the last model; empty where they are not public."""
        return self.result.measured[-1].metrics if self.result.measured else {}

    def __repr__(self) -> str:
        epsilon, delta = self.guarantee.epsilon.upper, self.prepared.opening.claim.delta
        proven = "no guarantee"
        if math.isfinite(epsilon):
            proven = f"epsilon {rounding.up(epsilon)} at delta {rounding.as_given(delta)}"
        rounds = f"{self.result.rounds:,} of {self.result.planned:,} rounds"
        return f"<{self.prepared.system.name} in {str(self.folder)!r}: {rounds}, {proven}>"


def run(
    settings: RunDescription,
    folder: str | Path,
    *,
    data: Table | None = None,
    accept_delta: bool = False,
    report: Report | None = None,
    model: object = None,
    loss: object = None,
) -> Outcome:
    """Carry out a run under its plan in a new folder, as `privplan run` does.

    `settings` is the path of a TOML file, a mapping of its tables, or `Settings`; all are checked
    alike (`privplan explain run` lists the keys).  The folder must be new or empty.  It gets a copy
    of the configuration (`config.toml`, by which the run can be taken up), the log, the last model
    and the metrics.  `data` is a table whose rows a program has (`Table.from_frame`), for a run on
    name = "table": it says the silos, columns and schema that [data] does not.  `accept_delta`
    takes a delta of 1 / units or more, and the log says so.
    `report` is called after each round that was measured, with what was measured and the number
    of rounds planned.

    `model` is a model of your own: a `torch.nn.Module`, a function that makes one of public
    arguments, or a reference as in a file; `loss` the name of a loss, or a function of outputs and
    labels with a number for each record (`privplan explain models`).  The copy of the configuration
    says `from-python` of objects, and `resume` must be given them again.

    The plan is certified before anything is written; every release is in the log before it is
    made.  Whatever stops a run, `resume` and `privplan run --resume` go on with it.

    Raises `InvalidInput` for a configuration, data or a folder that do not fit, `BudgetExceeded`
    and `TargetUnreachable` where the budget pays for no round, `MissingExtra` without the packages
    of the extra `fl`, `LogBroken` where the log cannot be written, and `RunInterrupted`, a
    `KeyboardInterrupt`, after Ctrl-C or SIGTERM, which says how to go on.

    >>> import tempfile
    >>> import privplan as pp
    >>> ward = {
    ...     "run": {"system": "uldp-avg", "rounds": 2},
    ...     "data": {"name": "breast-cancer", "users": 40, "silos": 3},
    ...     "privacy": {"epsilon": 8.0, "delta": 1e-3},
    ... }
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     outcome = pp.run(ward, empty)
    >>> outcome.result.rounds, outcome.guarantee.epsilon.upper <= 8.0
    (2, True)
    """
    target = folder_at(folder)
    _require_function(report)
    with _resumable(target, data=data):
        configuration = _accepted(settings, accept_delta, data)
        configuration = with_given_model(configuration, model, loss)
        return _outcome(ready_new_run(configuration, target), report)


def resume(
    folder: str | Path,
    settings: RunDescription | None = None,
    *,
    data: Table | None = None,
    head: str | None = None,
    report: Report | None = None,
    model: object = None,
    loss: object = None,
) -> Outcome:
    """Go on with a run that was cut off, from its last released model, to its end.

    It does not matter whether `run` or the command began it.  `head` is the newest head of its log
    that was kept elsewhere, or the first 32 digits or more: a log that lacks it is an older copy,
    and has forgotten what was spent since.  `settings` are needed only where the folder has lost
    its copy of them; they must be those of the log's first line.  `data` is the table of a run that
    was begun with one; it must hold the same rows.  `model` and `loss` are the objects that `run`
    was given, if it was: they must have the digests that the log has.  `report` is as for `run`.

    Raises `InvalidInput` where log, configuration, data and kept model do not belong together,
    where the run is closed, and where another process is writing it; else as `run`.

    >>> import tempfile
    >>> import privplan as pp
    >>> ward = {
    ...     "run": {"system": "uldp-avg", "rounds": 2},
    ...     "data": {"name": "breast-cancer", "users": 40, "silos": 3},
    ...     "privacy": {"epsilon": 8.0, "delta": 1e-3},
    ... }
    >>> def stop(measured, rounds):
    ...     raise KeyboardInterrupt
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     try:
    ...         pp.run(ward, empty, report=stop)
    ...     except KeyboardInterrupt as error:
    ...         print(error.what, error.why)
    ...     outcome = pp.resume(empty)
    The run was interrupted. What was begun is spent, and the log says so.
    >>> outcome.result.rounds
    2
    """
    target = folder_at(folder)
    _require_function(report)
    given = head.strip().lower() if isinstance(head, str) else head
    with _resumable(target, given, data):
        configuration = None
        if settings is not None:
            configuration = Configuration.of(settings, data)
            configuration = with_given_model(configuration, model, loss)
        ready = ready_to_resume(configuration, target, given, data=data, model=model, loss=loss)
        return _outcome(ready, report)


def plan_run(
    settings: RunDescription,
    *,
    data: Table | None = None,
    accept_delta: bool = False,
    model: object = None,
    loss: object = None,
) -> Forecast:
    """Return what a run would prove to each observer, and what would lower that; writes nothing.

    Arguments and errors are as for `run`.

    >>> import privplan as pp
    >>> ward = {
    ...     "run": {"system": "uldp-avg", "rounds": 10},
    ...     "data": {"name": "breast-cancer", "users": 40, "silos": 3},
    ...     "privacy": {"noise_multiplier": 5.0, "delta": 1e-3},
    ... }
    >>> expected = pp.plan_run(ward)
    >>> expected.rounds, [row.observer for row in expected.observers][:2]
    (10, ['model', 'server'])
    """
    configuration = with_given_model(_accepted(settings, accept_delta, data), model, loss)
    return forecast(configuration.settings)


def execute_ready(
    ready: ReadyRun, report: Report | None = None
) -> tuple[RunResult, tuple[str, ...]]:
    """Make the rounds of a run that may go; whatever stops it, the error says how it goes on.

    Besides what the run left, return what a budget ledger did not note of its end.

    Raises what `execute` raises, and as `stops_explained` says.
    """
    with stops_explained(ready.folder, ready.absolute, ready.writer), sigterm_as_interrupt():
        # What does not fit, or cannot be asked, stops the run before its first line.
        claim = RunClaim.begun(ready.prepared, ready.absolute)
        result = execute(
            ready.prepared, ready.absolute, ready.writer, progress=ready.progress, report=report
        )
        unnoted = "" if claim is None else claim.released(ready.writer.head)
        return result, (unnoted,) if unnoted else ()


def _require_function(report: object) -> None:
    if report is not None and not callable(report):
        raise InvalidInput(
            f"`report` must be a function; it is {kind_of(report)}.",
            "It is called after each round that was measured, when that round is spent.",
            "Give a function of what was measured and the number of rounds planned.",
        )


def _accepted(given: RunDescription, accept_delta: bool, data: Table | None) -> Configuration:
    flag(accept_delta=accept_delta)
    configuration = Configuration.of(given, data)
    return configuration.with_accepted_delta() if accept_delta else configuration


def _outcome(ready: ReadyRun, report: Report | None) -> Outcome:
    with ready.writer:
        result, unnoted = execute_ready(ready, report)
    head = ready.writer.head
    assert head is not None
    warnings = (*warnings_of(ready.prepared), *unnoted)
    return Outcome(ready.folder, head, result, ready.prepared, warnings)


@contextmanager
def _resumable(folder: Path, head: str | None = None, data: Table | None = None) -> Iterator[None]:
    """Say of an interruption how a program goes on, where the run in a folder can."""
    try:
        yield
    except KeyboardInterrupt as error:
        stopped = between_rounds(error, folder, head)
        step = stopped.next_step
        if step.startswith("privplan run --resume"):
            resumed = f"pp.resume({str(folder)!r}"
            # The command has no rows to hand over.
            step = f"{resumed}), or: {step}" if data is None else f"{resumed}, data=table)"
        raise RunInterrupted(stopped.what, stopped.why, step) from None
