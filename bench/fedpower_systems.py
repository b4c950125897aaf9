"""FedPower's systems in memory: the rounds of a run, with nothing kept, for the other benches.

The systems are those that `privplan run` makes, and so are plan, gate and odometer; the federation
is given, and records go nowhere.  Noise is seeded, so it protects nobody: the rows are generated,
or anybody's to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privplan.accountant.arrays import IntArray
from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.aggregation.choice import aggregator
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.fedpower.power import PowerIteration
from privplan.fl.fedpower.settings import FedPowerSettings
from privplan.fl.fedpower.utility import FedPowerUtility
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.setup import setup
from privplan.fl.frame.system import System, build
from privplan.fl.running.configuration import Configuration
from privplan.fl.settings.schema import Settings
from privplan.fl.training.local_training import NoTraining

Rows = NDArray[np.floating[Any]]
"""Rows of a matrix: (n, d)."""

AGGREGATIONS = {
    "fedpower-power": "plain",
    "fedpower-original": "plain",
    "fedpower-utility": "masked",
    "fedpower-private": "masked",
}
"""How sums are made in a run of each system, for its settings."""


def dealt(rows: Rows, nodes: int) -> Federation:
    """Return rows (n, d) as a federation of nodes: consecutive rows, as even as can be."""
    silo = np.repeat(np.arange(nodes), [len(part) for part in np.array_split(rows, nodes)])
    return Federation(
        name="rows",
        task="binary",
        classes=2,
        users=len(rows),
        silos=nodes,
        features=rows.astype(np.float32),
        labels=np.zeros(len(rows), np.int64),
        user=np.arange(len(rows)),
        silo=silo,
        test_features=np.zeros((1, rows.shape[1]), np.float32),
        test_labels=np.zeros(1, np.int64),
    )


def settings(
    system: str,
    federation: Federation,
    *,
    privacy: Mapping[str, Any],
    fedpower: Mapping[str, Any],
    rounds: int,
) -> Settings:
    """Return the settings of a run on this federation; `[data] name` is of no account."""
    return Configuration.of(
        {
            "run": {"system": system, "rounds": rounds},
            "data": {"name": "digits", "silos": federation.silos},
            "privacy": {"unit": "record", "delta": 1e-5, **privacy},
            "security": {"aggregation": AGGREGATIONS[system]},
            "fedpower": fedpower,
        }
    ).settings


def system_of(
    chosen: Settings, federation: Federation, seed: int, *, in_the_clear: bool = True
) -> PowerIteration:
    """Return the system of a run; `seed` chooses its first iterate.

    With `in_the_clear` sums under masks are replaced by plain ones, and Algorithm 2's encryption by
    a subtraction: what is released is the same (tests hold them to it), and takes less time.
    """
    seeded = replace(chosen, data=replace(chosen.data, seed=seed))
    plain = replace(seeded.security, aggregation="plain")
    system: PowerIteration
    if in_the_clear and chosen.run.system == "fedpower-utility":
        parts = setup(seeded, federation, NoTraining(), whole_ring=True)
        table = seeded.of(FedPowerSettings)
        system = FedPowerUtility(parts, table, seed, lambda _, nodes: _Subtraction(nodes, seed))
    else:
        built = build(seeded, federation, NoTraining(), Streams.seeded(seed))
        assert isinstance(built, PowerIteration)
        system = built
    if in_the_clear:
        system.aggregator = aggregator(plain, federation.silos, whole_ring=True)
    return system


class _Subtraction:
    """Takes off the noise of all nodes but one, in the clear."""

    def __init__(self, nodes: int, seed: int) -> None:
        self._nodes, self._random = nodes, np.random.default_rng([seed, 9])

    def removed(
        self, number: int, noises: Sequence[Callable[[], IntArray]], *, largest: int
    ) -> IntArray:
        """Return the sum of all noises but one, which stays in what round `number` releases."""
        assert number >= 1
        drawn = np.array([noise() for noise in noises])
        assert np.abs(drawn).max() <= largest
        kept = int(self._random.integers(self._nodes))
        return np.asarray(np.delete(drawn, kept, axis=0).sum(axis=0, dtype=np.int64))


def iterates(system: System, shape: tuple[int, int], seed: int) -> Iterator[Rows]:
    """Yield what each round releases, an iterate of this shape (d, r); `seed` is that of noise."""
    opening = system.opening()
    promises = not opening.as_published and opening.claim.epsilon is not None
    odometer = Odometer.for_plan(system.plan()) if promises else None
    gate = Gate(odometer, MemoryLog(), Streams.seeded(seed, 1))
    for _, _, made in simulated_rounds(system, gate):
        yield np.array(made.parameters[: shape[0] * shape[1]]).reshape(shape)


def last(rounds: Iterator[Rows]) -> Rows:
    """Return the last iterate."""
    *_, final = rounds
    return final


def leading(rows: Rows, rank: int) -> Rows:
    """Return the exact leading right singular vectors of rows (n, d): (d, rank)."""
    return np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :rank]
