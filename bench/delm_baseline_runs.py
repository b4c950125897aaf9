"""Runs of DELM's baselines in a scenario: features reduced, rounds made, models judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from delm_baselines import Knobs, Name, Noise, Vector, models
from delm_reductions import Matrix, Reduction, joint, on_local_components, projected, with_noise
from delm_reductions import wishart as with_wishart_noise
from delm_scenarios import Scenario, width_of

from privplan.fl.data.federation import Federation
from privplan.fl.models import Model, model_named
from privplan.fl.running.configuration import Configuration
from privplan.fl.settings.schema import Settings
from privplan.fl.training.local_training import TorchLocalTraining
from privplan.fl.training.metrics import evaluate

DELTA: Final = 1e-5

_NO_NOISE: Final = Noise()

_PUBLIC: Final = 0.5
"""The share of the test records that `secprobe` scores on; it is judged on the others."""


@dataclass(frozen=True)
class Baseline:
    """One of the baselines, with what it reduces features by, to a share `kept` of them."""

    name: Name
    reduction: Reduction = "none"
    kept: float = 1.0
    noise: Noise = _NO_NOISE
    epsilon_pca: float = 0.0


def accuracies(
    case: Baseline,
    scenario: Scenario,
    knobs: Knobs,
    rounds: int,
    federation: Federation,
    seed: int,
) -> list[float]:
    """Return the accuracy after each round; on own components, only after the last."""
    rng = np.random.default_rng([seed, 5])
    reduced, directions = _reduced(case, scenario, federation, rng)
    model = model_named(scenario.model, width_of(reduced), federation.classes)
    local = TorchLocalTraining(_settings(scenario, rounds), reduced, model)
    scored, judged = _halves(reduced) if case.name == "secprobe" else (reduced, reduced)

    def score(parameters: Vector) -> float:
        return evaluate(model, parameters, scored)["accuracy"]

    trained = models(case.name, local, knobs, case.noise, rounds, rng, score)
    if directions:
        *_, final = trained
        return [_by_each(model, final, federation, scenario.row_norm, directions)]
    return [evaluate(model, each, judged)["accuracy"] for each in trained]


def _reduced(
    case: Baseline, scenario: Scenario, federation: Federation, rng: np.random.Generator
) -> tuple[Federation, list[Matrix]]:
    count, norm = width_of(federation, case.kept), scenario.row_norm
    by_name: dict[Reduction, Callable[[], Federation]] = {
        "none": lambda: federation,
        "joint": lambda: joint(federation, count, norm),
        "ldp": lambda: with_noise(federation, count, norm, case.epsilon_pca, DELTA, rng),
        "wishart": lambda: with_wishart_noise(federation, count, norm, case.epsilon_pca, rng),
    }
    if case.reduction == "local":
        return on_local_components(federation, count, norm)
    return by_name[case.reduction](), []


def _by_each(
    model: Model, final: Vector, whole: Federation, norm: float, directions: list[Matrix]
) -> float:
    """Return the mean accuracy, where every client looks at test records by its own components."""
    seen = [
        replace(whole, features=features, test_features=features, **_labels(whole))
        for features in (projected(whole.test_features, each, norm) for each in directions)
    ]
    return float(np.mean([evaluate(model, final, each)["accuracy"] for each in seen]))


def _labels(whole: Federation) -> dict[str, object]:
    """Return what makes the test records of a federation its training records, too."""
    nobody = np.zeros(whole.test_records, np.int64)
    return {
        "labels": whole.test_labels,
        "user": nobody,
        "silo": nobody,
        "absent_users": True,
        "empty_silos": True,
    }


def _halves(federation: Federation) -> tuple[Federation, Federation]:
    cut = round(_PUBLIC * federation.test_records)
    features, labels = federation.test_features, federation.test_labels
    return (
        replace(federation, test_features=features[:cut], test_labels=labels[:cut]),
        replace(federation, test_features=features[cut:], test_labels=labels[cut:]),
    )


def _settings(scenario: Scenario, rounds: int) -> Settings:
    """Return the settings of local training."""
    return Configuration.of(
        {
            "run": {"system": "fedavg", "rounds": rounds},
            "data": scenario.table,
            "training": {
                "model": scenario.model,
                "local_rate": 0.1,
                "local_epochs": scenario.local_epochs,
                "batch": scenario.batch,
            },
        }
    ).settings
