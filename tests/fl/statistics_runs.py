"""Private statistics of small federations, for tests: settings, systems, and what numpy makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from privplan.accountant.arrays import FloatArray
from privplan.accountant.mechanisms import NoisyGram
from privplan.accountant.mechanisms.gram_row_grid import grid_rows
from privplan.accountant.randomness import Streams
from privplan.fl.data.federation import Federation
from privplan.fl.settings import schema
from privplan.fl.statistics.settings import StatisticsSettings
from privplan.fl.statistics.system import Statistics, statistics
from privplan.fl.training.local_training import NoTraining

from .configured import read_lines

SIGMA: Final = 3.0

UNITS: Final[dict[str, dict[str, Any]]] = {
    "record": {},
    "user": {"rows_per_user": 4},
    "silo": {"silo_rows": 9},
}
"""What the table must say for each unit."""


def settings(
    unit: str = "record",
    *,
    privacy: dict[str, Any] | None = None,
    security: dict[str, Any] | None = None,
    silos: int = 3,
    users: int = 6,
    rounds: int = 1,
    **table: Any,
) -> schema.Settings:
    """Return settings as a configuration would, for a federation of so many users and silos."""
    keys: dict[str, Any] = {"row_norm": 2.0, **UNITS[unit], **table}
    own = schema.PrivacySettings(unit=unit, delta=1e-3)  # type: ignore[arg-type]
    given = privacy or {}
    if "epsilon" not in given:
        given = {"noise_multiplier": SIGMA, **given}
    return schema.Settings(
        run=schema.RunSettings(system="statistics", rounds=rounds),
        data=schema.DataSettings(name="breast-cancer", users=users, silos=silos),
        privacy=replace(own, **given),
        training=schema.NO_TRAINING,
        security=schema.SecuritySettings(**(security or {})),
        table=StatisticsSettings(**keys),
    )


def built(federation: Federation, unit: str = "record", **changes: Any) -> Statistics:
    """Return the system for a federation."""
    own = settings(unit, silos=federation.silos, users=federation.users, **changes)
    return statistics(own, federation, NoTraining(), Streams.seeded(0))


def mechanism_of(system: Statistics) -> NoisyGram:
    """Return the mechanism that draws the noise of a system's release."""
    return system.mechanism(system.promise.noise_multiplier)


def kept_rows(system: Statistics, silo: int) -> list[int]:
    """Return the records that a silo keeps: of each unit the first, as many as it may."""
    federation = system.setup.federation
    most, kept, seen = system.terms.kept(silo), [], dict[int, int]()
    for record in range(federation.records):
        if federation.silo[record] != silo:
            continue
        unit = {"user": int(federation.user[record]), "silo": silo}.get(system.terms.unit, record)
        seen[unit] = seen.get(unit, 0) + 1
        if most is None or seen[unit] <= most:
            kept.append(record)
    return kept


def exact_sum(system: Statistics, silos: list[int] | None = None) -> list[int]:
    """Return the sum over silos as Python's integers: triangles row by row, then label sums."""
    federation, mechanism = system.setup.federation, mechanism_of(system)
    chosen = range(federation.silos) if silos is None else silos
    kept = [record for silo in chosen for record in kept_rows(system, silo)]
    rows, _ = grid_rows(
        mechanism,
        federation.features[kept].astype(np.float64),
        intercept=system.terms.settings.intercept,
    )
    count = mechanism.gram.classes
    whole = [[int(value) for value in row] for row in rows]
    classes = [int(label) for label in federation.labels[kept]]
    d = mechanism.gram.dimension
    wanted = range(mechanism.gram.classes) if mechanism.gram.by_class else [None]
    total = [
        sum(q[i] * q[j] for q, c in zip(whole, classes, strict=True) if label in (None, c))
        for label in wanted
        for i in range(d)
        for j in range(i, d)
    ]
    return total + [
        sum(q[i] * (count * (y == c) - 1) for q, y in zip(whole, classes, strict=True))
        for i in range(d)
        for c in range(count)
    ]


def steps_of(mechanism: NoisyGram, released: FloatArray) -> list[int]:
    """Return a release as the integers that it was made of; exact below 2^53."""
    scale = np.full(released.size, 4.0**mechanism.bits)
    scale[mechanism.label_start :] = 2.0**mechanism.bits * mechanism.label_scale
    return [int(value) for value in np.rint(released * scale)]


def configuration(**tables: str) -> schema.Settings:
    """Return what a file says: `run`, `data`, `privacy` and `statistics`, with other lines."""
    usual = {
        "run": 'system = "statistics"',
        "data": 'name = "breast-cancer"\nusers = 20\nsilos = 3',
        "privacy": "noise_multiplier = 3.0",
        "statistics": "row_norm = 6.0",
    }
    return read_lines(usual, tables)
