"""FedPower on small federations, for tests: settings, systems, and the plain computation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from privplan.accountant.arrays import IntArray
from privplan.accountant.mechanisms.gram_row_grid import GridScale, dense_rows
from privplan.accountant.randomness import Streams
from privplan.fl.data.federation import Federation
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.fedpower.settings import FedPowerSettings
from privplan.fl.settings import schema
from privplan.fl.training.local_training import NoTraining

from ..configured import read_lines

UNITS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "record": ({}, {}),
    "silo": ({"silo_rows": 9}, {}),
    "entry": ({"largest_change": 1.0}, {"neighbours": "replace-one"}),
}
"""What the tables [fedpower] and [privacy] must say for each unit."""


def settings(
    unit: str = "record",
    *,
    system: str = "fedpower-power",
    privacy: dict[str, Any] | None = None,
    security: dict[str, Any] | None = None,
    silos: int = 3,
    users: int = 6,
    rounds: int = 3,
    **table: Any,
) -> schema.Settings:
    """Return settings as a configuration would, for a federation of so many users and silos."""
    own_table, own_privacy = UNITS[unit]
    given = {**own_privacy, **(privacy or {})}
    if "epsilon" not in given:
        given = {"noise_multiplier": 3.0, **given}
    return schema.Settings(
        run=schema.RunSettings(system=system, rounds=rounds),
        data=schema.DataSettings(name="breast-cancer", users=users, silos=silos),
        privacy=replace(schema.PrivacySettings(unit=unit, delta=1e-3), **given),  # type: ignore[arg-type]
        training=schema.NO_TRAINING,
        security=schema.SecuritySettings(**(security or {})),
        table=FedPowerSettings(**{"rank": 2, "row_norm": 2.0, **own_table, **table}),
    )


def built(federation: Federation, unit: str = "record", **changes: Any) -> Any:
    """Return the system for a federation, made as a run makes it."""
    own = settings(unit, silos=federation.silos, users=federation.users, **changes)
    declared = declaration_of(own.run.system)
    made = declared.load(declared.make)
    return made(own, federation, NoTraining(), Streams.seeded(0))


def kept_rows(federation: Federation, silo: int, most: int | None) -> Any:
    """Return the rows of a silo that count: all, or the first so many."""
    here = np.flatnonzero(federation.silo == silo)[:most]
    return federation.features[here].reshape(len(here), -1).astype(np.float64)


def exact_product(system: Any, basis: IntArray) -> list[int]:
    """Return the sum over silos of q^T (q z), in Python's integers."""
    mechanism = system.mechanism(system.promise.noise_multiplier)
    grid = mechanism.grid_bits
    scale = GridScale(square=4**grid.row_bits, intercept=0.0, row_norm=mechanism.product.row_norm)
    total = np.zeros(basis.shape, dtype=object)
    for silo in range(system.setup.silos):
        rows, _ = dense_rows(scale, kept_rows(system.setup.federation, silo, system.terms.kept))
        whole = rows.astype(np.int64).astype(object)
        if len(whole):
            total += whole.T @ (whole @ basis.astype(object))
    return [int(value) for value in total.reshape(-1)]


def configuration(**tables: str) -> schema.Settings:
    """Return what a file says: `run`, `data`, `privacy` and `fedpower`, with other lines."""
    usual = {
        "run": 'system = "fedpower-power"',
        "data": 'name = "breast-cancer"\nusers = 20\nsilos = 3',
        "privacy": "noise_multiplier = 3.0",
        "fedpower": "rank = 2\nrow_norm = 6.0",
    }
    return read_lines(usual, tables)
