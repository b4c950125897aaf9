"""A log of any training loop: the intent is on the disk before the noise of a step is drawn.

    plan = pp.TrainingPlan(steps=1000, noise_multiplier=1.0, clip=1.0, delta=1e-5,
                           rate=0.01, rate_source="published", divisor=256)
    with pp.RunLog("out", plan) as log:
        for batch in loader:                        # draws every record with probability .01
            with log.step(batch_size=len(batch)):
                total = sum(clipped(gradient(record)) for record in batch)
                total += plan.noise_multiplier * plan.clip * normal(total.shape)
            model -= rate * total / plan.divisor

One intent covers up to `steps_per_intent` like steps: it is written and durable before the first of
them, and a run that is cut off has spent them all.  A step that differs (in its noise, clip,
sampler, rate, divisor) ends it, and stands under one of its own, and
an audit counts both whole.  When the plan's steps are spent the next one is refused.

**The log is itself a release.**  Sizes of batches, steps that were skipped and the number of
records go into the sealed sidecar; the log holds a commitment to them.  How many steps were made is
public: whoever stops by a private metric has the guarantee of the whole plan.

**What the log cannot know**: that a step's sum holds clipped terms of its batch and nothing else,
that the noise was drawn as stated, and that nothing else of the data was released.
"""

from __future__ import annotations

import math
import platform
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import BudgetExceeded, InvalidInput
from ...accountant.guarantee import Bounds
from ...accountant.neighbours import as_neighbours
from ...accountant.records import (
    Claim,
    Evaluation,
    Normaliser,
    Planned,
    Population,
    Progress,
    Randomness,
    RoundRelease,
    RunClose,
    RunOpen,
    StreamRange,
)
from ...fl.log import LogWriter
from ...fl.log.hash_chain import LOG
from ...fl.settings.logged_tables import LOOP_TABLE
from .epsilon_by_step import EpsilonBySteps, SpentEpsilon
from .noise_states import NoiseStates
from .training_plan import OBSERVER, PHASE, StepFacts, TrainingPlan, counted_of

SEALED_ITEMS: Final = ("batch_sizes", "skipped")
"""What every release seals: the size of each batch, and how many draws were not used."""

BYTES_PER_VALUE: Final = 8
"""Bytes of a random stream that a value of Gaussian noise is counted as."""


class RunLog:
    """Writes the log of a training loop into a folder, in the format of privplan's own runs.

    `plan` is public and fixed.  `randomness` says where the noise comes from: the operating system,
    an ordinary generator, or a seed.  `values` is how many numbers a step releases, if that is
    known.  `system` names the loop, `versions` what else it depends on, and `about` holds public
    facts of the loop; `phases` are those that its steps may be of.  `metrics` is called after each
    step with what is spent, which is public, and `aggregate` for each release, which states the
    digest of noisy values that it returns.  A folder whose log was cut off is taken up: everything
    announced is spent.

    Raises `InvalidInput` for a folder that holds something else, or the log of another plan, and
    `LogBroken` where a line cannot be written: then no noise may be drawn.
    """

    def __init__(
        self,
        folder: str | Path,
        plan: TrainingPlan,
        *,
        randomness: Randomness | None = None,
        values: int = 1,
        system: str = "training-loop",
        versions: Mapping[str, str] | None = None,
        about: Mapping[str, object] | None = None,
        private: Mapping[str, object] | None = None,
        metrics: Callable[[SpentEpsilon], object] | None = None,
        aggregate: Callable[[], str | None] | None = None,
        phases: Sequence[str] = (PHASE,),
    ) -> None:
        # Positions in a stream of this process; a run that goes on has another.
        if not isinstance(plan, TrainingPlan):
            raise InvalidInput(
                f"`plan` must be a TrainingPlan; it is {plan!r:.60}.",
                "A log promises what was planned before the first step.",
                "Give pp.TrainingPlan(steps=..., noise_multiplier=..., clip=..., delta=...).",
            )
        self.plan = plan
        self._values = validate.count(values=values)
        self._facts = StepFacts.of(plan)
        self._spent = self._number = self._left = self._position = self._releases = 0
        self._intent: int | None = None
        self._ranges: list[StreamRange] = []
        self._sizes: list[int | None] = []
        self._skipped = 0
        self._closed = False
        self._metrics, self._steps_taken, self._as_planned = metrics, 0, True
        self._aggregate = aggregate
        self._history: list[tuple[float, float, int]] = []
        self._asked = EpsilonBySteps(plan.delta, as_neighbours(plan.neighbours))
        drawn = randomness or Randomness("operating-system")
        self._stream = secrets.token_hex(32)
        self._folder = Path(folder)
        self._states: NoiseStates | None = None
        self._shown: set[str] = set()
        described = {"plan": plan.to_json(), **(about or {})}
        if (Path(folder) / LOG).exists():
            self._writer, progress = LogWriter.resume(folder, randomness=drawn)
            self._take_up(progress, described)
            return
        promised = plan.promised
        self._writer = LogWriter.create(folder)
        sealed = self._writer.seal({"dataset": dict(private or {"records": plan.records})})
        self._writer.append(
            RunOpen(
                run_id=secrets.token_hex(16),
                system=system,
                claim=Claim(plan.unit, plan.neighbours, plan.delta, promised, OBSERVER),  # type: ignore[arg-type]
                plan=Planned(len(plan.intents), {OBSERVER: plan.event}),
                population=_population(plan),
                randomness=drawn,
                dataset=sealed["dataset"],
                configuration={LOOP_TABLE: described},
                code=_versions(versions or {}),
                opened=datetime.now(UTC).isoformat(timespec="seconds"),
                sealed=dict.fromkeys(phases, SEALED_ITEMS),
            )
        )

    def _take_up(self, progress: Progress, described: Mapping[str, object]) -> None:
        """Go on behind a run that was cut off: what it announced is spent, released or not."""
        if progress.opened.configuration.get(LOOP_TABLE) != described:
            self._writer.close()
            raise InvalidInput(
                "The folder holds a run of another plan.",
                "A run that goes on keeps the plan that it promised.",
                "Give the plan of its first line, or a new folder.",
            )
        steps = [each for each in progress.intents.values() if each.phase == PHASE]
        self._spent = sum(intent.noise.draws for intent in steps)
        planned = StepFacts.of(self.plan).intent(self.plan, 1, 1)
        for intent in progress.intents.values():
            self._as_planned &= all(
                getattr(intent, name) == getattr(planned, name)
                for name in ("contribution", "sampling", "sensitivity")
            ) and (intent.noise.std == planned.noise.std)
            step = intent.event.event if isinstance(intent.event, ev.Repeat) else intent.event
            self._count(*counted_of(step), intent.noise.draws)
        self._number = progress.last_round
        self._releases = len(progress.releases)

    @property
    def steps_left(self) -> int:
        """How many steps of the plan are neither made nor announced and lost."""
        return self.plan.steps - self._spent + self._left

    @contextmanager
    def step(
        self,
        *,
        batch_size: int | None = None,
        noise_multiplier: float | None = None,
        clip: float | None = None,
        facts: StepFacts | None = None,
        skipped: int = 0,
        state: str | None = None,
    ) -> Iterator[None]:
        """Announce one step before its noise is drawn; the noise is drawn inside of the `with`.

        `batch_size` is sealed, as is how many draws were `skipped` since the last step.
        `noise_multiplier` and `clip` are those of this step where they differ from the plan; a
        program that sees more gives `facts`.  `state` names the state that the noise is drawn from:
        two steps of one name drew the same noise, in whichever process.  The name is not in the
        log, but in a file of the folder (`noise_states`).

        Raises `BudgetExceeded` where the plan has no step left, and `LogBroken` where the intent
        could not be written.
        """
        self.announce(facts or self._stated(noise_multiplier, clip))
        self._as_planned &= self._facts.keeps_to(StepFacts.of(self.plan))
        self._count(*self._facts.counted, 1)
        self._note(batch_size, skipped, state)
        # Whatever happens from here on is spent; a step that fails may have drawn its noise.
        yield
        if self._metrics is not None:
            self._metrics(self.spent())

    def spent(self) -> SpentEpsilon:
        """Return what the steps that were made have spent, after each step within 1 %.

        Of samplers other than Poisson's it is what the whole plan proves, and infinite where a
        step was off the plan and has no number by itself.
        """
        if self.plan.sampling in ("poisson", "none"):
            bounds = self._asked.bounds(self._history)
        elif self._as_planned:
            bounds = Bounds(0.0, self.plan.promised)
        else:
            bounds = Bounds(0.0, math.inf)
        left = max(self.plan.promised - bounds.upper, 0.0)
        return SpentEpsilon(self._steps_taken, bounds.lower, bounds.upper, left)

    def _count(self, noise: float, rate: float, steps: int) -> None:
        self._steps_taken += steps
        last = self._history[-1] if self._history else None
        if last is not None and last[:2] == (noise, rate):
            self._history[-1] = (noise, rate, last[2] + steps)
        else:
            self._history.append((noise, rate, steps))

    def _stated(self, noise_multiplier: float | None, clip: float | None) -> StepFacts:
        planned = StepFacts.of(self.plan)
        norm = planned.clip if clip is None else validate.positive(clip=clip)
        multiplier = (
            self.plan.noise_multiplier
            if noise_multiplier is None
            else validate.non_negative(noise_multiplier=noise_multiplier)
        )
        return replace(planned, clip=norm, noise=multiplier * norm)

    def announce(self, facts: StepFacts) -> None:
        """Return once a step with these facts stands under an intent that is on the disk."""
        if self._closed:
            raise InvalidInput(
                "The log is closed.",
                "What was planned is spent or given up.",
                "Start a new run in a new folder.",
            )
        if self._left and facts == self._facts:
            self._left -= 1
            return
        # What was announced in this process and not made will not be made: it is given back.
        self._spent -= self._left
        self._release()
        left = self.plan.steps - self._spent
        # Without noise it is no step of the plan, and is written down whatever is left of it.
        planned = facts.noise > 0.0 and facts.phase == PHASE
        if left <= 0 and planned:
            raise BudgetExceeded(
                f"The plan has {self.plan.steps:,} steps, and all are spent.",
                "A further sum with noise is not covered by what was promised.",
                "Stop here, or make a new plan with a budget of its own, in a new folder.",
            )
        # Off the plan nobody knows what comes next: each step is announced by itself.
        like = facts.keeps_to(StepFacts.of(self.plan))
        steps = min(self.plan.steps_per_intent, left) if like else 1
        self._number += 1
        self._intent = self._writer.append(facts.intent(self.plan, self._number, steps))
        self._facts, self._left = facts, steps - 1
        self._spent += steps if planned else 0

    def _note(self, batch_size: int | None, skipped: int, state: str | None) -> None:
        size, new = BYTES_PER_VALUE * self._values, (self._stream, self._position)
        stream, first = new
        if state is not None:
            self._states = self._states or NoiseStates(self._folder)
            stream, first = self._states.place(state, new)
        if (stream, first) == new:
            self._position += size
        elif stream != self._stream:
            # The process that drew it first may not have come to the line that says so.
            self._ranges.append(StreamRange(stream, first, first + size))
        # Ranges that join are written as one, so that a line does not grow with its steps.
        last = self._ranges[-1] if self._ranges else None
        joins = last is not None and (last.stream, last.last) == (stream, first)
        start = self._ranges.pop().first if joins else first
        self._ranges.append(StreamRange(stream, start, first + size))
        self._sizes.append(batch_size)
        self._skipped += skipped

    def _release(self) -> None:
        """Write down that the steps of the last intent were made; nothing where there is none."""
        if self._intent is None:
            return
        draws = len(self._sizes)
        facts, seq = self._facts, self._intent
        self._intent = None
        sealed = self._writer.seal({"batch_sizes": self._sizes, "skipped": self._skipped})
        divided: Normaliser | None = None
        if facts.realised:
            divided = Normaliser("realised", None)
        elif facts.divisor is not None:
            divided = Normaliser("constant", facts.divisor)
        self._writer.append(
            RoundRelease(
                self._number,
                seq,
                tuple(self._ranges),
                draws=draws,
                values=self._values if facts.phase == PHASE else 1,
                clip_enforced=facts.bounded,
                normaliser=divided,
                aggregate=None if self._aggregate is None else self._aggregate(),
                sealed=sealed,
            )
        )
        self._releases += 1
        self._ranges, self._sizes, self._skipped, self._left = [], [], 0, 0

    def unnoised(self, names: Iterable[str]) -> None:
        """Write down, once, that metrics of private data were released without noise: their names.

        They belong to no round: the line of what was released in the last one may not be there yet.
        """
        stated = dict.fromkeys(sorted(names), "not written here")
        if stated and stated.keys() - self._shown:
            self._writer.append(Evaluation(0, "private", stated))
        self._shown |= stated.keys()

    def pause(self) -> None:
        """Write down the steps that were made and let go of the log, for a later process."""
        self._release()
        self._let_go()

    def _let_go(self) -> None:
        self._writer.close()
        if self._states is not None:
            self._states.close()

    def close(self) -> None:
        """Write the last lines: what the plan proves, and whether all of it was made.

        Epsilon is that of the whole plan, however many steps were made: whoever may stop because
        of a result has no more than that.
        """
        if self._closed:
            return
        unused = self._left
        self._release()
        finished = self._spent >= self.plan.steps and not unused
        reason: Literal["finished", "stopped"] = "finished" if finished else "stopped"
        proven = self.plan.guarantee
        events: Mapping[str, ev.Event] = {OBSERVER: self.plan.event}
        self._writer.append(
            RunClose(
                self._releases,
                reason,
                events,
                {OBSERVER: proven.epsilon.upper},
                self.plan.delta,
                proven.engine,
            )
        )
        self._closed = True
        self._let_go()

    @property
    def head(self) -> str | None:
        """The hash of the last line: kept elsewhere, it finds every later change of a line."""
        return self._writer.head

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        # After an error the run may go on: its log stays open, and is taken up by its folder.
        if kind is None:
            self.close()
        else:
            self._let_go()


def _population(plan: TrainingPlan) -> Population:
    """Return for whom a plan is; a loop knows of one user where its units are records."""
    if plan.unit == "user":
        return Population(plan.records or 1, 1, None)
    return Population(1, 1, plan.records)


def _versions(others: Mapping[str, str]) -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "privplan": metadata.version("privplan"),
        **others,
    }
