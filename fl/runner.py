"""A run, from its opening to its close; and a run that was cut off, from where it stopped.

The order of what is written, round by round:

1. the intent, durable (the gate, before any noise is drawn);
2. the release, with the digest of the new model, durable;
3. the model by itself, where all are to be saved, and the checkpoint; each appears at once, whole;
4. what the test data say, in the log.

Where features are normalised by private moments, these are released first, once, and kept just
before their release stands in the log: no round can be made without them, and they cannot be made
again.  They count for nothing unless the log has their release.

Whatever moment a run is cut off at, the log knows at least what the files show.  A round that was
released and not kept is spent, as is one that was begun; the run goes on with the next one, from
the model that was kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from ..accountant import events as ev
from ..accountant.errors import InvalidInput
from ..accountant.guarantee import Guarantee
from ..accountant.mechanisms import Gate
from ..accountant.odometer import Odometer
from ..accountant.records import Evaluation, Progress, Recorder, RunClose, RunOpen, Tuning
from . import durable
from .checkpoint import CHECKPOINT, MODEL, MODELS, Checkpoint, Measured, name_of
from .evaluation import EARLIER, Declaration
from .interruption import Unbroken, held
from .moments import Moments
from .outcome import METRICS, write_metrics
from .preparation import (
    Prepared,
    measure,
    prepare,
    randomness,
    require_small_delta,
    versions,
)
from .promise import PHASE
from .resumption import require_resumable, taken_up
from .settings import Settings
from .system import Parameters, digest
from .transcripts import append_transcripts

Report = Callable[[Measured, int], None]
"""Called with what was measured after a round, and with the number of rounds planned."""


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run has left.

    `rounds` is the number of released models, `planned` how many were planned; a difference was
    spent and lost where the run was cut off.  `guarantees` are those of the whole plan, by
    observer; `measured` is what was spent by round and, where `test` data are public, what they
    said; `model` the digest of `parameters`.
    """

    run_id: str
    rounds: int
    planned: int
    reason: Literal["finished", "budget"]
    guarantees: Mapping[str, Guarantee]
    measured: tuple[Measured, ...]
    parameters: Parameters
    model: str
    test: Declaration


def run(
    settings: Settings,
    folder: str | Path,
    recorder: Recorder,
    *,
    progress: Progress | None = None,
    report: Report | None = None,
) -> RunResult:
    """Carry out the run that `settings` describe: `carry_out` of what `prepare` returns."""
    made = prepare(settings) if progress is None else taken_up(settings, progress)
    return carry_out(made, folder, recorder, progress=progress, report=report)


def carry_out(
    prepared: Prepared,
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
    from .training import one_thread

    conduct = _Conduct(prepared, Path(folder), Unbroken(recorder), report)
    # A warning of numpy's in the middle of a round would tell of data before the noise.
    with one_thread(), np.errstate(all="ignore"):
        if progress is None:
            require_small_delta(prepared)
            conduct.open()
        else:
            conduct.take_up(progress)
        conduct.make_rounds()
        return conduct.close()


@dataclass
class _Conduct:
    """A run under way: the model after `kept.round`, and what was spent.

    `spent` is the last round that was begun, `released` how many models were released; `earlier`
    counts the releases, of which a round may have several, from before this start.
    """

    prepared: Prepared
    folder: Path
    recorder: Recorder
    report: Report | None
    spent: int = 0
    released: int = 0
    earlier: int = 0
    kept: Checkpoint = field(init=False)

    def __post_init__(self) -> None:
        own = self.prepared
        self.odometer = Odometer.for_plan(own.plan) if own.promises else None
        self.gate = Gate(self.odometer, self.recorder, own.streams)

    def open(self) -> None:
        """Write the first line."""
        own = self.prepared
        run_id = secrets.token_hex(16)
        with held():
            sealed = self.recorder.seal({"dataset": own.dataset})
            self.recorder.append(
                RunOpen(
                    run_id=run_id,
                    system=own.system.name,
                    claim=own.opening.claim,
                    plan=own.opening.plan,
                    population=own.opening.population,
                    randomness=randomness(own.settings),
                    aggregation=own.opening.aggregation,
                    security=own.opening.security,
                    as_published=own.opening.as_published,
                    tuning=_tuning(own.settings),
                    dataset=sealed["dataset"],
                    configuration=own.settings.to_json(),
                    code=versions(),
                    opened=datetime.now(UTC).isoformat(timespec="seconds"),
                    sealed=own.settings.sealed_items(),
                )
            )
        self.gate.run_id = run_id
        self.kept = Checkpoint(run_id, 0, own.settings.training.model, own.system.initial())

    def take_up(self, progress: Progress) -> None:
        """Go on where the log says that the run was cut off."""
        own = self.prepared
        if own.segment != progress.recoveries + 1:
            raise InvalidInput(
                f"The streams are those of segment {own.segment}; this is the start after "
                f"{progress.recoveries} others that were cut off.",
                "Streams of another segment may have been used before.",
                "Somebody else may have taken up the run meanwhile: resume it again.",
            )
        self.kept = require_resumable(own, self.folder, progress)
        self.gate.run_id = progress.opened.run_id
        if "evaluation" not in progress.opened.configuration:
            self.prepared = replace(own, test=EARLIER)
        for _, intent in sorted(progress.intents.items()):
            if self.odometer is not None:
                self.odometer.spend(intent.event)
        self.spent = progress.last_round
        self.earlier = len(progress.releases)
        self.released = sum(progress.intents[seq].phase == PHASE for seq in progress.releases)

    def make_rounds(self) -> None:
        """Make every round of the plan that is left."""
        self._keep_transcripts()  # a folder that is in the way is better found before a round
        if self.prepared.settings.log.save_models:
            (self.folder / MODELS).mkdir(exist_ok=True)
            durable.settle(self.folder)
        try:
            self._normalise()
        finally:
            self._keep_transcripts()
        own = self.prepared
        if self.kept.round and self._due(self.kept.round):
            self._measure()  # a run that was cut off before it measured what it had kept
        for number in range(self.spent + 1, own.rounds + 1):
            try:
                made = own.system.round(number, self.kept.parameters, self.gate)
            finally:
                self._keep_transcripts()
            self.spent, self.released = number, self.released + 1
            self._keep(number, made.parameters)
            if self._due(number):
                self._measure()

    def close(self) -> RunResult:
        """Leave the model and the measurements, and write the last line."""
        own = self.prepared
        self._measure()
        guarantees, model = own.plan.guarantees, digest(self.kept.parameters)
        reason: Literal["finished", "budget"] = "budget" if own.cut else "finished"
        with held():
            self.recorder.settle()  # before files show what the log says
            self.kept.write(self.folder / MODEL)
            write_metrics(
                self.folder / METRICS,
                {
                    "run_id": self.kept.run_id,
                    "system": own.system.name,
                    "data": own.settings.data.name,
                    "model": self.kept.model,
                    "planned": own.rounds,
                    "released": self.released,
                    "normalisation_noise": own.settings.privacy.normalisation_noise,
                },
                own.test,
                self.kept.measured,
                guarantees,
            )
            self.recorder.append(
                RunClose(
                    rounds=self.earlier + self.gate.releases,
                    reason=reason,
                    events=own.opening.plan.events,
                    epsilon={who: one.epsilon.upper for who, one in guarantees.items()},
                    delta=own.opening.claim.delta,
                    engine=guarantees[own.opening.claim.observer].engine,
                    model=model,
                )
            )
            durable.remove(self._checkpoint)
        return RunResult(
            self.kept.run_id,
            self.released,
            own.rounds,
            reason,
            guarantees,
            self.kept.measured,
            self.kept.parameters,
            model,
            own.test,
        )

    def _normalise(self) -> None:
        """Normalise the features by moments, where the plan has them: new ones, or those kept."""
        own, kept = self.prepared, self.kept.moments
        step = own.system.normalising
        if step is None:
            return
        if kept is None:
            with held():  # an interruption in the middle would lose them
                moments = step.release(self.gate, self._keep_moments)
        else:
            moments = step.moments(kept.released)
            self.kept = replace(self.kept, moments=moments)
        federation = moments.applied(own.federation)
        own.system.normalised(federation)
        self.prepared = replace(own, federation=federation)

    def _keep_transcripts(self) -> None:
        """Keep what the parties saw, where the settings ask for it; of failed rounds too."""
        network = self.prepared.system.network
        if network is not None and self.prepared.settings.security.keep_transcripts:
            append_transcripts(self.folder, network)

    def _keep_moments(self, moments: Moments) -> None:
        self.kept = replace(self.kept, moments=moments)
        with held():
            self.kept.write(self._checkpoint)

    @property
    def _checkpoint(self) -> Path:
        return self.folder / CHECKPOINT

    def _due(self, number: int) -> bool:
        every = self.prepared.settings.run.evaluate_every
        return every > 0 and number % every == 0

    def _keep(self, number: int, parameters: Parameters) -> None:
        self.kept = replace(self.kept, round=number, parameters=parameters)
        with held():
            if self.prepared.settings.log.save_models:
                # Before the checkpoint: what a run goes on from is saved, wherever it is cut off.
                replace(self.kept, measured=()).write(self.folder / MODELS / name_of(number))
            self.kept.write(self._checkpoint)

    def _measure(self) -> None:
        """Measure the kept model on public test data, unless that was done; and what is spent."""
        own, number = self.prepared, self.kept.round
        if any(one.round == number for one in self.kept.measured):
            return
        found = Measured(number, measure(own, self.kept.parameters), self._readings())
        if own.test.public:
            shown = {name: repr(float(value)) for name, value in found.metrics.items()}
            self.recorder.append(
                Evaluation(number, "declared-public", shown, source=own.test.source)
            )
        self.kept = replace(self.kept, measured=(*self.kept.measured, found))
        if self.report is not None:
            self.report(found, own.rounds)

    def _readings(self) -> dict[str, float]:
        """Return the reading of every observer; those who see the same have the same."""
        if self.odometer is None or not self.spent:
            return {}
        known: dict[tuple[ev.Event | None, ...], float] = {}
        found = {}
        for who in self.odometer.observers:
            seen = tuple(phase.views.get(who) for phase in self.prepared.plan.phases)
            if seen not in known:
                known[seen] = self.odometer.reading(who).epsilon
            found[who] = known[seen]
        return found


def _tuning(settings: Settings) -> Tuning:
    return Tuning(settings.run.trials, public_only=settings.run.trials == 1)
