"""What an execution plan of jax_privacy 2.0 releases, as its parts say themselves."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
from dp_accounting import NeighboringRelation
from jax_privacy.experimental.execution_plan import DPExecutionPlan

from ...accountant.errors import InvalidInput
from .jax_batches import Draw
from .training_plan import StepFacts, TrainingPlan, as_planned

BANDED_TOLERANCE: Final = 1e-4
"""By how much the inverse of a strategy may differ from one of so many bands: it is of float32."""

_COLUMN_ROUNDING: Final = 1e-5
"""By how much a column's norm is rounded up, for the same reason."""


@dataclass(frozen=True)
class Mechanism:
    """What an execution plan releases, as its parts say themselves.

    `noise` is the deviation of the even noise of a sum of gradients that are clipped to `clip`;
    `bound` is the norm of one of them in that sum as it is handed on.  `column` is the norm of the
    strategy's columns, and `banded` says that it has no more bands than a cycle has batches.
    """

    noise: float
    clip: float
    bound: float
    column: float
    banded: bool
    draw: Draw

    @classmethod
    def of(cls, execution: Any) -> Mechanism:
        """Return what an execution plan releases; raise `InvalidInput` where that is not known."""
        if not isinstance(execution, DPExecutionPlan):
            raise InvalidInput(
                f"Nothing here observes {type(execution).__name__}.",
                "An execution plan holds what draws batches, clips, and adds noise.",
                "Give the `plan` of a BandMFExecutionPlanConfig.",
            )
        parts = parts_of(execution.noise_addition_transform.update)
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
        config = parts_of(execution.clipped_grad).get("self")
        clip = float(getattr(config, "l2_clip_norm", bound))
        strategy = execution.batch_selection_strategy
        iterations = Draw.of(strategy, even=False).iterations
        _, even = _column(matrix, iterations, 1)
        draw = Draw.of(strategy, even=even)
        column, banded = _column(matrix, iterations, draw.cycle)
        noise = float(parts["stddev"]) * clip / bound
        return cls(noise, clip, bound, column, banded, draw)

    def facts(self, plan: TrainingPlan, units: int | None) -> StepFacts:
        """Return the facts of a cycle, whose noise is that of the plan but for rounding.

        `units` is how many units there are to draw from.
        """
        sampler, rate = self.draw.seen(plan, units)
        of_users = self.draw.unit == "user" and plan.unit != "user"
        return StepFacts(
            noise=as_planned(self.noise, plan.noise_multiplier * plan.clip),
            clip=as_planned(self.clip * self.column, plan.clip),
            sampler=sampler,
            rate=rate,
            bounded=self.banded and not of_users,
            divisor=plan.divisor,
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


def parts_of(function: Any) -> dict[str, Any]:
    """Return what a function of jax_privacy was made with; nothing for another one."""
    inner = inspect.unwrap(function, stop=lambda each: bool(getattr(each, "__closure__", None)))
    if not inspect.isfunction(inner):
        return {}
    return dict(inspect.getclosurevars(inner).nonlocals)
