"""Flower 1.42: a log of an ordinary run with one of its strategies or mods for privacy.

    strategy = DifferentialPrivacyServerSideFixedClipping(FedAvg(...), 1.0, 0.5, 10)
    plan = pp.TrainingPlan(steps=20, noise_multiplier=1.0, clip=0.5, delta=1e-5, unit="user",
                           neighbours="replace-one", sampling="fixed-size", records=1000, batch=10)
    with pp.logged(strategy, "out", plan=plan):
        strategy.start(grid, arrays, num_rounds=20)

A unit is a client, `records` how many clients there are and `batch` how many are drawn.  Both kinds
of strategies are observed: those of `flwr.serverapp`, and those of `flwr.server` before them.  The
intent of a round is on the disk before its noise is drawn, or the round raises.

Flower divides by the number, or the weights, of the replies, and adds noise for the number that it
was told.  So the log states the noise as it is in the sum of the clients that are in the mean.
Found from the run itself are noise and clip that change, a round without noise, fewer or more
replies than planned, a pool of clients smaller than the plan's, a choice of clients that is not
Flower's own uniform one, weights that clients report, replies that nobody clipped, a mean that is
none (a server's optimizer, a median, a second wrapper), metrics that are released without noise,
and noise from a seed.

What Flower's own accountant leaves out:

- It knows add-or-remove-one without amplification, and there counts one clip.  Where a number of
  clients is drawn, one more of them takes the place of another: the sum moves by two clips, and
  noise of multiplier 1 proves 9.86 for 10 of 11 clients, not 4.38.
- It believes `num_sampled_clients`, and who was drawn from whom is nobody's fact.
- Adaptive clipping has no accountant.  Its noise is scaled by the clip after its update, while the
  updates were clipped to the one before: where the clip falls, noise is too small.  Its log holds
  the noisy count and the noisy sum of each round as they are, and no plan covers them.  Clients
  that clip themselves report their bit in the metrics, of which Flower releases the exact mean.
- `LocalDpMod` has an epsilon for one message; its `sensitivity` need not be that of its clip, its
  formula holds below epsilon 1 only, and rounds add up.  `logged_mod` logs what a client sends.
- A client whose numbers are none (NaN) passes the clip, and one that learned nothing stops the
  round with a ZeroDivisionError: both show that client.
- Metrics, of trainings and of evaluations at clients, are released without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput, MissingExtra
from ...accountant.records import Randomness
from .epsilon_by_step import SpentEpsilon
from .replacements import Replacements
from .run_log import RunLog
from .training_plan import CLIP_COUNT, PHASE, StepFacts, TrainingPlan

try:
    from flwr.client.mod import LocalDpMod as EarlierLocalDpMod
    from flwr.clientapp.mod import LocalDpMod
    from flwr.supercore.version import package_version as flower_version

    from .flower_observer import ObservedRounds, noise_state, seeded_by_a_number
except ImportError as error:
    raise MissingExtra(
        "Flower 1.42 is not installed.",
        "The adapter for it works inside of that library.",
        'python -m pip install "privplan[flower]"',
    ) from error

CIPHER: Final = "mt19937"
"""The generator of numpy from which Flower draws its noise."""

TRAIN: Final = "train"
"""The kind of messages to whose replies noise is added."""


@contextmanager
def logged(
    strategy: Any,
    folder: str | Path,
    *,
    plan: TrainingPlan,
    weight: float = 1.0,
    metrics: Callable[[SpentEpsilon], object] | None = None,
) -> Iterator[LoggedStrategy]:
    """Log the rounds of a strategy of Flower under a plan.

    `weight` is the public constant that every client reports as its number of examples; other
    weights follow the data.  `metrics` is called after each round with what is spent.  Raises
    `InvalidInput` for what is no strategy that clips and adds noise, and for a plan that such a
    strategy cannot keep, and as `RunLog` and `RunLog.step` do.
    """
    training = LoggedStrategy(strategy, Path(folder), plan, weight, metrics)
    try:
        training.attach()
        yield training
    except BaseException:
        training.end(complete=False)
        raise
    training.end(complete=True)


class LoggedStrategy:
    """A strategy under observation: what was replaced, and the log, once there is one."""

    def __init__(
        self,
        strategy: Any,
        folder: Path,
        plan: TrainingPlan,
        weight: float,
        metrics: Callable[[SpentEpsilon], object] | None,
    ) -> None:
        self.folder, self.plan, self.metrics = folder, plan, metrics
        self.strategy, self.rounds = strategy, ObservedRounds(strategy, plan, weight)
        self.log: RunLog | None = None
        self._replaced = Replacements()
        self._inside = self._noised = False
        self._skipped = 0

    def attach(self) -> None:
        """Put the observer around what chooses clients, averages, adds noise, and evaluates."""
        rounds, put = self.rounds, self._replaced.put
        put(self.strategy, rounds.kind.configure, self._configuring)
        put(rounds.averaging, rounds.kind.aggregate, self._averaging)
        put(self.strategy, rounds.kind.aggregate, self._aggregating)
        put(self.strategy, "aggregate_evaluate", self._evaluating)
        for module in rounds.kind.noisy_modules:
            put(module, "add_gaussian_noise_inplace", self._adding_noise)

    def end(self, *, complete: bool) -> None:
        """Take the observer off again; close the log where the run came to its end."""
        self._replaced.undo()
        if self.log is not None:
            self.log.__exit__(None if complete else RuntimeError, None, None)

    def _started(self, values: int = 1) -> RunLog:
        if self.log is None:
            seeded = seeded_by_a_number()
            self.log = RunLog(
                self.folder,
                self.plan,
                randomness=Randomness("seeded" if seeded else "operating-system", CIPHER),
                values=values,
                system="flower",
                versions={"flwr": str(flower_version)},
                about=self.rounds.about(),
                metrics=self.metrics,
                phases=(CLIP_COUNT, PHASE) if self.rounds.adapts else (PHASE,),
            )
        return self.log

    def _configuring(self, configure: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **options: Any) -> Any:
            given = dict(zip(self.rounds.kind.begins_with, arguments, strict=False)) | options
            chosen = self.rounds.choosing(lambda: configure(*arguments, **options), given)
            self._started(self.rounds.values)
            return chosen

        return around

    def _averaging(self, aggregate: Callable[..., Any]) -> Callable[..., Any]:
        def around(server_round: int, replies: Any, *rest: Any) -> Any:
            listed = list(replies)
            self.rounds.replied(listed)
            # Noise that is added in here is part of what is averaged, and not that of the round.
            inside, self._inside = self._inside, False
            try:
                return aggregate(server_round, listed, *rest)
            finally:
                self._inside = inside

        return around

    def _aggregating(self, aggregate: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **options: Any) -> Any:
            log = self._started()
            given = dict(zip(self.rounds.kind.ends_with, arguments, strict=False)) | options
            self.rounds.begun()
            self._inside, self._noised = True, False
            try:
                with ExitStack() as counting:
                    if self.rounds.adapts and self.rounds.will_count(given):
                        counting.enter_context(log.step(facts=self.rounds.count_facts()))
                    result = aggregate(*given.values())
            finally:
                self._inside = False
            released, metrics = result
            if released is None:
                self._skipped += 1
            elif not self._noised:
                with log.step(facts=self.rounds.unnoised_facts()):
                    pass
            self._metrics_of(log, metrics)
            return result

        return around

    def _adding_noise(self, add_noise: Callable[..., Any]) -> Callable[..., Any]:
        def around(arrays: Any, deviation: float) -> Any:
            if not self._inside or self.log is None:
                return add_noise(arrays, deviation)
            facts, skipped = self.rounds.facts(float(deviation)), self._skipped
            self._skipped, self._noised = 0, True
            with self.log.step(
                facts=facts, batch_size=self.rounds.replies, skipped=skipped, state=noise_state()
            ):
                return add_noise(arrays, deviation)

        return around

    def _evaluating(self, aggregate: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **options: Any) -> Any:
            result = aggregate(*arguments, **options)
            loss, metrics = result if isinstance(result, tuple) else (None, result)
            named = {**(dict(metrics) if metrics else {}), **({} if loss is None else {"loss": 0})}
            self._metrics_of(self._started(), named)
            return result

        return around

    @staticmethod
    def _metrics_of(log: RunLog, metrics: Any) -> None:
        log.unnoised(map(str, metrics or ()))


# --- at a client ----------------------------------------------------------------------------------


def local_plan(mod: Any, *, steps: int, delta: float, epsilon: float | None = None) -> TrainingPlan:
    """Return the plan of so many messages of a client through a `LocalDpMod`, at one delta.

    Two contents of a client differ by up to two clips, so the relation is replace-one.

    >>> from flwr.clientapp.mod import LocalDpMod
    >>> plan = local_plan(LocalDpMod(0.5, 0.5, 1.0, 1e-5), steps=1, delta=1e-5)
    >>> round(plan.guarantee.epsilon.upper, 2)  # of a mod whose epsilon is 1
    1.61
    """
    return TrainingPlan(
        steps=steps,
        noise_multiplier=_deviation(mod) / mod.clipping_norm,
        clip=mod.clipping_norm,
        delta=delta,
        epsilon=epsilon,
        neighbours="replace-one",
        unit="user",
        sampling="none",
        steps_per_intent=1,
    )


def logged_mod(mod: Any, folder: str | Path, *, plan: TrainingPlan) -> Callable[..., Any]:
    """Return a `LocalDpMod` that leaves a log of what each client sends.

    Every client has a folder of its own in `folder`, by the name of its node, and its log is taken
    up by each message: a client's process ends with its message.  Raises `InvalidInput` for another
    mod, and where a message is sent as `RunLog` and `RunLog.step` do.
    """
    if not isinstance(mod, (LocalDpMod, EarlierLocalDpMod)):
        raise InvalidInput(
            f"`mod` must be a LocalDpMod; it is {type(mod).__name__}.",
            "No other mod of Flower adds noise at a client.",
            "Give flwr.clientapp.mod.LocalDpMod(...); observe the server's strategy for others.",
        )

    def private(message: Any, context: Any, call_next: Callable[..., Any]) -> Any:
        if message.metadata.message_type.partition(".")[0] != TRAIN:
            return mod(message, context, call_next)
        with ExitStack() as drawing:

            def announced(received: Any, held: Any) -> Any:
                reply = call_next(received, held)
                if reply.has_error():
                    return reply
                seeded = seeded_by_a_number()
                log = RunLog(
                    Path(folder) / str(context.node_id),
                    plan,
                    randomness=Randomness("seeded" if seeded else "operating-system", CIPHER),
                    system="flower-local",
                    versions={"flwr": str(flower_version)},
                )
                drawing.callback(log.pause)
                facts = StepFacts(_deviation(mod), mod.clipping_norm, "none", 1.0)
                drawing.enter_context(log.step(facts=facts, state=noise_state()))
                return reply

            return mod(message, context, announced)

    return private


def _deviation(mod: Any) -> float:
    """Return the standard deviation of a mod's noise, by the formula that it uses."""
    return float(mod.sensitivity * (2.0 * math.log(1.25 / mod.delta)) ** 0.5 / mod.epsilon)
