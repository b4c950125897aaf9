"""Hazards: rules that find claims of a log that it does not support, one function for each.

- `chain`, `sidecar`, `sealed`: the file itself, its sidecar, and what stands sealed in it.
- `sampling`, `noise`, `contribution_bounds`, `units`: samples and rates; noise that arrived; clips
  and weights; who is protected.
- `statements`, `stated_reaches`, `run_course`: what a log says of itself and of who sees what;
  plan, interruptions, end.
- `security`, `parties`: protocols of sums; logs of one party among several.
- `configuration_mismatch`: the configuration against the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..edits import RULE_MODULES as EDIT_MODULES
from ..edits import facts_of_lines
from ..evidence.evidence import Evidence
from ..findings import FACTS, Rule, Search, apply_rules, rules_on, worst_first
from . import (
    chain,
    configuration_mismatch,
    contribution_bounds,
    noise,
    parties,
    run_course,
    sampling,
    sealed,
    security,
    sidecar,
    stated_reaches,
    statements,
    units,
)

__all__ = ["LOG_RULES", "RULES", "facts_of", "search_hazards"]

_RULE_MODULES = (
    *(units, contribution_bounds, configuration_mismatch, run_course, *EDIT_MODULES[:-1]),
    *(stated_reaches, sampling, security, noise, parties, statements, chain, EDIT_MODULES[-1]),
    *(sealed, sidecar),
)
"""The modules of the rules, in the order in which hazards of one severity are listed."""

RECORDS: Final = ("evidence", "ledger", "lineage")
"""Facts that the records of every log give."""

RULES: Final[Mapping[str, Rule]] = rules_on(RECORDS)
"""The rules about the records of a log, by id."""

LOG_RULES: Final[Mapping[str, Rule]] = rules_on(FACTS.keys() - {"case"})
"""Every rule about a log: its records, its file, and what stands next to it."""


def facts_of(evidence: Evidence) -> dict[str, object]:
    """Return the facts that the records of a log give."""
    return {"evidence": evidence, **facts_of_lines(evidence.ledger)}


def search_hazards(evidence: Evidence, surroundings: Mapping[str, object] | None = None) -> Search:
    """Return the hazards of a log, the worst first, and the facts that it does not state.

    `surroundings` are facts of its file and of its folder, as far as they are known.  The hazard
    `event-mismatch` is left out where other errors explain each of its lines, and
    `no-number` where another error of the records gives the reason.
    """
    search = apply_rules({**facts_of(evidence), **(surroundings or {})}, order=_RULE_MODULES)
    errors = [
        hazard for hazard in search.findings if hazard.severity == "error" and hazard.id in RULES
    ]
    # An error that names the fact behind a stated event takes the place of the mere mismatch.
    explained = {
        line
        for hazard in errors
        if RULES[hazard.id].explains
        for line in _intents(evidence, hazard.lines)
    }
    reasons = {hazard.id for hazard in errors} - {"no-number"}
    kept = [
        hazard
        for hazard in search.findings
        if not (hazard.id == "event-mismatch" and set(hazard.lines) <= explained)
        and not (hazard.id == "no-number" and reasons)
    ]
    return Search(worst_first(kept), search.not_stated)


def _intents(evidence: Evidence, lines: tuple[int, ...]) -> set[int]:
    """Return the lines, with that of each release replaced by that of its intent."""
    by_release = {number: spent.number for spent, number, _ in evidence.ledger.releases}
    return {by_release.get(line, line) for line in lines}
