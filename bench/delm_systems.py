"""DELM's systems in memory, and their baselines: rounds of runs with nothing kept.

The systems of DELM are those that `privplan run` makes, with their plan, gate and odometer; records
go nowhere.  Noise is seeded, so it protects nobody: the records are anybody's to read.  Baselines
are in `delm_baselines`; what is claimed and proven of all of them is here and in `delm_epsilons`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from delm_baseline_runs import DELTA, Baseline, accuracies
from delm_baselines import Knobs
from delm_epsilons import ldp_fl_proven
from delm_scenarios import Scenario, dealt, width_of

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.aggregation.sums import PlainAggregator
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.delm.measure import minimised
from privplan.fl.delm.scheme import DelmScheme
from privplan.fl.delm.settings import DelmSettings
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.system import build
from privplan.fl.models import model_named
from privplan.fl.running.configuration import Configuration
from privplan.fl.settings.schema import Settings
from privplan.fl.statistics.system import Statistics
from privplan.fl.training.local_training import NoTraining, TorchLocalTraining
from privplan.fl.training.metrics import evaluate, measured


@dataclass(frozen=True)
class Delm:
    """A system of DELM: its name, the epsilon that it claims, p, and keys of [delm]."""

    system: Literal["delm-basic", "delm-enhanced"]
    epsilon: float
    kept: float = 0.5
    pieces: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Linear:
    """The system `delm-linear`: all coefficients once, for an epsilon that is proven."""

    epsilon: float
    noise: Literal["laplace", "gaussian"]


Case = Baseline | Delm | Linear


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the accuracy after each round, and the seconds of one.

    `proven` is an epsilon of a record before the server, at delta 1e-5; None where some piece has
    no guarantee.
    """

    accuracies: list[float]
    proven: float | None
    seconds: float

    @property
    def accuracy(self) -> float:
        """The accuracy of the last model."""
        return self.accuracies[-1]


def outcome(
    case: Case, scenario: Scenario, knobs: Knobs, rounds: int, seed: int, *, choosing: bool = False
) -> Outcome:
    """Return what one run comes to, on all training records or, while choosing, on a part."""
    federation = dealt(scenario, seed, choosing=choosing)
    if isinstance(case, Delm):
        return _of_delm(case, scenario, knobs, rounds, federation, seed)
    if isinstance(case, Linear):
        return _of_linear(case, scenario, federation, seed)
    began = time.perf_counter()
    reached = accuracies(case, scenario, knobs, rounds, federation, seed)
    seconds = (time.perf_counter() - began) / rounds
    proven = None
    if case.name == "ldp-fl":
        parameters = model_named(scenario.model, width_of(federation), federation.classes)
        proven = ldp_fl_proven(case.noise.training, parameters.parameters, rounds)
    return Outcome(reached, proven, seconds)


def _of_delm(
    case: Delm, scenario: Scenario, knobs: Knobs, rounds: int, federation: Federation, seed: int
) -> Outcome:
    settings = configured(case, scenario, knobs, rounds, federation)
    model = model_named(scenario.model, width_of(federation), federation.classes)
    local = TorchLocalTraining(settings, federation, model)
    system = build(settings, federation, local, Streams.seeded(seed))
    assert isinstance(system, DelmScheme)
    published = system.opening().as_published
    proven = system.promise.plan.guarantees[settings.privacy.observer].epsilon.upper
    odometer = None if published else Odometer.for_plan(system.plan())
    gate = Gate(odometer, MemoryLog(), Streams.seeded(seed, 1), unpromised=published)
    began, reached = time.perf_counter(), list[float]()
    for _, _, released in simulated_rounds(system, gate):
        reached.append(evaluate(system.model, released.parameters, system.federation)["accuracy"])
    seconds = (time.perf_counter() - began) / rounds
    return Outcome(reached, None if published else proven, seconds)


def _of_linear(case: Linear, scenario: Scenario, federation: Federation, seed: int) -> Outcome:
    """Return what one release and a fit of it come to; Gaussian noise is in shares, under masks.

    Sums under masks are those in the clear, bit for bit, so masks are left out.
    """
    masked = case.noise == "gaussian"
    settings = Configuration.of(
        {
            "run": {"system": "delm-linear"},
            "data": scenario.table,
            "privacy": {"epsilon": case.epsilon, "delta": DELTA, "neighbours": "replace-one"},
            "security": {"aggregation": "masked" if masked else "plain"},
            "delm": {"row_norm": scenario.row_norm, "noise": case.noise},
        }
    ).settings
    system = build(settings, federation, NoTraining(), Streams.seeded(seed))
    assert isinstance(system, Statistics)
    system.aggregator = PlainAggregator()
    proven = system.promise.plan.guarantees[settings.privacy.observer].epsilon.upper
    gate = Gate(Odometer.for_plan(system.plan()), MemoryLog(), Streams.seeded(seed, 1))
    began = time.perf_counter()
    *_, (_, _, last) = simulated_rounds(system, gate)
    statistics = system.released(last.parameters)
    weights = minimised(statistics, settings.of(DelmSettings))
    features = federation.test_features.reshape(len(federation.test_features), -1)
    scores = statistics.rows(features.astype(np.float64)) @ weights
    accuracy = measured(scores, federation.test_labels)["accuracy"]
    return Outcome([accuracy], proven, time.perf_counter() - began)


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
            "data": scenario.table,
            "privacy": {"epsilon": case.epsilon, "delta": DELTA, "neighbours": "replace-one"},
            "training": {"model": scenario.model, "global_rate": knobs.rate},
            "delm": {"row_norm": scenario.row_norm, **pieces},
        }
    ).settings
