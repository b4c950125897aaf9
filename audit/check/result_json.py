"""The result of a check as the JSON object of its contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from ...accountant.guarantee import Bounds
from ..description.printed_number import PrintedNumber
from ..description.run_description import ExtraRelease, Fact, Phase
from ..findings import Finding
from ..reproduction.reproduction import Reproduction
from .check_result import CheckResult
from .log_verdict import rules_of_descriptions, rules_of_logs


def facts_json(facts: Mapping[str, Fact]) -> dict[str, dict[str, object]]:
    """Return `{key: {"value", "provenance", "source"}}` of facts, ready to be written."""
    return {
        key: {
            "value": plain_value(fact.value),
            "provenance": fact.provenance,
            "source": fact.source,
        }
        for key, fact in facts.items()
    }


def plain_value(value: object) -> object:
    """Return the value of a fact as JSON has it."""
    if isinstance(value, PrintedNumber):
        return value.value
    if isinstance(value, Phase):
        return [value.noise_multiplier, value.rate, value.steps]
    if isinstance(value, ExtraRelease):
        return asdict(value)
    if isinstance(value, tuple):
        return [plain_value(row) for row in value]
    return value


def result_json(result: CheckResult) -> dict[str, object]:
    """Return the JSON object of a result; infinite numbers are floats still.

    `verdict`, `proven`, `claimed`, `delta`, `reproduced_by`, `causes`, `missing` and `facts` are
    the contract.  Next to it stand `currency` (epsilon, rho or mu, which `claimed` and `proven` are
    of), `claimed_rounding` (half of the last printed digit, 0 for an exact number: the claim is
    compared after rounding it up by that), `conventions` (what nobody mentioned), `deciding` (runs
    that the description allows and that disagree), `waits_for` (the missing facts that the verdict
    waits for), `other_claims` (verdicts about rho or mu besides epsilon) and `rules` (each hazard
    rule of privplan's own logs -> the cause that it is looked for as, or "not applicable").
    """
    return {
        "verdict": result.verdict,
        "proven": None if result.proven is None else _ends(result.proven),
        "claimed": None if result.claimed is None else result.claimed.value,
        "delta": result.delta,
        "reproduced_by": [_reproduction(each) for each in result.reproduced_by],
        "causes": [_cause(each) for each in result.causes],
        "missing": [each.key for each in result.missing],
        "facts": facts_json(result.facts),
        "currency": result.currency,
        "claimed_rounding": None if result.claimed is None else result.claimed.half_unit,
        "headline": result.headline,
        "class_lower": result.class_lower,
        "worst_of_class": result.class_lower > 0.0,
        "conventions": [
            {"id": each.id, "says": each.says, "value": each.value} for each in result.conventions
        ],
        "deciding": [
            {"completion": each.says, "epsilon": _ends(each.bounds), "set": each.settles}
            for each in result.completions
        ],
        "settled_by": result.settled_by,
        "waits_for": [each.key for each in result.deciding],
        "other_claims": [
            {
                "currency": each.currency,
                "claimed": None if each.claimed is None else each.claimed.value,
                "verdict": each.verdict,
                "proven": None if each.proven is None else _ends(each.proven),
            }
            for each in result.other_claims
        ],
        "asks": {each.key: each.asks for each in result.missing},
        "alternatives": {
            name: _ends(bounds) for name, bounds in (result.alternatives or {}).items()
        },
        "by_sampler": list(result.by_sampler),
        "conditions": list(result.conditions),
        "doubts": list(result.doubts),
        "rules": dict(rules_of_logs() if result.of_log else rules_of_descriptions()),
    }


def _ends(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}


def _cause(cause: Finding) -> dict[str, object]:
    return {
        "id": cause.id,
        "severity": cause.severity,
        "says": cause.says,
        "next": cause.next_step,
        "epsilon": None if cause.epsilon is None else _ends(cause.epsilon),
    }


def _reproduction(each: Reproduction) -> dict[str, object]:
    return {
        "accountant": each.accountant,
        "epsilon": each.epsilon,
        "change": each.change,
        "says": each.says,
    }
