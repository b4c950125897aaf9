"""DELM's clients in memory, and what they are measured against: rounds of runs with nothing kept.

The systems of DELM are those that `privplan run` makes, with their plan, gate and odometer; records
go nowhere.  Noise is seeded, so it protects nobody: the records are anybody's to read.  Baselines
are in `delm_baselines`, with what they prove in `delm_epsilons`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np
from delm_baselines import Knobs, Name, Noise
from delm_baselines import trained as trained_baseline
from delm_reductions import Reduction, joint, projected, with_noise
from delm_reductions import local as on_own_components
from numpy.typing import NDArray

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.bad_labels import with_bad_labels
from privplan.fl.data.federation import Federation
from privplan.fl.datasets import federate, load
from privplan.fl.datasets.dataset import Dataset
from privplan.fl.delm.scheme import DelmScheme
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.system import build
from privplan.fl.models import model_named
from privplan.fl.running.configuration import Configuration
from privplan.fl.settings.schema import Settings
from privplan.fl.training.local_training import TorchLocalTraining
from privplan.fl.training.metrics import evaluate

Vector = NDArray[np.float64]

CLIENTS: Final = 100
DELTA: Final = 1e-5
ROW_NORM: Final = 4.0
"""R of digits: pixels in [0, 1] of 64, so at most 8; half of that, known without the records."""

_NO_NOISE: Final = Noise()

_HELD_OUT: Final = 0.3
"""The part of the training records that steps and clips are chosen on."""

_PUBLIC: Final = 200
"""How many records of the test set `secprobe` scores on; it is judged on the others."""


@dataclass(frozen=True)
class Scenario:
    """Who has what: a data set, how it is dealt to the clients, and bad labels.

    `path` is the folder of a data set that is not bundled; `row_norm` the public norm of its rows.
    """

    data: str = "digits"
    path: str | None = None
    allocation: Literal["uniform", "classes-1", "classes-2"] = "uniform"
    bad_silos: float = 0.0
    bad_labels: float = 0.0
    model: str = "mlp-64"
    row_norm: float = ROW_NORM


@dataclass(frozen=True)
class Baseline:
    """One of the baselines, with what it reduces features by, to a share `kept` of them."""

    name: Name
    reduction: Reduction = "none"
    kept: float = 1.0
    noise: Noise = _NO_NOISE
    epsilon_pca: float = 0.0


@dataclass(frozen=True)
class Delm:
    """A system of DELM: its name, the epsilon that it claims, p, and keys of [delm]."""

    system: Literal["delm-basic", "delm-enhanced"]
    epsilon: float
    kept: float
    pieces: tuple[tuple[str, Any], ...] = ()


Case = Baseline | Delm


@cache
def records_of(name: str, path: str | None, split: int) -> Dataset:
    """Return a data set as a run with `[data] seed` = `split` splits it."""
    return load(name, path, normalisation="public", rng=np.random.default_rng([split, 1]))


@cache
def dealt(scenario: Scenario, seed: int, *, choosing: bool = False) -> Federation:
    """Return the training records, dealt to the clients, and what they are judged on.

    That is the test set, or while choosing a part of the training records, which no client then
    has; their labels are the true ones.
    """
    records = records_of(scenario.data, scenario.path, seed)
    if choosing:
        records = _without_test_records(records, seed)
    rng = np.random.default_rng([seed, 2])
    federation = federate(records, CLIENTS, CLIENTS, scenario.allocation, rng)
    return with_bad_labels(
        federation, scenario.bad_silos, scenario.bad_labels, np.random.default_rng([seed, 3])
    )


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


def width_of(federation: Federation, kept: float) -> int:
    """Return how many features are left of those of a federation."""
    return max(1, round(kept * int(np.prod(federation.features.shape[1:]))))


def accuracy(
    case: Case, scenario: Scenario, knobs: Knobs, rounds: int, seed: int, *, choosing: bool = False
) -> float:
    """Return the accuracy of the model of one run on what the federation is judged on."""
    federation = dealt(scenario, seed, choosing=choosing)
    if isinstance(case, Delm):
        return _of_delm(case, scenario, knobs, rounds, federation, seed)
    return _of_baseline(case, scenario, knobs, rounds, federation, seed)


def _of_baseline(
    case: Baseline,
    scenario: Scenario,
    knobs: Knobs,
    rounds: int,
    federation: Federation,
    seed: int,
) -> float:
    rng, count, norm = (
        np.random.default_rng([seed, 5]),
        width_of(federation, case.kept),
        scenario.row_norm,
    )
    whole, directions = federation, []
    if case.reduction == "joint":
        federation = joint(federation, count, norm)
    elif case.reduction == "ldp":
        federation = with_noise(federation, count, norm, case.epsilon_pca, DELTA, rng)
    elif case.reduction == "local":
        federation, directions = on_own_components(federation, count, norm)
    width = int(np.prod(federation.features.shape[1:]))
    model = model_named(scenario.model, width, federation.classes)
    training = TorchLocalTraining(_of_baselines(scenario, rounds), federation, model)
    public = replace(
        federation,
        test_features=federation.test_features[:_PUBLIC],
        test_labels=federation.test_labels[:_PUBLIC],
    )

    def score(parameters: Vector) -> float:
        return evaluate(model, parameters, public)["accuracy"]

    final = trained_baseline(case.name, training, knobs, case.noise, rounds, rng, score)
    if directions:
        # Every client looks at the test records through its own components.
        found = [
            evaluate(
                model,
                final,
                replace(federation, test_features=projected(whole.test_features, each, norm)),
            )["accuracy"]
            for each in directions
        ]
        return float(np.mean(found))
    judged = federation
    if case.name == "secprobe":
        judged = replace(
            federation,
            test_features=federation.test_features[_PUBLIC:],
            test_labels=federation.test_labels[_PUBLIC:],
        )
    return evaluate(model, final, judged)["accuracy"]


def _of_baselines(scenario: Scenario, rounds: int) -> Settings:
    """Return the settings of local training."""
    return Configuration.of(
        {
            "run": {"system": "fedavg", "rounds": rounds},
            "data": {**_data(scenario), "silos": CLIENTS},
            "training": {
                "model": scenario.model,
                "local_rate": 0.1,
                "local_epochs": 5,
                "batch": 16,
            },
        }
    ).settings


def _data(scenario: Scenario) -> dict[str, Any]:
    path = {} if scenario.path is None else {"path": scenario.path}
    return {"name": scenario.data, "users": CLIENTS, **path}


@dataclass(frozen=True)
class Outcome:
    """What a run of DELM came to: its accuracy, what is proven of it, and the seconds of a round.

    `proven` is the epsilon before the server, at delta 1e-5; None where some piece has no
    guarantee.
    """

    accuracy: float
    proven: float | None
    seconds: float


def outcome(case: Delm, scenario: Scenario, knobs: Knobs, rounds: int, seed: int) -> Outcome:
    """Return what one run on all training records comes to."""
    return _run(case, scenario, knobs, rounds, dealt(scenario, seed), seed)


def _of_delm(
    case: Delm, scenario: Scenario, knobs: Knobs, rounds: int, federation: Federation, seed: int
) -> float:
    return _run(case, scenario, knobs, rounds, federation, seed).accuracy


def _run(
    case: Delm, scenario: Scenario, knobs: Knobs, rounds: int, federation: Federation, seed: int
) -> Outcome:
    settings = configured(case, scenario, knobs, rounds, federation)
    width = int(np.prod(federation.features.shape[1:]))
    local = TorchLocalTraining(
        settings, federation, model_named(scenario.model, width, federation.classes)
    )
    system = build(settings, federation, local, Streams.seeded(seed))
    assert isinstance(system, DelmScheme)
    published = system.opening().as_published
    guarantees = system.promise.plan.guarantees
    odometer = None if published else Odometer.for_plan(system.plan())
    gate = Gate(odometer, MemoryLog(), Streams.seeded(seed, 1))
    began = time.perf_counter()
    *_, (_, _, last) = simulated_rounds(system, gate)
    seconds = (time.perf_counter() - began) / rounds
    return Outcome(
        evaluate(system.model, last.parameters, system.federation)["accuracy"],
        None if published else guarantees[settings.privacy.observer].epsilon.upper,
        seconds,
    )


def configured(
    case: Delm, scenario: Scenario, knobs: Knobs, rounds: int, federation: Federation
) -> Settings:
    """Return the settings of a run of DELM."""
    pieces = dict(case.pieces)
    if pieces.get("pca") != "none":
        pieces["components"] = width_of(federation, case.kept)
    return Configuration.of(
        {
            "run": {"system": case.system, "rounds": rounds},
            "data": {**_data(scenario), "silos": CLIENTS},
            "privacy": {"epsilon": case.epsilon, "delta": DELTA},
            "training": {"model": scenario.model, "global_rate": knobs.rate},
            "delm": {"row_norm": scenario.row_norm, **pieces},
        }
    ).settings
