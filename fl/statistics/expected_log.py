"""What a configuration of private statistics fixes of a run's log (`fl.frame.expected_log`)."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.records import Normaliser, RoundIntent, Sampling
from ..declarations.declaration import Read, Table
from ..frame.expected_log import (
    ExpectedLog,
    ExpectedPhase,
    expected_phase,
    noise_multiplier_stated,
    stated_shape,
)
from .run_terms import RunTerms
from .settings import TABLE


def _phase(table: Table, read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    noise = noise_multiplier_stated(read, intent, ev.Gaussian, ev.Laplace)
    mechanism = _terms(table, read).mechanism(noise)
    constant = Normaliser("constant", 1.0)
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, Sampling(), constant)


def _terms(table: Table, read: Read) -> RunTerms:
    features, classes = stated_shape(read)
    values = {key.name: read(table.name, key.name) for key in table.keys}
    return RunTerms(
        settings=table.settings(**values),
        unit=read("privacy", "unit"),
        relation=read("privacy", "neighbours"),
        features=features,
        classes=classes,
        users=read("data", "users"),
        silos=read("data", "silos"),
        dropouts=read("security", "dropouts"),
    )


def expected_log(table: Table) -> ExpectedLog:
    """Return what a system fixes whose table is of `ReleaseSettings`, or adds keys to them."""

    def first(read: Read) -> FloatArray:
        return np.zeros(_terms(table, read).gram.values)

    return ExpectedLog(partial(_phase, table), first=first)


EXPECTED: Final = expected_log(TABLE)
