"""Hazards: rules that find claims of a log that it does not support, one function for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..edits import NotStated
from ..evidence.evidence import Evidence
from . import (
    chain,
    configuration_mismatch,
    contribution_bounds,
    noise,
    run_course,
    sampling,
    security,
    sidecar,
    stated_reaches,
    statements,
    units,
)
from .rule import RULES, Hazard, Rule

__all__ = ["RULES", "Hazard", "HazardSearch", "Rule", "search_hazards", "worst_first"]

_RULE_MODULES = (
    *(units, contribution_bounds, configuration_mismatch, run_course, chain, noise),
    *(stated_reaches, sampling, security, noise, statements, sidecar),
)
"""The modules of the rules, in the order in which hazards of one severity are listed."""

_POSITION = {module.__name__: position for position, module in enumerate(_RULE_MODULES)}
RULES_LISTED: Final = tuple(
    sorted(RULES.values(), key=lambda rule: _POSITION[rule.check.__module__])
)

_SEVERITY_ORDER = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True)
class HazardSearch:
    """The hazards of a log, the worst first, and the facts that rules needed and it lacks."""

    hazards: tuple[Hazard, ...]
    not_stated: tuple[str, ...]


def search_hazards(evidence: Evidence) -> HazardSearch:
    """Return the hazards of a log, and the facts that it does not state.

    The hazard `event-mismatch` is left out where other errors explain each of its lines, and
    `no-number` where another error gives the reason.
    """
    outcomes = {rule.id: rule.apply(evidence) for rule in RULES_LISTED}
    hazards = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Hazard)}
    silent = tuple(outcome.what for outcome in outcomes.values() if isinstance(outcome, NotStated))
    # An error that names the fact behind a stated event takes the place of the bare mismatch.
    explained = {
        line
        for name, hazard in hazards.items()
        if RULES[name].explains and hazard.severity == "error"
        for line in _intents(evidence, hazard.lines)
    }
    mismatch = hazards.get("event-mismatch")
    if mismatch is not None and set(mismatch.lines) <= explained:
        del hazards["event-mismatch"]
    others = [hazard for name, hazard in hazards.items() if name != "no-number"]
    if any(hazard.severity == "error" for hazard in others):
        hazards.pop("no-number", None)
    return HazardSearch(worst_first(hazards.values()), silent)


def worst_first(hazards: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """Return hazards, errors before warnings before notes."""
    return tuple(sorted(hazards, key=lambda hazard: _SEVERITY_ORDER[hazard.severity]))


def _intents(evidence: Evidence, lines: tuple[int, ...]) -> set[int]:
    """Return the lines, with that of each release replaced by that of its intent."""
    by_release = {
        number: spent.number for spent in evidence.ledger.spent for number, _ in spent.releases
    }
    return {by_release.get(line, line) for line in lines}
