"""The verdict about a log of privplan's own: that of its budget audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from ..description.printed_number import PrintedNumber
from ..description.run_description import Fact, Reading
from ..findings import Finding
from ..readers.recognition import LOG_FILE
from .check_result import CheckResult, Verdict

if TYPE_CHECKING:
    from ..budget.report import BudgetReport

NOT_APPLICABLE: Final = "not applicable"
"""What is said of a rule that only a log of privplan's own can meet."""

COUNTERPARTS: Final[Mapping[str, str]] = {
    "shuffled-as-poisson": "shuffled-loader",
    "rate-mismatch": "contradiction",
    "sampled-unit": "sampled-twice",
    "neighbour-mismatch": "neighbour-mismatch",
    "unit-mismatch": "contradiction",
    "delta-too-large": "delta-too-large",
    "delta-not-compared": "delta-too-large",
    "sensitivity-below-facts": "microbatches",
    "weights-above-one": "unequal-weights",
    "unweighted-terms": "unequal-weights",
    "private-bound": "private-clip",
    "adaptive-clip": "unpaid-clip-count",
    "clip-not-enforced": "private-clip",
    "realised-normaliser": "realised-normaliser",
    "moving-normaliser": "realised-normaliser",
    "no-noise": "release-without-noise",
    "dropouts": "fewer-replies",
    "extra-draws": "restarted-accountant",
    "classical-sigma": "classical-gaussian",
    "more-rounds": "mid-epoch-value",
    "resumed-without-state": "restarted-accountant",
    "tuning-unaccounted": "tuning-not-counted",
    "private-evaluation": "release-without-noise",
    "close-under-reports": "other-settings",
    "event-mismatch": "other-settings",
    "engines-disagree": "other-settings",
}
"""Hazard rule -> the cause that is its counterpart where other people's runs are described."""


def rules_of_descriptions() -> Mapping[str, str]:
    """Return, for every hazard rule, the cause that is looked for in its stead, if there is one.

    >>> rules = rules_of_descriptions()
    >>> rules["shuffled-as-poisson"], rules["weak-key"]
    ('shuffled-loader', 'not applicable')
    """
    from ..hazards import RULES

    return {name: COUNTERPARTS.get(name, NOT_APPLICABLE) for name in RULES}


def rules_of_logs() -> Mapping[str, str]:
    """Return, for every hazard rule, its own id, by which an audit of a log names what it found."""
    from ..hazards import RULES

    return {name: name for name in RULES}


LOG_FORMAT: Final = "privplan log"


def is_log(reading: Reading) -> bool:
    """Return whether a reading is of a log of privplan's own."""
    return reading.format == LOG_FORMAT


def check_log(log: Reading, readings: Sequence[Reading]) -> CheckResult:
    """Return the verdict of the budget audit of a log; its source is the log or its folder.

    Raises `InvalidInput` where other sources stand next to it, since a log says all by itself.
    """
    from ..budget import audit_budget

    if len(readings) > 1:
        raise InvalidInput(
            "A log of privplan says all by itself, and stands with other sources.",
            "What was added could only contradict it.",
            "Check the log alone.",
        )
    path = Path(log.source)
    if path.is_file() and path.name != LOG_FILE:
        raise InvalidInput(
            f"{log.source} is a log of privplan under another name.",
            f"An audit reads `{LOG_FILE}` and what stands next to it.",
            "Give the folder of the run.",
        )
    report = audit_budget(path.parent if path.is_file() else path)
    claim = report.claim
    claimed = None if claim is None or claim.epsilon is None else PrintedNumber(claim.epsilon)
    facts = dict(log.facts)
    if claim is not None:
        stated = {
            "claim.epsilon": claimed,
            "claim.delta": claim.delta,
            "claim.unit": claim.unit,
            "claim.neighbours": claim.neighbours,
        }
        for key, value in stated.items():
            if value is not None:
                facts.setdefault(key, Fact(value, "read", log.source))
    return CheckResult(
        verdict=_verdict(report),
        proven=report.total.epsilon,
        claimed=claimed,
        delta=None if claim is None else claim.delta,
        reproduced_by=(),
        causes=(*_broken(report), *map(_as_cause, report.hazards)),
        missing=(),
        facts=facts,
        conditions=report.assumptions,
        doubts=log.doubts,
        of_log=True,
    )


def _verdict(report: BudgetReport) -> Verdict:
    """Return `holds` where the log supports its claim, `false` where it contradicts it."""
    if report.chain.bad_line is not None or report.supported is None:
        return "unverifiable"
    if report.supported:
        return "holds"
    claim = report.claim
    assert claim is not None
    assert claim.epsilon is not None
    return "false" if report.errors or report.total.epsilon.lower > claim.epsilon else "unproven"


def _broken(report: BudgetReport) -> tuple[Finding, ...]:
    """Return the cause that the log's own chain denies a line of it, if one does."""
    line = report.chain.bad_line
    if line is None:
        return ()
    says = f"The log contradicts itself: its chain breaks at line {line:,}."
    why, step = "Two facts cannot both be true.", "privplan audit log DIR names what is wrong."
    return (Finding("contradiction", "error", says, why, step),)


def _as_cause(hazard: Finding) -> Finding:
    """Return a hazard as a check lists it; what the log still supports is no number of its own."""
    severity = "info" if hazard.severity == "note" else hazard.severity
    return replace(hazard, severity=severity, epsilon=None)
