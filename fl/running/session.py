"""A run, from its opening to its close; and a run that was cut off, from where it stopped.

The order of what is written, round by round:

1. each intent, durable (the gate, before any noise is drawn);
2. the release, with the digest of the new model and of the state with it, durable;
3. the model by itself, where all are to be saved, and the checkpoint; each appears at once, whole;
4. what the test data say, in the log.

Where a system could not make another release (`fl.frame.phases.Phase.make_kept`), the model is kept
in a file of its own before step 2, and counts for nothing unless the log has its release.

A phase that releases something else than models, once, is kept just before its release stands in
the log: no later round can be made without it, and it cannot be made again.  It counts for nothing
unless the log has its release (`fl.frame.phases.SingleRelease`).

Whatever moment a run is cut off at, the log knows at least what the files show.  A round that was
released and not kept is spent, as is one that was begun, by whichever of its intents; the run goes
on with the next number, from the model and the state that were kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate
from ...accountant.odometer import Odometer
from ...accountant.records import Evaluation, Progress, Recorder
from ...accountant.regular_file import own_folder
from ..declarations.declaration import Declaration
from ..declarations.registry import declaration_of
from ..files import atomic
from ..frame.model import Parameters, Round, model_digest
from ..frame.phases import (
    MakeRound,
    Phase,
    SingleRelease,
    require_one_release,
    require_saved_before_release,
)
from ..frame.rounds import checked_round
from ..frame.state import Arrays
from ..parties.transcripts import append_transcripts
from ..settings.public_test_data import DECLARED_BY_EARLIER_VERSION
from ..settings.schema import Settings
from .checkpoint import (
    CHECKPOINT_FILE,
    EARLY_FILE,
    MODEL_FILE,
    MODELS_FOLDER,
    Checkpoint,
    RoundMeasurement,
    round_model_name,
)
from .first_state import first_checkpoint
from .interruption import UninterruptedRecorder, interruptions_delayed
from .metrics_file import METRICS_FILE, measure, write_metrics
from .preparation import one_thread, prepare, require_small_delta
from .prepared_run import PreparedRun
from .resumption import (
    is_lost,
    last_payable_round,
    prepare_resumption,
    released_models,
    require_resumable,
)
from .run_records import RunResult, close_record, metrics_header, open_record, readings

Report = Callable[[RoundMeasurement, int], None]
"""Called with what was measured after a round, and with the number of rounds planned."""


def run(
    settings: Settings,
    folder: str | Path,
    recorder: Recorder,
    *,
    progress: Progress | None = None,
    report: Report | None = None,
) -> RunResult:
    """Carry out the run that `settings` describe: `execute` of what `prepare` returns."""
    prepared = prepare(settings) if progress is None else prepare_resumption(settings, progress)
    return execute(prepared, folder, recorder, progress=progress, report=report)


def execute(
    prepared: PreparedRun,
    folder: str | Path,
    recorder: Recorder,
    *,
    progress: Progress | None = None,
    report: Report | None = None,
) -> RunResult:
    """Make the rounds of a prepared run, and leave its files in `folder`, which exists.

    `progress` is how far a run that was cut off had come, as its log tells it; `prepared` must then
    be for the segment after its recoveries.  `report` is called after each round that was measured.

    Raises what the system and the recorder raise, `OSError` where a file cannot be written, and
    `InvalidInput` where the log, the settings and the kept model do not belong together.  After an
    error the run may be resumed.
    """
    execution = _Execution(prepared, Path(folder), UninterruptedRecorder(recorder), report)
    # A warning of numpy's in the middle of a round would tell of data before the noise.
    with one_thread(prepared.trained), np.errstate(all="ignore"):
        if progress is None:
            require_small_delta(prepared)
            execution.open()
        else:
            execution.resume(progress)
        execution.make_rounds()
        return execution.close()


@dataclass
class _Execution:
    """A run under way: the model after `checkpoint.round`, and what was spent.

    `spent` is the number of the last round that was begun, `released` how many rounds released a
    model; `earlier` counts the releases, of which a round may have several, from before this start.
    `last` is the last round that blocks of correlated noise are left for; None: all are.  `lost`
    are phases whose single release was begun and is lost, and which no later round needs.
    """

    prepared: PreparedRun
    folder: Path
    recorder: UninterruptedRecorder
    report: Report | None
    spent: int = 0
    released: int = 0
    earlier: int = 0
    last: int | None = None
    lost: frozenset[str] = frozenset()
    checkpoint: Checkpoint = field(init=False)

    def __post_init__(self) -> None:
        prepared = self.prepared
        self.odometer = Odometer.for_plan(prepared.plan) if prepared.promises else None
        self.gate = Gate(
            self.odometer,
            self.recorder,
            prepared.streams,
            unpromised=prepared.opening.as_published,
            drawn_here=None if prepared.seat is None else prepared.seat.drawn_here,
        )

    def open(self) -> None:
        """Write the first line."""
        prepared = self.prepared
        run_id = secrets.token_hex(16)
        with interruptions_delayed():
            sealed = self.recorder.seal({"dataset": prepared.dataset})
            self.recorder.append(open_record(prepared, run_id, sealed["dataset"]))
        self.gate.run_id = run_id
        self.checkpoint = first_checkpoint(prepared, run_id)

    def resume(self, progress: Progress) -> None:
        """Go on where the log says that the run was cut off."""
        prepared = self.prepared
        if prepared.segment != progress.recoveries + 1:
            raise InvalidInput(
                f"The streams are those of segment {prepared.segment}; this is the start after "
                f"{progress.recoveries} others that were cut off.",
                "Streams of another segment may have been used before.",
                "Somebody else may have taken up the run meanwhile: resume it again.",
            )
        self._clear()
        self.checkpoint = require_resumable(prepared, self.folder, progress)
        self.gate.run_id = progress.opened.run_id
        if "evaluation" not in progress.opened.configuration:
            self.prepared = replace(prepared, test=DECLARED_BY_EARLIER_VERSION)
        # Every intent was spent, also one whose noise may never have been drawn.
        for _, intent in sorted(progress.intents.items()):
            if self.odometer is not None and not intent.is_covered:
                self.odometer.spend(intent.event, silos=intent.silos)
        # By their numbers: a round may have opened several intents, or lost its release.
        self.spent, self.earlier = progress.last_round, len(progress.releases)
        self.released = len({each.round for each in released_models(progress)})
        self.last = last_payable_round(prepared, progress)
        once = [phase for phase in prepared.system.phases if phase.once is not None]
        self.lost = frozenset(phase.name for phase in once if is_lost(phase, progress))

    def make_rounds(self) -> None:
        """Make every round of the plan that is left."""
        self._keep_transcripts()  # a folder that is in the way is better found before a round
        if self.prepared.settings.log.save_models:
            own_folder(self.folder / MODELS_FOLDER)
            atomic.settle(self.folder)
        for phase in self.prepared.system.phases:
            if phase.once is not None and phase.name not in self.lost:
                self._make_once(phase, phase.once)
            elif phase.make is not None:
                self._make(phase, phase.make)

    def close(self) -> RunResult:
        """Leave the model and the measurements, and write the last line."""
        prepared = self.prepared
        held_out = prepared.held_out(self.checkpoint.state)
        self._measure()
        guarantees, model = prepared.plan.guarantees, model_digest(self.checkpoint.parameters)
        reason: Literal["finished", "budget"] = "budget" if prepared.cut else "finished"
        with interruptions_delayed():
            self.recorder.settle()  # before files show what the log says
            self.checkpoint.write(self.folder / MODEL_FILE)
            write_metrics(
                self.folder / METRICS_FILE,
                metrics_header(prepared, self.checkpoint, self.released, held_out),
                prepared.test,
                self.checkpoint.measured,
                guarantees,
            )
            releases = self.earlier + self.gate.releases
            self.recorder.append(close_record(prepared, releases, reason, model))
            self._checkpoint_file.unlink(missing_ok=True)
            (self.folder / EARLY_FILE).unlink(missing_ok=True)
            # Also what kills left of writes: it may hold what the log says was never released.
            self._clear()
        return RunResult(
            self.checkpoint.run_id,
            self.released,
            prepared.rounds,
            reason,
            guarantees,
            self.checkpoint.measured,
            self.checkpoint.parameters,
            model,
            prepared.test,
            held_out,
        )

    def _make_once(self, phase: Phase, once: SingleRelease) -> None:
        """Release what a phase releases once, unless it was kept; and go on with what follows."""
        whose, names = self.prepared.whose, once.state.shapes
        if not names.keys() <= self.checkpoint.state.keys():
            earlier = self.gate.releases
            try:
                with interruptions_delayed():  # an interruption in the middle would lose it
                    model = self.checkpoint.parameters.copy()
                    once.made(model, self.gate, partial(self._keep_result, once, earlier))
            finally:
                self._keep_transcripts()
            require_one_release(once, self.checkpoint.state, self.gate, earlier, whose)
        follow = once.follow({name: self.checkpoint.state[name] for name in names})
        arrays = once.state.checked(follow.arrays, whose)
        self.checkpoint = replace(self.checkpoint, state={**self.checkpoint.state, **arrays})
        if follow.federation is not None:
            self.prepared = replace(self.prepared, federation=follow.federation)
        if once.metrics is not None:
            self.recorder.append(Evaluation(phase.first, "released", once.metrics(arrays)))

    def _keep_result(self, once: SingleRelease, earlier: int, result: Arrays) -> None:
        require_saved_before_release(once, self.gate, earlier, self.prepared.whose)
        arrays = once.state.checked(result, self.prepared.whose)
        self.checkpoint = replace(self.checkpoint, state={**self.checkpoint.state, **arrays})
        with interruptions_delayed():
            self.checkpoint.write(self._checkpoint_file)

    def _make(self, phase: Phase, make: MakeRound) -> None:
        """Make the rounds of a phase that are left."""
        if phase.first <= self.checkpoint.round <= phase.last and self._due(self.checkpoint.round):
            self._measure()  # a run that was cut off before it measured what it had kept
        last = phase.last if self.last is None else min(phase.last, self.last)
        for number in range(max(phase.first, self.spent + 1), last + 1):
            if self.prepared.seat is not None:  # in memory: what is kept is what is released here
                self.checkpoint = self.prepared.seat.turn(number, self.checkpoint)
            earlier, before = self.gate.releases, self.checkpoint.parameters
            try:
                if phase.make_kept is None:
                    moved = make(number, before.copy(), self.gate, self.checkpoint.state)
                else:
                    keep = partial(self._keep_early, number)
                    moved = phase.make_kept(
                        number, before.copy(), self.gate, self.checkpoint.state, keep
                    )
            finally:
                self._keep_transcripts()
            moved = checked_round(
                self.prepared.system, self._declaration, moved, before.size, self.gate
            )
            if self.gate.releases == earlier:
                raise InvalidInput(
                    f"Round {number} of {self.prepared.whose} released nothing.",
                    "The model of a round that is not in the log is no part of the run.",
                    "Open an intent in every round, and close it (`make_round`).",
                )
            self.spent, self.released = number, self.released + 1
            self._keep(number, moved)
            if self._due(number):
                self._measure()

    def _keep_transcripts(self) -> None:
        """Keep what the parties saw, where the settings ask for it; of failed rounds too."""
        network = self.prepared.system.network
        if network is not None and self.prepared.settings.security.keep_transcripts:
            append_transcripts(self.folder, network)

    @property
    def _declaration(self) -> Declaration:
        return declaration_of(self.prepared.system.name)

    @property
    def _checkpoint_file(self) -> Path:
        return self.folder / CHECKPOINT_FILE

    def _due(self, number: int) -> bool:
        every = self.prepared.settings.run.evaluate_every
        return every > 0 and number % every == 0

    def _keep_early(self, number: int, parameters: Parameters, state: Arrays) -> None:
        """Keep the model of a round whose release is about to be logged."""
        whole = {**self.checkpoint.state, **state}
        early = replace(self.checkpoint, round=number, parameters=parameters, state=whole)
        with interruptions_delayed():
            early.write(self.folder / EARLY_FILE)

    def _keep(self, number: int, moved: Round) -> None:
        state = {**self.checkpoint.state, **moved.state}
        self.checkpoint = replace(
            self.checkpoint, round=number, parameters=moved.parameters, state=state
        )
        with interruptions_delayed():
            if self.prepared.settings.log.save_models:
                own_folder(self.folder / MODELS_FOLDER)  # a link may have come meanwhile
                # Before the checkpoint: what a run goes on from is saved, wherever it is cut off.
                replace(self.checkpoint, measured=()).write(
                    self.folder / MODELS_FOLDER / round_model_name(number)
                )
            self.checkpoint.write(self._checkpoint_file)
            self._remove_early()

    def _clear(self) -> None:
        """Remove what writes have left that were cut off."""
        for folder in (self.folder, self.folder / MODELS_FOLDER):
            if folder.is_dir() and not folder.is_symlink():
                atomic.clear(folder)

    def _remove_early(self) -> None:
        if (self.folder / EARLY_FILE).exists():
            atomic.remove(self.folder / EARLY_FILE)

    def _measure(self) -> None:
        """Measure the kept model on public test data, unless that was done; and what is spent."""
        prepared, number = self.prepared, self.checkpoint.round
        if any(past.round == number for past in self.checkpoint.measured):
            return
        measurement = RoundMeasurement(
            number, measure(prepared, self.checkpoint.parameters), self._readings()
        )
        if prepared.test.public:
            shown = {name: repr(float(value)) for name, value in measurement.metrics.items()}
            self.recorder.append(
                Evaluation(number, "declared-public", shown, source=prepared.test.source)
            )
        self.checkpoint = replace(
            self.checkpoint, measured=(*self.checkpoint.measured, measurement)
        )
        if self.report is not None:
            self.report(measurement, prepared.rounds)

    def _readings(self) -> dict[str, float]:
        if self.odometer is None or not self.spent:
            return {}
        return readings(self.odometer, self.prepared.plan)
