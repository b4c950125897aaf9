"""How a run of private statistics is measured: the configured fit, on public test data.

A fit is a function of the release alone, so it costs nothing; measuring it looks at test data,
which must be public for that (`[evaluation]`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...accountant.arrays import FloatArray
from ..frame.model import Parameters
from ..training.metrics import measured
from .ridge import RIDGE, logistic_weights, ridge_weights
from .settings import StatisticsSettings
from .statistics import ReleasedStatistics

if TYPE_CHECKING:
    from ..running.prepared_run import PreparedRun
    from .system import Statistics


_LOSS: Final = "loss"
"""Scores of a fit by least squares are no log-odds, so a cross-entropy of them means nothing."""


def measure(prepared: PreparedRun, released: Parameters) -> Mapping[str, float]:
    """Return the metrics of the configured fit on the test data; none where nothing is fitted."""
    table = prepared.settings.of(StatisticsSettings)
    # A run whose one release was lost is left with the zeros that it began with.
    if table.fit == "none" or not released.any():
        return {}
    federation = prepared.federation
    statistics = cast("Statistics", prepared.system).released(released)
    features = federation.test_features.reshape(len(federation.test_features), -1)
    scores = statistics.rows(features.astype(np.float64)) @ fitted(statistics, table)
    metrics = measured(scores, federation.test_labels)
    return {
        name: value for name, value in metrics.items() if name != _LOSS or table.fit == "logistic"
    }


def fitted(statistics: ReleasedStatistics, table: StatisticsSettings) -> FloatArray:
    """Return the weights (d, c) of the configured fit."""
    fit = logistic_weights if table.fit == "logistic" else ridge_weights
    ridge = RIDGE if table.ridge is None else table.ridge
    return fit(statistics, ridge=ridge, components=table.components)
