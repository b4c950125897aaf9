"""What public test data say of a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from ..declarations.package_errors import blame_package
from ..frame.model import Parameters
from ..frame.rounds import system_with_package
from ..frame.system_checks import checked_measurements
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
