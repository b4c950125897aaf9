"""DISCO's peers in memory: the rounds of a run, with nothing kept, for the other benches.

The systems are those that `privplan run` makes, and so are plan, gate and odometer; records go
nowhere.  Noise is seeded, so it protects nobody: the records are anybody's to read.  Additive
shares are replaced by sums in the clear, as `privplan run` would have them bit for bit (tests hold
them to it): the noise of a peer, and what is released, are those of shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.aggregation.sums import PlainAggregator
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.datasets import federate, load
from privplan.fl.datasets.dataset import Dataset
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.system import build
from privplan.fl.models import model_named
from privplan.fl.running.configuration import Configuration
from privplan.fl.settings.schema import Settings
from privplan.fl.training.local_training import TorchLocalTraining
from privplan.fl.training.metrics import evaluate

Vector = NDArray[np.float64]

PEERS, ROUNDS, DELTA = 20, 20, 1e-5

_HELD_OUT = 0.3
"""The part of the training records that steps and clips are chosen on."""

MODELS = {"breast-cancer": "logistic", "digits": "softmax"}


@dataclass(frozen=True)
class Case:
    """One design on one data set; `noise` none has neither noise nor a clip."""

    data: str
    noise: str
    clip_rule: str = "fixed"
    epsilon: float = 0.0
    model: str = ""

    @property
    def of_model(self) -> str:
        """The model that is trained."""
        return self.model or MODELS[self.data]


@dataclass(frozen=True)
class Chosen:
    """What was chosen for a case."""

    clip: float
    global_rate: float
    local_rate: float = 0.3
    local_epochs: int = 3


def configured(case: Case, chosen: Chosen) -> Settings:
    """Return the settings of a run, all records of a peer in each of its steps."""
    published = case.noise == "as_published"
    return Configuration.of(
        {
            "run": {"system": "disco", "rounds": ROUNDS},
            "data": {"name": case.data, "silos": PEERS},
            "privacy": {"epsilon": case.epsilon or 1.0, "delta": DELTA},
            "security": {"aggregation": "plain" if published else "shares"},
            "training": {
                "model": case.of_model,
                "clip": chosen.clip,
                "global_rate": chosen.global_rate,
                "local_rate": chosen.local_rate,
                "local_epochs": chosen.local_epochs,
                "batch": 10_000,
            },
            "disco": {
                "noise": "shared" if case.noise == "none" else case.noise,
                "clip": case.clip_rule,
            },
        }
    ).settings


@cache
def records_of(name: str) -> Dataset:
    """Return a data set as a run with `[data] seed` 0 splits it."""
    return load(name, None, normalisation="public", rng=np.random.default_rng([0, 1]))


def dealt(name: str, seed: int, *, choosing: bool) -> Federation:
    """Return the training records, dealt to the peers, and what they are judged on.

    That is the test set, or while choosing a part of the training records, which no peer then has.
    """
    records = records_of(name)
    federation = federate(records, PEERS, PEERS, "uniform", np.random.default_rng([seed, 2]))
    if not choosing:
        return federation
    order = np.random.default_rng([seed, 3]).permutation(len(federation.labels))
    kept, out = np.split(order, [round(len(order) * (1.0 - _HELD_OUT))])
    judged = {"test_features": federation.features[out], "test_labels": federation.labels[out]}
    return replace(federation.only(kept), **judged)


def trained(case: Case, chosen: Chosen, federation: Federation, seed: int) -> float:
    """Return the accuracy of the model of one run on what the federation is judged on."""
    settings = configured(case, chosen)
    width = int(np.prod(federation.features.shape[1:]))
    model = model_named(case.of_model, width, federation.classes)
    local = TorchLocalTraining(settings, federation, model)
    if case.noise == "none":
        final = _without_noise(local, chosen)
    else:
        *_, final = models(settings, federation, local, seed)
    return evaluate(model, final, federation)["accuracy"]


def models(settings: Settings, federation: Federation, local: Any, seed: int) -> Iterator[Vector]:
    """Yield what each round releases."""
    system = build(settings, federation, local, Streams.seeded(seed))
    assert isinstance(system, PrivateSystem)
    odometer = None if system.opening().as_published else Odometer.for_plan(system.plan())
    system.aggregator = PlainAggregator()
    for _, _, made in simulated_rounds(
        system, Gate(odometer, MemoryLog(), Streams.seeded(seed, 1))
    ):
        yield made.parameters


def _without_noise(local: TorchLocalTraining, chosen: Chosen) -> Vector:
    parameters = local.initial()
    for number in range(1, ROUNDS + 1):
        mean = local.silo_deltas(parameters, number).mean(axis=0)
        parameters = parameters + chosen.global_rate * mean
    return parameters
