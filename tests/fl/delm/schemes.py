"""DELM's published schemes on small federations, for tests: systems, rounds, and what was drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from privplan.accountant.arrays import FloatArray, IntArray
from privplan.accountant.mechanisms import Gate, Laplace, NoisyGram, discrete_sampler
from privplan.accountant.mechanisms.gram_row_grid import grid_rows
from privplan.accountant.randomness import Streams
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.delm.scheme import DelmScheme
from privplan.fl.delm.system import basic, enhanced
from privplan.fl.models import model_named
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import parse
from privplan.fl.training.local_training import TorchLocalTraining


def toml(tables: dict[str, dict[str, Any]]) -> str:
    """Return a configuration as text."""

    def shown(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')

    lines = []
    for name, keys in tables.items():
        lines += [f"[{name}]", *(f"{key} = {shown(value)}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def described(system: str = "delm-basic", **tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a small run on breast-cancer, with other keys."""
    base: dict[str, dict[str, Any]] = {
        "run": {"system": system, "rounds": 3},
        "data": {"name": "breast-cancer", "users": 20, "silos": 5, "allocation": "uniform"},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "delm": {"row_norm": 6.0, "pca": "none"},
    }
    return {name: {**base.get(name, {}), **tables.get(name, {})} for name in base | tables}


def settings(system: str = "delm-basic", **tables: dict[str, Any]) -> Settings:
    """Return the settings of `described`, as a file has them."""
    return parse(toml(described(system, **tables)).encode(), "run.toml")


def federation(
    *, clients: int = 5, records: int = 60, features: int = 6, classes: int = 3, seed: int = 0
) -> Federation:
    """Return records of several classes, dealt to clients at random."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records + 9, features)).astype(np.float32)
    y = rng.integers(0, classes, records + 9)
    x[:, 0] += y  # something to learn
    silo = np.concatenate([np.arange(clients), rng.choice(clients, records - clients)])
    return Federation(
        name="tiny",
        task="binary" if classes == 2 else "multiclass",
        classes=classes,
        users=clients,
        silos=clients,
        features=x[:records],
        labels=y[:records],
        user=silo,
        silo=silo,
        test_features=x[records:],
        test_labels=y[records:],
    )


def built(
    data: Federation, system: str = "delm-basic", *, model: str = "softmax", **tables: Any
) -> DelmScheme:
    """Return a scheme for a federation, as a configuration would."""
    table = {"row_norm": 3.0, "pca": "none", **tables.pop("delm", {})}
    training = {"model": model, "global_rate": 0.05, **tables.pop("training", {})}
    described_run = settings(
        system,
        delm=table,
        training=training,
        data={"name": "digits", "users": data.users, "silos": data.silos},
        **tables,
    )
    width = int(np.prod(data.features.shape[1:]))
    local = TorchLocalTraining(described_run, data, model_named(model, width, data.classes))
    make = enhanced if system == "delm-enhanced" else basic
    return make(described_run, data, local, Streams.seeded(0))


@dataclass
class Rounds:
    """What rounds in memory left: models from the first on, states, and the log."""

    models: list[FloatArray] = field(default_factory=list)
    states: list[dict[str, FloatArray]] = field(default_factory=list)
    log: MemoryLog = field(default_factory=MemoryLog)


def made(system: DelmScheme, *, seed: int = 1, rounds: int | None = None) -> Rounds:
    """Make the rounds of a system in memory, seeded."""
    left, streams = Rounds(), Streams.seeded(seed)
    gate = Gate(None, left.log, streams, unpromised=True)
    left.models.append(system.initial())
    left.states.append(dict(system.initial_state()))
    for phase in system.phases:
        if phase.once is not None:
            phase.once.follow(phase.once.release(gate, lambda _: None))
            continue
        assert phase.make is not None
        for number in range(phase.first, (rounds or phase.last) + 1):
            done = phase.make(number, left.models[-1].copy(), gate, left.states[-1])
            left.models.append(done.parameters)
            left.states.append(dict(done.state))
    return left


@contextmanager
def noise_of_grams() -> Iterator[list[IntArray]]:
    """Record the noise of every share of a Gram matrix, in steps."""
    drawn: list[IntArray] = []
    honest = NoisyGram._noise_of_share

    def noted(self: NoisyGram, stream: Any) -> IntArray:
        drawn.append(honest(self, stream))
        return drawn[-1]

    with mock.patch.object(NoisyGram, "_noise_of_share", noted):
        yield drawn


@contextmanager
def noise_of_laplace() -> Iterator[list[IntArray]]:
    """Record the noise of every Laplace sum, in steps."""
    import privplan.accountant.mechanisms.laplace as module

    drawn: list[IntArray] = []

    def noted(*given: Any) -> IntArray:
        drawn.append(discrete_sampler.rounded_laplace(*given))
        return drawn[-1]

    with mock.patch.object(module, "rounded_laplace", noted):
        yield drawn


def exact_gram(system: Any, mechanism: NoisyGram, client: int) -> IntArray:
    """Return what a client sums, made again record by record with Python's integers."""
    data, share = system.federation, system.table.intercept
    here = np.flatnonzero(data.silo == client)
    rows, _ = grid_rows(mechanism, data.features[here].astype(np.float64), intercept=share)
    whole = [[int(value) for value in row] for row in rows]
    d, classes = mechanism.gram.dimension, mechanism.gram.classes
    total = [sum(q[i] * q[j] for q in whole) for i in range(d) for j in range(i, d)]
    labels = [int(label) for label in data.labels[here]]
    total += [
        sum(q[i] * (classes * (y == c) - 1) for q, y in zip(whole, labels, strict=True))
        for i in range(d)
        for c in range(classes)
    ]
    return np.array(total, np.int64)


def plain_gradient(system: Any, mechanism: NoisyGram, steps: IntArray, at: FloatArray) -> Any:
    """Return the gradient of a noisy objective at a model, by loops over its coefficients."""
    d, classes = mechanism.gram.dimension, mechanism.gram.classes
    values = [int(value) for value in steps]
    gram, at_value = np.zeros((d, d)), 0
    for i in range(d):
        for j in range(i, d):
            gram[i, j] = gram[j, i] = values[at_value] / 4.0**mechanism.bits
            at_value += 1
    labels = np.array(values[at_value:]).reshape(d, classes)
    labels = labels / (2.0**mechanism.bits * mechanism.label_scale)
    share = system.table.intercept
    outputs = 1 if system.model.name == "logistic" else classes
    features = system.model.features
    scale = np.sqrt(1.0 - share) / mechanism.row_norm
    of_rows = np.zeros((d, outputs))
    for k in range(outputs):
        of_rows[:features, k] = at[k * features : (k + 1) * features] / scale
        of_rows[-1, k] = at[outputs * features + k] / np.sqrt(share)
    gradient = np.zeros((d, outputs))
    curvature = (np.eye(classes) - 1.0 / classes) / classes
    for k in range(outputs):
        if outputs == 1:
            gradient[:, 0] = gram @ of_rows[:, 0] / 4.0 - labels[:, 1]
        else:
            gradient[:, k] = gram @ (of_rows @ curvature[:, k]) - labels[:, k]
    step = [gradient[:features, k] * scale for k in range(outputs)]
    return np.concatenate([*step, gradient[-1] * np.sqrt(share)])


def is_laplace(mechanism: object) -> bool:
    """Return whether a mechanism draws Laplace noise on a vector."""
    return isinstance(mechanism, Laplace)
