"""How a run of `delm-linear` is measured: the configured loss, on public test data.

The least point of an objective is a function of the release alone, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...accountant.arrays import FloatArray
from ..frame.model import Parameters
from ..statistics.ridge import RIDGE, logistic_weights, ridge_weights
from ..statistics.statistics import ReleasedStatistics
from ..training.metrics import measured
from .settings import DelmSettings

if TYPE_CHECKING:
    from ..running.prepared_run import PreparedRun
    from ..statistics.system import Statistics


_LOSS: Final = "loss"
"""Scores of a fit by least squares are no log-odds, so a cross-entropy of them means nothing."""


def minimised(released: ReleasedStatistics, table: DelmSettings) -> FloatArray:
    """Return the weights (d, c) at which the released objective is least.

    Inside the first `components` principal components of the same release, with a ridge.
    """
    fit = ridge_weights if table.loss == "linear" else logistic_weights
    ridge = RIDGE if table.ridge is None else table.ridge
    return fit(released, ridge=ridge, components=table.components)


def measure(prepared: PreparedRun, released: Parameters) -> Mapping[str, float]:
    """Return the metrics of the least point on the test data; none where nothing was released."""
    if not released.any():
        return {}
    table, federation = prepared.settings.of(DelmSettings), prepared.federation
    statistics = cast("Statistics", prepared.system).released(released)
    features = federation.test_features.reshape(len(federation.test_features), -1)
    scores = statistics.rows(features.astype(np.float64)) @ minimised(statistics, table)
    metrics = measured(scores, federation.test_labels)
    return {
        name: value for name, value in metrics.items() if name != _LOSS or table.loss != "linear"
    }
