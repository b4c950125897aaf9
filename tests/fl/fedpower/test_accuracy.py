"""How much of the variance the designs find at one budget, on generated rows: means of ten draws.

Beside them is the same arithmetic in floats, with noise by the closed form of Gaussian noise.
Means differ by no more than Student's law allows, but with chance 1e-6 for all six cases; designs
with half of the noise, or twice as much, are farther off.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, stats

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.datasets.low_rank import low_rank_rows
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.fedpower.directions import directions
from privplan.fl.fedpower.iterate import first_basis
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.training.local_training import NoTraining

from ...cases import for_each
from ...chance import limits
from .power_runs import settings

RANK, COLUMNS, DRAWS = 5, 50, 10


def rows_of(noise: float) -> np.ndarray:
    """Return rows over their median norm, of which half are then longer than 1."""
    rows = low_rank_rows(1_000, COLUMNS, RANK, noise, seed=1)
    return rows / np.median(np.linalg.norm(rows, axis=1))


def sigma_of(epsilon: float) -> float:
    """Return the deviation, over the bound, at which one Gaussian release has this epsilon."""

    def excess(mu: float) -> float:
        first, second = mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu
        return float(stats.norm.cdf(first) - math.exp(epsilon) * stats.norm.cdf(second)) - 1e-5

    return 1.0 / float(optimize.brentq(excess, 1e-3, 20.0))


def sketched(rows: np.ndarray, rounds: int, sigma: float) -> np.ndarray:
    """Return the share that the same design finds in floats, in each of forty draws."""
    rng = np.random.default_rng(3)
    clipped = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    gram = clipped.T @ clipped
    best = np.linalg.eigvalsh(gram)[-RANK:].sum()
    found = []
    for _ in range(4 * DRAWS):
        if rounds == 1:
            noise = np.triu(rng.normal(size=gram.shape) * sigma / math.sqrt(2.0), 1)
            noise = noise + noise.T + np.diag(rng.normal(size=COLUMNS) * sigma)
            basis = np.linalg.eigh(gram + noise)[1][:, -RANK:]
        else:
            basis = first_basis(COLUMNS, RANK, 0)
            for _ in range(rounds):
                noise = rng.normal(size=basis.shape) * sigma * math.sqrt(rounds)
                basis = np.linalg.qr(gram @ basis + noise)[0]
        found.append(np.trace(basis.T @ gram @ basis) / best)
    return np.array(found)


def shares(rows: np.ndarray, system: str, rounds: int, epsilon: float) -> np.ndarray:
    """Return the share of the best directions' variance, of the clipped rows, in each draw."""
    users = len(rows)
    federation = Federation(
        name="rows",
        task="binary",
        classes=2,
        users=users,
        silos=1,
        features=rows.astype(np.float32),
        labels=np.zeros(users, np.int64),
        user=np.arange(users),
        silo=np.zeros(users, np.int64),
        test_features=np.zeros((1, COLUMNS), np.float32),
        test_labels=np.zeros(1, np.int64),
    )
    own = settings(
        system=system,
        privacy={"epsilon": epsilon, "delta": 1e-5},
        silos=1,
        users=users,
        rounds=rounds,
        rank=RANK,
        row_norm=1.0,
    )
    declared = declaration_of(system)
    clipped = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    gram = clipped.T @ clipped
    best = np.linalg.eigvalsh(gram)[-RANK:].sum()
    design, found = "power" if rounds > 1 else "one-shot", []
    for draw in range(DRAWS):
        made = declared.load(declared.make)(own, federation, NoTraining(), Streams.seeded(draw))
        gate = Gate(Odometer.for_plan(made.plan()), MemoryLog(), Streams.seeded(draw, 1))
        *_, (_, _, last) = simulated_rounds(made, gate)
        basis = directions(own.table, design, last.parameters, COLUMNS)
        found.append(np.trace(basis.T @ gram @ basis) / best)
    return np.array(found)


@for_each(("noise", "epsilon"), [(0.1, 1.0), (0.1, 4.0), (0.5, 1.0)])
@for_each(("system", "rounds"), [("fedpower-one-shot", 1), ("fedpower-power", 4)])
def test_designs_find_what_their_noise_leaves(system, rounds, noise, epsilon):
    rows, sigma = rows_of(noise), sigma_of(epsilon)
    found = shares(rows, system, rounds, epsilon)

    def is_near(times: float) -> bool:
        wanted = sketched(rows, rounds, times * sigma)
        freedom = len(found) + len(wanted) - 2
        spread = (found.var() * len(found) + wanted.var() * len(wanted)) / freedom
        error = math.sqrt(spread * (1.0 / len(found) + 1.0 / len(wanted)))
        low, high = limits(stats.t(freedom), looks=6)
        return low < (found.mean() - wanted.mean()) / error < high

    assert is_near(1.0)
    assert not is_near(0.5)
    assert not is_near(2.0)
