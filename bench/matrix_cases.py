"""Strategies and participations whose sensitivity is asked of everybody, and by hand."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import opake_module
import timing

from privplan import events as ev
from privplan.accountant.arrays import FloatArray
from privplan.accountant.sensitivity.matrix import (
    MatrixSensitivity,
    sensitivity_bounds,
    strategy_matrix,
)

ROUNDS: Final = 1_000

MAX_ENUMERATED: Final = 10
"""Most rounds for which all patterns and signs are gone through; else evenly spaced ones."""

JAX: Final = "jax_privacy"
OPAKE: Final = "opake"

Peer = Callable[[Any], float]


@dataclass(frozen=True)
class Case:
    """A strategy and a participation, and what the peers say of them, each from its module."""

    name: str
    strategy: ev.Strategy
    participation: ev.Participation
    jax: Peer
    opake: Peer
    bound: bool = False

    def ours(self) -> MatrixSensitivity:
        """Return our bounds, computed anew."""
        sensitivity_bounds.cache_clear()
        return sensitivity_bounds(self.strategy, self.participation)

    def by_hand(self) -> float:
        """Return the largest norm of C d over rounds and signs d, one by one."""
        matrix = strategy_matrix(self.strategy)
        every_sign = matrix.shape[1] <= MAX_ENUMERATED
        return max(
            float(np.linalg.norm(matrix[:, pattern] @ signs))
            for pattern in _patterns(self.participation, matrix.shape[1])
            for signs in itertools.product(*[[1.0, -1.0] if every_sign else [1.0]] * len(pattern))
        )

    def theirs(self) -> dict[str, timing.Timing[float]]:
        """Return the answers of the peers that are installed."""
        calls: dict[str, Callable[[], float]] = {}
        if find_spec("jax_privacy") is not None:
            from jax_privacy.matrix_factorization import sensitivity

            calls[JAX] = lambda: self.jax(sensitivity)
        if opake_module.installed():
            calls[OPAKE] = lambda: self.opake(opake_module.load())
        answers = {}
        for name, call in calls.items():
            call()
            answers[name] = timing.timed(call, 3, time.process_time)
        return answers


def _patterns(participation: ev.Participation, steps: int) -> Iterator[list[int]]:
    """Yield sets of rounds in which one unit may take part: all of them in few rounds."""
    match participation:
        case ev.EpochParticipation(epochs):
            for first in range(steps // epochs):
                yield list(range(first, steps, steps // epochs))
        case ev.SeparatedParticipation(most, separation) if steps <= MAX_ENUMERATED:
            for size in range(1, most + 1):
                for rounds in itertools.combinations(range(steps), size):
                    if all(b - a >= separation for a, b in itertools.pairwise(rounds)):
                        yield list(rounds)
        case ev.SeparatedParticipation(most, separation):
            for first in range(separation):
                yield list(range(first, steps, separation))[:most]
        case _:
            yield from ([step] for step in range(steps))


def _from_matrix(strategy: ev.Strategy, name: str, *arguments: int) -> Peer:
    """Return a call of jax_privacy's function of C."""
    matrix = strategy_matrix(strategy)
    return lambda module: float(getattr(module, name)(module.jnp.array(matrix), *arguments))


def _from_gram(strategy: ev.Strategy, name: str, *arguments: int) -> Peer:
    """Return a call of opake's function of C^T C."""
    matrix = strategy_matrix(strategy)
    return lambda module: float(
        getattr(module, name)((matrix.T @ matrix).ravel().tolist(), matrix.shape[1], *arguments)
    )


def _from_squared_norms(strategy: ev.Strategy, *arguments: int) -> Peer:
    matrix = strategy_matrix(strategy)
    return lambda module: float(
        module.banded_sensitivity((matrix * matrix).sum(axis=0).tolist(), *arguments)
    )


def _norms(matrix: FloatArray) -> Peer:
    return lambda module: float(
        module.single_participation_sensitivity(np.linalg.norm(matrix, axis=0).tolist())
    )


def cases() -> tuple[Case, ...]:
    """Return what is compared."""
    return (*_long_cases(), *_short_cases())


def _long_cases() -> Iterator[Case]:
    banded = ev.ToeplitzStrategy(ROUNDS, [1.0, -0.5, 0.4, -0.3, 0.2])
    blt = ev.BufferedToeplitzStrategy(ROUNDS, [0.99, 0.8], [0.05, 0.2])
    column = strategy_matrix(blt)[:, 0]
    tree = ev.TreeStrategy(ROUNDS, 2)
    separated = ev.SeparatedParticipation(20, 50)

    def jax_single(module: Any) -> float:
        from jax_privacy.matrix_factorization import toeplitz

        return float(toeplitz.sensitivity_squared(module.jnp.array(column), ROUNDS)) ** 0.5

    def jax_separated(module: Any) -> float:
        from jax_privacy.matrix_factorization import toeplitz

        squared = toeplitz.minsep_sensitivity_squared(module.jnp.array(column), 50, 20, ROUNDS)
        return float(squared) ** 0.5

    def opake_single(module: Any) -> float:
        return float(module.blt_sensitivity_squared(blt.decays, blt.scales, float(ROUNDS))) ** 0.5

    def opake_separated(module: Any) -> float:
        squared = module.toeplitz_minsep_sensitivity_squared(column.tolist(), ROUNDS, 50, 20)
        return float(squared) ** 0.5

    alone = ev.SingleParticipation()
    yield Case(
        "tree, single",
        tree,
        alone,
        _from_matrix(tree, "single_participation_sensitivity"),
        _norms(strategy_matrix(tree)),
    )
    yield Case(
        "5 bands, 50 apart",
        banded,
        separated,
        _from_matrix(banded, "get_sensitivity_banded", 50, 20),
        _from_squared_norms(banded, 50, 20),
    )
    yield Case("BLT, single", blt, alone, jax_single, opake_single)
    yield Case("BLT, 50 apart", blt, separated, jax_separated, opake_separated)
    yield Case(
        "BLT, 20 epochs",
        blt,
        ev.EpochParticipation(20),
        _from_matrix(blt, "fixed_epoch_sensitivity", 20),
        _from_gram(blt, "fixed_epoch_sensitivity", 20),
    )
    generator = np.random.default_rng(0)
    random = np.tril(generator.standard_normal((200, 200)), -1) + 15.0 * np.eye(200)
    dense = ev.DenseStrategy(random.tolist())
    yield _in_epochs("random, 10 epochs", dense, 10)
    yield _apart("random, 20 apart", dense, 10, 20)
    yield _apart("tree, 50 apart", tree, 20, 50)


def _short_cases() -> Iterator[Case]:
    yield _in_epochs("[[1, 0], [-1, 1]], twice", ev.DenseStrategy([[1, 0], [-1, 1]]), 2)
    triangle = [[2, 0, 0], [-1, math.sqrt(3.0), 0], [-1, -1, 1]]
    yield _in_epochs("mixed signs, 3 times", ev.DenseStrategy(triangle), 3)
    generator = np.random.default_rng(1)
    random = np.tril(generator.standard_normal((8, 8)), -1) + 3.0 * np.eye(8)
    yield _apart("random, 2 apart", ev.DenseStrategy(random.tolist()), 4, 2)


def _in_epochs(name: str, strategy: ev.Strategy, epochs: int) -> Case:
    function = "fixed_epoch_sensitivity"
    return Case(
        name,
        strategy,
        ev.EpochParticipation(epochs),
        _from_matrix(strategy, function, epochs),
        _from_gram(strategy, function, epochs),
        bound=True,
    )


def _apart(name: str, strategy: ev.Strategy, most: int, separation: int) -> Case:
    return Case(
        name,
        strategy,
        ev.SeparatedParticipation(most, separation),
        _from_matrix(strategy, "get_min_sep_sensitivity_upper_bound", separation, most),
        _from_gram(strategy, "general_sensitivity_upper_bound", separation, most),
        bound=True,
    )
