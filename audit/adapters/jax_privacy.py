"""jax_privacy 2.0: a log of a training under one of its execution plans, DP-SGD and BandMF.

    execution = BandMFExecutionPlanConfig.default(num_bands=1, iterations=1000, sampling_prob=0.01,
                                                  epsilon=2.0, delta=1e-5).plan
    plan = plan_of(execution, delta=1e-5, neighbours="zero-out", rate_source="published")
    with pp.logged(execution, "out", plan=plan) as execution:
        state = execution.noise_addition_transform.init(model)
        for indices in execution.batch_selection_strategy.batch_iterator(len(data)):
            total = execution.clipped_grad(loss)(model, data[indices])
            noisy, state = execution.noise_addition_transform.update(total, state)

A record is in one batch of each cycle at most, whose length is the number of bands.  In the
coordinates in which the noise is even, its part of a cycle has norm clip x |C|, C being a column of
the strategy: so a step of the plan is a cycle, and of DP-SGD, with one band, a single batch.  With
Poisson samples of the groups, T steps of b bands are ceil(T / b) sampled Gaussian releases.
Source: Choquette-Choo et al. 2023, arXiv 2306.08153, Theorem 4.

The log states what the parts of the execution plan say themselves: the deviation of the noise, the
strategy as its inverse acts on a single number, the clip, and how batches are drawn
(`jax_batches`).  The intent of a cycle is on the disk before the first noise of it is drawn;
compiled code writes nothing, so the noise is added outside of `jax.jit`.  Found from the run itself
are parts that were exchanged (less noise, another sampler, another matrix), batches that are not
those of the plan, that are drawn again or out of their order, a sum that is longer than so many
clipped gradients can be, a state of the noise that is used twice, and seeds.

Where no seed is given, jax_privacy draws a key of 31 bits from numpy, which can be guessed: a key
of the operating system takes its place.  A divisor of the sum is public there (`normalize_by`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput, MissingExtra
from ...accountant.records import Randomness
from ...accountant.records.facts import Unit
from .epsilon_by_step import SpentEpsilon
from .run_log import RunLog
from .training_plan import BY_CHANCE, TrainingPlan

try:
    import jax
    import numpy as np
    import optax
    from jax_privacy import __version__ as jax_privacy_version

    from .jax_batches import ObservedBatches
    from .jax_mechanism import Mechanism, parts_of
except ImportError as error:
    raise MissingExtra(
        "jax_privacy is not installed.",
        "The adapter for it works inside of that library.",
        'python -m pip install "privplan[jax-privacy]"',
    ) from error

CIPHER: Final = "threefry2x32"
"""The generator of jax from which noise is drawn."""

SUM_ROUNDING: Final = 1e-3
UNITS_OF_ROUNDING: Final = 16.0
"""By how much a sum of clipped gradients may exceed its bound: it is of float32, or of less."""


def plan_of(
    execution: Any,
    *,
    delta: float,
    neighbours: str,
    rate_source: str,
    epsilon: float | None = None,
    unit: Unit | None = None,
    records: int | None = None,
) -> TrainingPlan:
    """Return the plan that an execution plan of jax_privacy keeps; its steps are cycles of batches.

    `rate_source` says from where the sampling probability is publicly known; `records`, the public
    number of units, is given for batches of a fixed size, or that are cut to one.  Raises
    `InvalidInput` and `BudgetExceeded` as `TrainingPlan` does, and where no plan holds.
    """
    known = Mechanism.of(execution)
    draw, bound = known.draw, known.clip * known.column
    if draw.shifts and neighbours == "add-remove":
        raise InvalidInput(
            "A unit that goes moves others into other batches.",
            "Groups of equal size, and batches that are cut, change with the number of units, so "
            "add-remove is not protected by them.",
            'Give neighbours="replace-one" or "zero-out", or draw independently.',
        )
    by_chance = draw.sampler in BY_CHANCE
    plan = TrainingPlan(
        steps=-(-draw.iterations // draw.cycle),
        noise_multiplier=known.noise / bound,
        clip=bound,
        delta=delta,
        epsilon=None,
        neighbours=neighbours,
        unit=draw.unit if unit is None else unit,
        sampling=draw.sampler,
        rate=draw.rate if by_chance else None,
        rate_source=rate_source if by_chance else "",
        records=records,
        batch=draw.batch,
        groups=draw.groups if draw.groups > 1 else None,
    )
    most = plan.population
    cut = draw.batch is not None and most is not None and draw.batch > most
    return dataclasses.replace(plan, epsilon=epsilon, batch=most if cut else plan.batch)


@contextmanager
def logged(
    execution: Any,
    folder: str | Path,
    *,
    plan: TrainingPlan,
    metrics: Callable[[SpentEpsilon], object] | None = None,
) -> Iterator[Any]:
    """Log a training under an execution plan of jax_privacy; train with the one that is returned.

    `metrics` is called after each cycle with what is spent.  Raises `InvalidInput` for parts that
    are not known here and for noise in compiled code, and as `RunLog` and `RunLog.step` do.
    """
    training = LoggedExecution(execution, Path(folder), plan, metrics)
    try:
        yield training.observed()
    except BaseException:
        training.end(complete=False)
        raise
    training.end(complete=True)


class LoggedExecution:
    """An execution plan under observation, and the log, once there is one."""

    def __init__(
        self,
        execution: Any,
        folder: Path,
        plan: TrainingPlan,
        metrics: Callable[[SpentEpsilon], object] | None,
    ) -> None:
        self.execution, self.folder, self.plan, self.metrics = execution, folder, plan, metrics
        self.mechanism = Mechanism.of(execution)
        self.log: RunLog | None = None
        draw = self.mechanism.draw
        self.batches = ObservedBatches(execution.batch_selection_strategy, draw.cycle)
        self._noise_draws = 0
        self._states: set[str] = set()

    def observed(self) -> Any:
        """Return the execution plan whose noise and batches are observed."""
        transform = self.execution.noise_addition_transform
        return dataclasses.replace(
            self.execution,
            batch_selection_strategy=self.batches,
            noise_addition_transform=optax.GradientTransformation(
                lambda model: self._begun(transform.init(model)),
                self._adding(transform.update),
            ),
        )

    def end(self, *, complete: bool) -> None:
        """Close the log where the training came to its end."""
        if self.log is not None:
            self.log.__exit__(None if complete else RuntimeError, None, None)

    def _begun(self, state: Any) -> Any:
        """Return the state that the noise begins with, under a key that nobody can guess."""
        key, inner = state
        config = parts_of(self.execution.clipped_grad).get("self")
        if not _is_guessable(key) or getattr(config, "noise_seed", 0) is not None:
            return state  # somebody chose it; a seed is found
        fresh = np.frombuffer(secrets.token_bytes(_words(key).nbytes), dtype=np.uint32)
        words = jax.numpy.asarray(fresh)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(key)), inner

    def _adding(self, update: Callable[..., Any]) -> Callable[..., Any]:
        def around(total: Any, state: Any, params: Any = None) -> Any:
            leaves = jax.tree.leaves((total, state))
            if any(isinstance(each, jax.core.Tracer) for each in leaves):
                raise InvalidInput(
                    "Noise is to be added inside of compiled code.",
                    "There no line can be written before each draw of it.",
                    "Call noise_addition_transform.update outside of jax.jit.",
                )
            name = hashlib.sha256(_words(state[0]).tobytes()).hexdigest()
            begins = self._noise_draws % self.mechanism.draw.cycle == 0
            self._noise_draws += 1
            sizes = self.batches.taken(self._noise_draws)
            facts = self.mechanism.facts(self.plan, self.batches.units)
            known = sizes is not None and self._is_within(total, sizes)
            if not known:
                # Nobody knows how the batch was drawn, or it is more than a sum of clipped ones.
                facts = dataclasses.replace(facts, sampler="none", rate=1.0, bounded=False)
            if not begins and name not in self._states and known:
                self._states.add(name)
                return update(total, state, params)
            self._states.add(name)
            with self._started(total, state).step(facts=facts, batch_size=sizes, state=name):
                return update(total, state, params)

        return around

    def _is_within(self, total: Any, size: int) -> bool:
        """Return whether so many clipped gradients may have that sum."""
        leaves = [jax.numpy.asarray(each) for each in jax.tree.leaves(total)]
        norm = sum(float(np.sum(np.square(np.asarray(each, np.float64)))) for each in leaves) ** 0.5
        units = [float(jax.numpy.finfo(each.dtype).eps) for each in leaves]  # type: ignore[no-untyped-call]
        rounding = SUM_ROUNDING + UNITS_OF_ROUNDING * max(units, default=0.0)
        return bool(norm <= size * self.mechanism.bound * (1.0 + rounding))

    def _started(self, total: Any, state: Any) -> RunLog:
        if self.log is None:
            seeded = _is_guessable(state[0]) or self.batches.is_seeded
            self.log = RunLog(
                self.folder,
                self.plan,
                randomness=Randomness("seeded" if seeded else "operating-system", CIPHER),
                values=sum(int(np.size(each)) for each in jax.tree.leaves(total)) or 1,
                system="jax-privacy",
                versions={"jax_privacy": str(jax_privacy_version), "jax": jax.__version__},
                about={
                    "sampler": type(self.batches.inner).__name__,
                    "cycle": self.mechanism.draw.cycle,
                    "iterations": self.mechanism.draw.iterations,
                },
                private={"records": self.batches.units},
                metrics=self.metrics,
            )
        return self.log


def _is_guessable(key: Any) -> bool:
    """Return whether a key was made of a number below 2^32."""
    return not np.any(_words(key)[:-1])


def _words(key: Any) -> Any:
    """Return the words of a key of jax."""
    return np.asarray(jax.random.key_data(key))
