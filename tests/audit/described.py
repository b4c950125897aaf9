"""Runs described by hand, for tests of the check."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from privplan.audit.check.check_result import CheckResult
from privplan.audit.check.checking import check_readings
from privplan.audit.description.tables import reading_of_names
from privplan.audit.findings import Finding

CLEAN: Final[Mapping[str, object]] = {
    "claim.epsilon": Decimal("0.96"),
    "claim.delta": 1e-5,
    "claim.unit": "record",
    "claim.neighbours": "add-remove",
    "noise.noise_multiplier": 1.3,
    "noise.clip_source": "constant",
    "data.records": 60000,
    "sampling.method": "poisson",
    "sampling.batch": 256,
    "schedule.steps": 3516,
    "schedule.accumulation": 1,
    "schedule.microbatches": 1,
    "schedule.restarts": 1,
    "aggregation.normaliser": "constant",
    "tuning.runs": 1,
}
"""DP-SGD whose epsilon is .8646, and .9546 by Opacus's Renyi accountant."""


def checked(
    facts: Mapping[str, object] | None = None, *, without: tuple[str, ...] = ()
) -> CheckResult:
    """Return the verdict about the clean run with other facts, and without some keys."""
    described = {key: value for key, value in CLEAN.items() if key not in without}
    return check_readings([reading_of_names({**described, **(facts or {})}, "by hand")])


def cause(result: CheckResult, name: str) -> Finding | None:
    """Return the cause with an id, or None."""
    return next((each for each in result.causes if each.id == name), None)


def ids(result: CheckResult) -> set[str]:
    """Return the ids of all causes."""
    return {each.id for each in result.causes}


def errors(result: CheckResult) -> set[str]:
    """Return the ids of the causes that are errors."""
    return {each.id for each in result.causes if each.severity == "error"}
