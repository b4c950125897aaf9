"""What a run leaves for people next to its log: measurements by round, as `metrics.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

from ...accountant.guarantee import Guarantee
from ..declarations.declaration import blame_package
from ..files import atomic
from ..frame.model import Parameters
from ..frame.rounds import system_with_package
from ..frame.system_checks import checked_measurements
from ..settings.public_test_data import EvaluationData
from .checkpoint import RoundMeasurement
from .prepared_run import PreparedRun

Measure: TypeAlias = Callable[[PreparedRun, Parameters], Mapping[str, float]]
"""How a system is measured on public test data: what it released, as numbers by name."""


def measure(prepared: PreparedRun, parameters: Parameters) -> dict[str, float]:
    """Return what the test data say about a release, by metric; nothing unless they are public.

    A system's own measures come before those of the model that it trains; where it has neither,
    there are none.
    """
    if not prepared.test.public:
        return {}
    system = prepared.settings.system
    if system.measure is not None:
        with blame_package(system, system.measure):
            how = cast("Measure", system.load(system.measure))
            return checked_measurements(
                how(prepared, parameters.copy()), system_with_package(system.name, system)
            )
    if prepared.trained is None:
        return {}
    from ..training.metrics import evaluate

    return evaluate(prepared.model, parameters, prepared.federation)


METRICS_FORMAT: Final = "privplan-metrics/1"

METRICS_FILE: Final = "metrics.json"

READING_NOTE: Final = (
    "epsilon_so_far is a reading and no guarantee: it would hold had the run been planned to end "
    "there. What is guaranteed is `guarantees`, for the whole plan."
)


def write_metrics(
    path: Path,
    about: Mapping[str, object],
    test: EvaluationData,
    measured: Sequence[RoundMeasurement],
    guarantees: Mapping[str, Guarantee],
) -> None:
    """Put the measurements in their place, whole or not at all; raises `OSError`."""
    content = {
        "format": METRICS_FORMAT,
        **about,
        "test": {"public": test.public, "source": test.source, "why": test.why},
        "note": f"{READING_NOTE} {_of_metrics(test)}",
        "guarantees": {who: _guarantee(proven) for who, proven in guarantees.items()},
        "rounds": [
            {
                "round": row.round,
                "metrics": _finite(row.metrics),
                "epsilon_so_far": _finite(row.epsilon),
            }
            for row in measured
        ],
    }
    # JSON has no infinity: `_number` writes it as a text, so that any reader takes the file.
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    atomic.write(path, text.encode())


def _of_metrics(test: EvaluationData) -> str:
    if not test.public:
        return f"There are no metrics: {test.why}."
    if test.source is None:
        return "Metrics are of test data that were declared public; the source is not stated."
    return f"Metrics are of test data that were declared public: {test.source}."


def _guarantee(proven: Guarantee) -> dict[str, object]:
    return {
        "epsilon": _number(proven.epsilon.upper),
        "delta": proven.delta.upper,
        "unit": proven.unit,
        "neighbours": proven.neighbours,
        "engine": proven.engine,
    }


def _finite(values: Mapping[str, float]) -> dict[str, object]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float) -> float | str:
    """Return the number, or its name where JSON has none."""
    return value if math.isfinite(value) else repr(value)
