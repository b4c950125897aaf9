"""Who has what in the benches of DELM: data sets dealt to 100 clients, and bad labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np

from privplan.fl.data.bad_labels import with_bad_labels
from privplan.fl.data.federation import Federation
from privplan.fl.datasets import federate, load
from privplan.fl.datasets.dataset import Dataset
from privplan.fl.datasets.registry import SHAPES

CLIENTS: Final = 100

ROW_NORM: Final = 4.0
"""R of digits: 64 pixels in [0, 1], so at most 8; half of that, known without the records."""

_RECORDS: Final = {
    "digits": 1_438,
    "digits-32": 1_438,
    "synthetic-digits": 60_000,
    "mnist": 60_000,
    "emnist": 112_800,
    "cifar-10": 50_000,
}
"""Training records, a public number."""

_HELD_OUT: Final = 0.3
"""The part of the training records that steps and clips are chosen on."""


@dataclass(frozen=True)
class Scenario:
    """A data set, how it is dealt, which labels are bad, and what is trained on it.

    `path` is the folder of a data set that is not bundled; `row_norm` the public norm of its rows.
    `local_epochs` and `batch` are of baselines that train locally.
    """

    data: str = "digits"
    path: str | None = None
    allocation: Literal["uniform", "classes-1", "classes-2"] = "uniform"
    bad_silos: float = 0.0
    bad_labels: float = 0.0
    model: str = "mlp-64"
    row_norm: float = ROW_NORM
    local_epochs: int = 5
    batch: int = 16

    @property
    def features(self) -> int:
        """How many values a record has."""
        return SHAPES[self.data][0]

    @property
    def records(self) -> int:
        """About how many training records a client has."""
        return _RECORDS[self.data] // CLIENTS

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return SHAPES[self.data][1]

    @property
    def table(self) -> dict[str, Any]:
        """`[data]` of a configuration, for what does not deal the records."""
        path = {} if self.path is None else {"path": self.path}
        return {"name": self.data, "users": CLIENTS, "silos": CLIENTS, **path}


@cache
def dealt(scenario: Scenario, seed: int, *, choosing: bool = False) -> Federation:
    """Return the training records, dealt to the clients, and what they are judged on.

    That is the test set, or while choosing a part of the training records, which no client then
    has; their labels are the true ones.
    """
    records = _records(scenario.data, scenario.path, seed)
    if choosing:
        records = _without_test_records(records, seed)
    rng = np.random.default_rng([seed, 2])
    federation = federate(records, CLIENTS, CLIENTS, scenario.allocation, rng)
    return with_bad_labels(
        federation, scenario.bad_silos, scenario.bad_labels, np.random.default_rng([seed, 3])
    )


def width_of(federation: Federation, kept: float = 1.0) -> int:
    """Return how many features are left of those of a federation, of which a share is kept."""
    return max(1, round(kept * int(np.prod(federation.features.shape[1:]))))


@cache
def _records(name: str, path: str | None, seed: int) -> Dataset:
    """Return a data set as a run with `[data] seed` = `seed` splits it."""
    return load(name, path, normalisation="public", rng=np.random.default_rng([seed, 1]))


def _without_test_records(records: Dataset, seed: int) -> Dataset:
    order = np.random.default_rng([seed, 4]).permutation(records.records)
    kept, out = np.split(order, [round(records.records * (1.0 - _HELD_OUT))])
    return replace(
        records,
        features=records.features[kept],
        labels=records.labels[kept],
        test_features=records.features[out],
        test_labels=records.labels[out],
    )
