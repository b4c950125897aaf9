"""Rules that look for what a log says and does not support; one small function for each."""

from __future__ import annotations

from collections.abc import Iterable

from ..budget.evidence import Evidence
from . import (
    bounds,
    configuration,
    course,
    noise,
    sampling,
    security,
    statements,
    stripped,
    units,
)
from .hazard import RULES, Hazard, Rule

__all__ = ["RULES", "Hazard", "Rule", "hazards_in", "worst_first"]

_ROOMS = (units, sampling, security, bounds, noise, course, statements, configuration, stripped)
"""Loaded so that their rules are entered."""

_ORDER = {"error": 0, "warning": 1, "note": 2}


def hazards_in(evidence: Evidence) -> tuple[Hazard, ...]:
    """Return the hazards of a log, the worst first.

    A mismatch of events that another rule explains, line by line, is not repeated; that there is no
    number is said only where no other error says why.
    """
    found = {name: hazard for name, rule in RULES.items() if (hazard := rule.applied(evidence))}
    explained = {
        line
        for name, hazard in found.items()
        if RULES[name].explains and hazard.severity == "error"
        for line in _intents(evidence, hazard.lines)
    }
    mismatch = found.get("event-mismatch")
    if mismatch is not None and set(mismatch.lines) <= explained:
        del found["event-mismatch"]
    others = [hazard for name, hazard in found.items() if name != "no-number"]
    if any(hazard.severity == "error" for hazard in others):
        found.pop("no-number", None)
    return worst_first(found.values())


def worst_first(found: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """Return hazards, errors before warnings before notes."""
    return tuple(sorted(found, key=lambda hazard: _ORDER[hazard.severity]))


def _intents(evidence: Evidence, lines: tuple[int, ...]) -> set[int]:
    """Return lines, those of releases as the lines of their intents."""
    by_release = {number: one.number for one in evidence.ledger.spent for number, _ in one.releases}
    return {by_release.get(line, line) for line in lines}
