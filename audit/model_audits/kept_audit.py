"""Reading the folder of an audit: the chain, what it sealed, and the result derived again.

Whoever has the whole folder derives the result from coins and scores, and finds one that was
edited.  Whoever has the log alone sees the plan, commitments, and the result of public data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...accountant.errors import InvalidInput
from ...fl.log.anchors import MIN_HEAD_DIGITS
from ...fl.log.hash_chain import SEALED, is_hash
from .audit_chain import (
    AUDIT_LOG,
    FAILURE,
    MODEL,
    RESULT,
    RESUME,
    AuditLine,
    BadAuditLine,
    opened_items,
    read_lines,
)
from .audit_plan import AuditFacts, AuditPlan
from .audit_results import TrainingResults, derive_results, same_results
from .shadow_training import GIVEN, read_scores_of, score_file


@dataclass(frozen=True)
class KeptLog:
    """The log of an audit, whose chain is whole: what a stranger can check.

    `anchor` is the number of the line with the head that was kept elsewhere, None without one.
    """

    folder: Path
    plan: AuditPlan
    lines: tuple[AuditLine, ...]
    anchor: int | None

    @property
    def finished(self) -> bool:
        """Whether a result is stated, or sealed."""
        return self.lines[-1].kind == RESULT

    @property
    def checked(self) -> str:
        """What the log was checked against."""
        return "chain only" if self.anchor is None else "chain and head"

    @property
    def resumed(self) -> int:
        """How often the audit went on after it had been cut off."""
        return sum(line.kind == RESUME for line in self.lines)

    @property
    def failures(self) -> int:
        """How often a training failed, and was done again with its coins and seed."""
        return sum(line.kind == FAILURE for line in self.lines)


@dataclass(frozen=True)
class KeptAudit(KeptLog):
    """The whole audit in a folder: what is sealed fits the log.

    `results` are derived again from coins and scores; None before the audit is finished.
    """

    facts: AuditFacts
    results: TrainingResults | None


def read_log(folder: str | Path, *, expected_head: str | None = None) -> KeptLog:
    """Return the log of the audit in a folder; nothing that is sealed is opened.

    `expected_head` is the hash of a line that was kept elsewhere, or its first 32 digits.  Raises
    `InvalidInput` where there is no log or no line has the head, and `BadAuditLine`.
    """
    path = Path(folder)
    lines, _ = read_lines(path)
    if not lines:
        raise InvalidInput(
            f"{path / AUDIT_LOG} has no line.", "No audit was begun.", "Begin it in a new folder."
        )
    plan = AuditPlan.from_json(lines[0].record)
    if lines[-1].kind == RESULT:
        trained = [line.record.get("model") for line in lines if line.kind == MODEL]
        numbers = {each for each in trained if isinstance(each, int)}
        if numbers != set(range(plan.models)) or len(trained) != plan.models:
            raise BadAuditLine(
                path / AUDIT_LOG, len(lines), "there is a result, and not all models were trained"
            )
    return KeptLog(path, plan, lines, _anchor(lines, expected_head))


def read_audit(folder: str | Path, *, expected_head: str | None = None) -> KeptAudit:
    """Return the audit in a folder, with its result derived again.

    Raises `InvalidInput` as `read_log` does, and for a sealed item, a score or a result that was
    changed.
    """
    log = read_log(folder, expected_head=expected_head)
    path, plan, lines = log.folder, log.plan, log.lines
    if not (path / SEALED).is_file():
        raise InvalidInput(
            f"{path} has no {SEALED}.",
            "Coins and scores are sealed, and without them no result can be derived again.",
            "Ask the owner of the audit for the whole folder.",
        )
    items = opened_items(path, lines)
    facts = AuditFacts.from_items(items)
    if facts.design.inside.shape[0] != plan.models or len(facts.seeds) != plan.models:
        raise BadAuditLine(path / AUDIT_LOG, 1, "it plans another number of models than has coins")
    results = _derived(path, plan, facts, lines, items) if log.finished else None
    return KeptAudit(path, plan, lines, log.anchor, facts, results)


def _anchor(lines: tuple[AuditLine, ...], expected: str | None) -> int | None:
    if expected is None:
        return None
    if len(expected) < MIN_HEAD_DIGITS or not is_hash(expected.ljust(64, "0")):
        raise InvalidInput(
            f"The expected head must be {MIN_HEAD_DIGITS} to 64 hexadecimal digits.",
            next_step="Give the head as it was printed.",
        )
    anchor = next((line.number for line in lines if line.hash.startswith(expected)), None)
    if anchor is None:
        raise InvalidInput(
            "No line has the expected head.",
            "The log was written anew after the head was kept, or it is another one.",
            "Ask the owner which audit the head is of.",
        )
    return anchor


def _derived(
    path: Path,
    plan: AuditPlan,
    facts: AuditFacts,
    lines: tuple[AuditLine, ...],
    items: dict[str, Any],
) -> TrainingResults:
    """Return the result that coins and scores give; `InvalidInput` where another one is stated."""
    log = path / AUDIT_LOG
    count = len(facts.unit) + facts.population
    table = [
        _kept_scores(path, number, count, items.get(f"model.{number}"))
        for number in range(plan.models)
    ]
    given = _kept_scores(path, GIVEN, count, items.get(GIVEN)) if plan.given else None
    results = derive_results(plan, facts, np.array(table), given)
    stated = lines[-1].record.get("result") if plan.public else items.get("result")
    if not same_results(stated, results.to_json()):
        raise BadAuditLine(log, lines[-1].number, "its result is not what coins and scores give")
    return results


def _kept_scores(path: Path, model: int | str, count: int, sealed: object) -> Any:
    file = score_file(path, model)
    scores, digest = read_scores_of(file, count)
    if digest != sealed:
        raise InvalidInput(
            f"{file} was changed since the log committed to it.",
            "A result rests on what the models said.",
            "Take the folder from a copy that nobody has touched.",
        )
    return scores
