"""What the scores of an audit say: of the target, of every shadow, and of a model that was there.

All of it is a function of what the folder keeps (plan, coins, scores), so that whoever opens the
folder derives it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from ..attack_methods.membership.evidence import Evidence
from ..statistics.one_run import steinke, steinke_p_value
from .audit_plan import AuditFacts, AuditPlan
from .pooled_targets import PooledResult, pooled_result
from .score_audit import ALPHA, CONTRADICTED_AT, ScoreAudit, audit_tables
from .score_tables import ScoreTables, score_tables

AGREE_WITHIN: Final = 1e-6
"""Results that are derived again agree so far, relative: sums differ by machine."""


@dataclass(frozen=True)
class TrainingResults:
    """What membership inference finds in the models of one training.

    - `target`: the model that was trained by coins of its own, and its bound on epsilon.
    - `shadows`: every shadow as a target, by attack, the primary one first; no bound.
    - `given`: the model that was there before; no coins decided about its members.
    """

    target: ScoreAudit
    shadows: tuple[PooledResult, ...]
    given: ScoreAudit | None = None

    @property
    def conclusion(self) -> Literal["leak", "nothing"]:
        """Whether models of this training tell who was in it, at 95 % over all attacks."""
        return "leak" if any(each.tells for each in self.shadows) else "nothing"

    @property
    def withheld(self) -> tuple[str, ...]:
        """What is not printed, and why."""
        told = [why for why in self.target.withheld if not why.startswith("TPR")]
        told += [why for each in self.shadows for why in each.withheld]
        if self.given is not None:
            told += [f"of the model that was there before, {why}" for why in self.given.withheld]
        return tuple(dict.fromkeys(told))

    def bound_at(self, delta: float) -> float | None:
        """Return the lower bound on epsilon by the primary attack, at another delta.

        The number of right guesses does not depend on delta, and the bounds at all deltas are
        right together: the least count that any of them rejects decides.
        """
        row, target = self.target.primary, self.target
        if row.correct is None or row.confidence is None:
            return None
        alpha = 1.0 - row.confidence
        return steinke(target.units, target.guesses, row.correct, delta=delta, alpha=alpha)

    def rejects(self, epsilon: float, delta: float, *, level: float = CONTRADICTED_AT) -> bool:
        """Return whether the guesses contradict (epsilon, delta) for one unit, at this level."""
        target = self.target
        return any(
            steinke_p_value(target.units, target.guesses, row.correct, epsilon=epsilon, delta=delta)
            <= (1.0 - row.confidence) / ALPHA * level
            for row in target.attacks
            if row.correct is not None and row.confidence is not None
        )

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            "conclusion": self.conclusion,
            "target": self.target.to_json(),
            "shadows": [each.to_json() for each in self.shadows],
            "given": None if self.given is None else self.given.to_json(),
        }


def derive_results(
    plan: AuditPlan, facts: AuditFacts, scores: FloatArray, given: FloatArray | None
) -> TrainingResults:
    """Return what scores say: (models, records and population), shadows first.

    Raises `InvalidInput` where two models are the same, or an attack is not possible.
    """
    _refuse_same_models(scores)
    records = len(facts.unit)
    shadows, target = scores[:-1], scores[-1:]
    unit = facts.unit
    evidence = Evidence(
        facts.design,
        unit,
        unit,
        shadows[:, :records],
        target[:, :records],
        shadows[:, records:],
        target[:, records:],
    )
    level: Literal["user", "record"] = "user" if plan.unit == "user" else "record"
    told = audit_tables(
        ScoreTables(evidence, level),
        attacks=plan.attacks,
        guesses=plan.guesses,
        delta=plan.delta,
        coins="independent",
        claimed=plan.claimed,
    )
    if told.coins == "declared independent":
        told = replace(told, coins="recorded")  # nobody declared them: they were tossed here
    others = len(plan.attacks) - 1
    pooled = []
    for index, name in enumerate(plan.attacks):
        part = ALPHA if not others else 0.5 * ALPHA / (1 if index == 0 else others)
        pooled.append(pooled_result(evidence, name, level, primary=index == 0, alpha=part))
    return TrainingResults(told, tuple(pooled), _of_given(plan, facts, scores, given))


def _of_given(
    plan: AuditPlan, facts: AuditFacts, scores: FloatArray, given: FloatArray | None
) -> ScoreAudit | None:
    """Return what is told of the model that was there before; it carries no bound."""
    if given is None or facts.members is None:
        return None
    records = len(facts.unit)
    shadows, population = scores[:-1], None
    if facts.population:
        population = given[None, records:], shadows[:, records:]
    tables = score_tables(
        target=given[None, :records],
        target_membership=facts.members[None],
        shadows=shadows[:, :records],
        membership=facts.design.shadows[:, facts.unit],
        population=population,
        user=facts.unit if plan.unit == "user" else None,
    )
    audit = audit_tables(
        tables, attacks=plan.attacks, guesses=plan.guesses, delta=plan.delta, coins=None
    )
    withheld = [why for why in audit.withheld if not why.startswith("epsilon: ")]
    withheld.append("epsilon: no coin of this audit drew who was in it")
    if facts.blind is None:
        why = "features are no numbers, all have copies, or scikit-learn is not installed"
        withheld.append(f"AUC of a classifier that sees no model: {why}")
    return replace(audit, blind=facts.blind, withheld=tuple(withheld))


def _refuse_same_models(scores: FloatArray) -> None:
    rows = len(scores)
    different = len(np.unique(scores, axis=0))
    if different < rows:
        raise InvalidInput(
            f"`train` ignores its indices: {rows - different} of {rows} models are copies of "
            "others.",
            "Shadows that do not differ say nothing of who was in them; scores that are labels "
            "alone can coincide as well.",
            "Train on the records that `indices` name, with the seed that is given, and give "
            "scores that are finer than labels, such as probabilities.",
        )


def same_results(first: Any, second: Any) -> bool:
    """Return whether two results agree, number by number; numbers may stand as texts.

    >>> same_results({"a": ["0.5"]}, {"a": [0.5 + 1e-12]}), same_results([1.0], [2.0])
    (True, False)
    """
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            same_results(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same_results, first, second))
    if isinstance(first, bool) or isinstance(second, bool) or first is None or second is None:
        return first is second
    try:
        number, other = float(first), float(second)
    except (TypeError, ValueError):
        return bool(first == second)
    return abs(number - other) <= AGREE_WITHIN * max(1.0, abs(other))
