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
strategy as its inverse acts on a single number, the clip, and how batches are drawn.  The intent of
a cycle is on the disk before the first noise of it is drawn; compiled code writes nothing, so the
noise is added outside of `jax.jit`.  Found from the run itself are parts that were exchanged (less
noise, another sampler, another matrix), batches that are not those of the plan, a state of the
noise that is used twice, and seeds.

Where no seed is given, jax_privacy draws a key of 31 bits from numpy, which can be guessed: a key
of the operating system takes its place.  A divisor of the sum is public there (`normalize_by`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
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
from .training_plan import Sampler, StepFacts, TrainingPlan, as_planned

try:
    import jax
    import numpy as np
    import optax
    from dp_accounting import NeighboringRelation
    from jax_privacy import __version__ as jax_privacy_version
    from jax_privacy import batch_selection
    from jax_privacy.experimental.execution_plan import DPExecutionPlan
except ImportError as error:
    raise MissingExtra(
        "jax_privacy is not installed.",
        "The adapter for it works inside of that library.",
        'python -m pip install "privplan[jax-privacy]"',
    ) from error

CIPHER: Final = "threefry2x32"
"""The generator of jax from which noise is drawn."""

BANDED_TOLERANCE: Final = 1e-4
"""By how much the inverse of a strategy may differ from one of so many bands: it is of float32."""

_COLUMN_ROUNDING: Final = 1e-5
"""By how much a column's norm is rounded up, for the same reason."""


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """What an execution plan releases, as its parts say themselves.

    `noise` is the deviation of the even noise of a sum of gradients that are clipped to `clip`;
    `column` is the norm of the strategy's columns, and `banded` says that it has no more bands than
    a cycle has batches.  `sampler` and `rate` are of a cycle, and `iterations` of single batches.
    """

    noise: float
    clip: float
    column: float
    banded: bool
    sampler: Sampler
    rate: float
    cycle: int
    iterations: int
    batch: int | None = None
    independent: bool = True

    @classmethod
    def of(cls, execution: Any) -> Mechanism:
        """Return what an execution plan releases; raise `InvalidInput` where that is not known."""
        if not isinstance(execution, DPExecutionPlan):
            raise InvalidInput(
                f"Nothing here observes {type(execution).__name__}.",
                "An execution plan holds what draws batches, clips, and adds noise.",
                "Give the `plan` of a BandMFExecutionPlanConfig.",
            )
        parts = _parts(execution.noise_addition_transform.update)
        matrix = parts.get("noising_matrix")
        if "stddev" not in parts or not hasattr(matrix, "multiply_next"):
            raise InvalidInput(
                "The noise of the execution plan is added by code that is not known here.",
                "Its deviation and its correlation decide what is proven.",
                "Use matrix_factorization_privatizer with a matrix that streams.",
            )
        bound = float(
            execution.clipped_grad(lambda: None).sensitivity(NeighboringRelation.ADD_OR_REMOVE_ONE)
        )
        config = _parts(execution.clipped_grad).get("self")
        clip = float(getattr(config, "l2_clip_norm", bound))
        sampler, rate, cycle, iterations, batch, independent = _drawn(
            execution.batch_selection_strategy
        )
        column, banded = _column(matrix, iterations, cycle)
        noise = float(parts["stddev"]) * clip / bound
        return cls(
            noise, clip, column, banded, sampler, rate, cycle, iterations, batch, independent
        )

    def facts(self, plan: TrainingPlan) -> StepFacts:
        """Return the facts of a cycle, whose noise is that of the plan but for rounding."""
        shifts = plan.neighbours == "add-remove" and self.cycle > 1 and not self.independent
        bound = self.clip * self.column
        return StepFacts(
            noise=as_planned(self.noise, plan.noise_multiplier * plan.clip),
            clip=as_planned(bound, plan.clip),
            sampler="shuffled" if shifts else self.sampler,
            rate=self.rate if self.sampler == "poisson" else StepFacts.of(plan).rate,
            bounded=self.banded,
            divisor=plan.divisor,
        )


def plan_of(
    execution: Any,
    *,
    delta: float,
    neighbours: str,
    rate_source: str,
    epsilon: float | None = None,
    unit: Unit = "record",
    records: int | None = None,
) -> TrainingPlan:
    """Return the plan that an execution plan of jax_privacy keeps; its steps are cycles of batches.

    `rate_source` says from where the sampling probability is publicly known; `records` is given for
    batches of a fixed size.  Raises `InvalidInput` and `BudgetExceeded` as `TrainingPlan` does.
    """
    known = Mechanism.of(execution)
    sampling = known.sampler if known.sampler in ("poisson", "fixed-size") else "none"
    return TrainingPlan(
        steps=-(-known.iterations // known.cycle),
        noise_multiplier=known.noise / (known.clip * known.column),
        clip=known.clip * known.column,
        delta=delta,
        epsilon=epsilon,
        neighbours=neighbours,
        unit=unit,
        sampling=sampling,
        rate=known.rate if sampling == "poisson" else None,
        rate_source=rate_source if sampling == "poisson" else "",
        records=records,
        batch=known.batch,
    )


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
        self.batches = _ObservedBatches(execution.batch_selection_strategy)
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
        config = _parts(self.execution.clipped_grad).get("self")
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
            begins = self._noise_draws % self.mechanism.cycle == 0
            self._noise_draws += 1
            sizes = self.batches.taken(self._noise_draws)
            facts = self.mechanism.facts(self.plan)
            if sizes is None:  # batches of somebody else: nobody knows how they were drawn
                facts = dataclasses.replace(facts, sampler="none", rate=1.0, bounded=False)
            if not begins and name not in self._states and sizes is not None:
                self._states.add(name)
                return update(total, state, params)
            self._states.add(name)
            with self._started(total, state).step(facts=facts, batch_size=sizes, state=name):
                return update(total, state, params)

        return around

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
                    "cycle": self.mechanism.cycle,
                    "iterations": self.mechanism.iterations,
                },
                private={"records": self.batches.records},
                metrics=self.metrics,
            )
        return self.log


class _ObservedBatches(batch_selection.BatchSelectionStrategy):  # type: ignore[misc]
    """Draws the batches of another strategy, and counts them."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.is_seeded = inner, False
        self.records: int | None = None
        self._sizes: list[int] = []

    def batch_iterator(self, num_examples: Any, rng: Any = None) -> Iterator[Any]:
        """Yield the batches of the strategy; a number as `rng` is a seed."""
        self.records = int(np.size(num_examples)) if np.ndim(num_examples) else int(num_examples)
        self.is_seeded |= isinstance(rng, (int, np.integer))
        for batch in self.inner.batch_iterator(num_examples, rng):
            self._sizes.append(len(batch))
            yield batch

    def taken(self, updates: int) -> int | None:
        """Return the size of the batch of an update, counted from 1; None where none was drawn."""
        return self._sizes[updates - 1] if updates <= len(self._sizes) else None


def _drawn(strategy: Any) -> tuple[Sampler, float, int, int, int | None, bool]:
    """Return how batches are drawn: sampler, rate, cycle, their number, their size, and whether
    each record has its group of its own."""
    if isinstance(strategy, batch_selection.CyclicPoissonSampling):
        if strategy.truncated_batch_size is not None:
            raise InvalidInput(
                "Batches that are cut to a size are not planned here.",
                "Who else was drawn decides who is left out, which has a cost of its own.",
                "Leave out truncated_batch_size, and pad batches instead.",
            )
        independent = strategy.partition_type is batch_selection.PartitionType.INDEPENDENT
        drawn = ("poisson", float(strategy.sampling_prob), int(strategy.cycle_length))
        return (*drawn, int(strategy.iterations), None, independent)  # type: ignore[return-value]
    if isinstance(strategy, batch_selection.FixedBatchSampling) and not strategy.replace:
        return "fixed-size", 1.0, 1, int(strategy.iterations), int(strategy.batch_size), True
    if isinstance(strategy, batch_selection.BallsInBinsSampling):
        return "none", 1.0, int(strategy.cycle_length), int(strategy.iterations), None, True
    raise InvalidInput(
        f"Batches of {type(strategy).__name__} are not planned here.",
        "How batches are drawn decides how much is hidden.",
        "Use CyclicPoissonSampling, FixedBatchSampling without replacement, or "
        "BallsInBinsSampling.",
    )


def _column(matrix: Any, iterations: int, bands: int) -> tuple[float, bool]:
    """Return the norm of a column of the strategy, and whether it has so many bands, all alike.

    The noise is correlated by the inverse R of the strategy.  Of columns that are alike, c * r is 1
    followed by zeros, so that r gives the first bands of c, and c has no others where the product
    of these alone is that already.
    """
    first = _response(matrix, iterations, 0)
    alike = all(
        np.allclose(
            _response(matrix, iterations, at)[at:],
            first[: iterations - at],
            rtol=0.0,
            atol=BANDED_TOLERANCE * abs(first[0]),
        )
        for at in {1, iterations // 2, iterations - 1}
        if 0 < at < iterations
    )
    bands = min(bands, iterations)
    column = np.zeros(bands)
    column[0] = 1.0 / first[0]
    for at in range(1, bands):
        column[at] = -np.dot(first[1 : at + 1], column[at - 1 :: -1][:at]) / first[0]
    rest = np.convolve(column, first)[:iterations]
    rest[0] -= 1.0
    banded = bool(np.max(np.abs(rest)) <= BANDED_TOLERANCE)
    norm = float(np.linalg.norm(column))
    exact = bands == 1 and norm == 1.0
    return (norm if exact else norm * (1.0 + _COLUMN_ROUNDING)), banded and alike


def _response(matrix: Any, iterations: int, at: int) -> Any:
    """Return what the noising matrix makes of a single 1 at one step."""
    values = jax.numpy.zeros(iterations).at[at].set(1.0)

    def following(state: Any, value: Any) -> Any:
        product, after = matrix.multiply_next(value, state)
        return after, product

    _, products = jax.lax.scan(following, matrix.init_multiply(values[0]), values)
    return np.asarray(products, dtype=np.float64)


def _is_guessable(key: Any) -> bool:
    """Return whether a key was made of a number below 2^32."""
    return not np.any(_words(key)[:-1])


def _words(key: Any) -> Any:
    """Return the words of a key of jax."""
    return np.asarray(jax.random.key_data(key))


def _parts(function: Any) -> dict[str, Any]:
    """Return what a function of jax_privacy was made with; nothing for another one."""
    inner = inspect.unwrap(function, stop=lambda each: bool(getattr(each, "__closure__", None)))
    if not inspect.isfunction(inner):
        return {}
    return dict(inspect.getclosurevars(inner).nonlocals)
