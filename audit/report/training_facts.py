"""An audit of a training next to the verdict on its description: claimed, proven, measured.

The audit measures one unit that is added or removed, before whoever sees the model.  A claim about
another unit or relation is no claim about that, so numbers of the two are compared only where both
are about the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput
from ..check.check_result import CheckResult
from ..check.front import check
from ..check.headline import protects
from ..model_audits.audit_results import TrainingResults
from ..model_audits.kept_audit import KeptAudit, read_audit
from ..model_audits.score_audit import ALPHA, CONTRADICTED_AT

SIZES_DIFFER: Final = 0.1
"""A description of a training on so much more or fewer records, relative, is another training."""


@dataclass(frozen=True)
class TrainingFacts:
    """The audit in a folder, and the verdict on the description of the same training.

    - `checked`: the verdict, None where no description was given.
    - `incomparable`: why measured and described numbers are not compared; empty where they are.
    """

    audit: KeptAudit
    results: TrainingResults
    checked: CheckResult | None = None
    incomparable: str = ""

    @property
    def delta(self) -> float:
        """The delta of the description, else that of the audit's plan."""
        stated = None if self.checked is None else self.checked.delta
        return self.audit.plan.delta if stated is None else stated

    @property
    def claimed(self) -> float | None:
        """The epsilon that is claimed at `delta`, as high as its printed digits allow."""
        if self.checked is not None:
            told = self.checked.claimed
            return None if told is None or self.incomparable else told.highest
        return self.audit.plan.claimed

    @property
    def proven(self) -> float | None:
        """The epsilon that is proven of the description, where it is about the same."""
        if self.checked is None or self.checked.proven is None or self.incomparable:
            return None
        return self.checked.proven.upper

    @property
    def measured(self) -> float | None:
        """The lower bound by the primary attack, at `delta`; None where no bound is printed."""
        return self.results.bound_at(self.delta)

    def contradicts(self, epsilon: float | None) -> bool:
        """Return whether the guesses reject an epsilon at 1/1,000, over all attacks."""
        return epsilon is not None and self.results.rejects(
            epsilon, self.delta, level=CONTRADICTED_AT
        )

    def unusual(self, epsilon: float | None) -> bool:
        """Return whether they reject it at 5 %, over all attacks, and no more."""
        return (
            epsilon is not None
            and not self.contradicts(epsilon)
            and self.results.rejects(epsilon, self.delta, level=ALPHA)
        )

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts what is claimed, or what is proven of the description."""
        wrong = self.checked is not None and self.checked.verdict == "false"
        others = self.contradicts(self.claimed) or self.contradicts(self.proven)
        return not (wrong or others or self.contradicts_plan)

    @property
    def contradicts_plan(self) -> bool:
        """Whether the guesses reject the claim that the plan fixed, whatever is described since."""
        planned = self.audit.plan
        return planned.claimed is not None and self.results.rejects(
            planned.claimed, planned.delta, level=CONTRADICTED_AT
        )

    @property
    def records_trained(self) -> int:
        """On how many records the target was trained."""
        facts = self.audit.facts
        return len(facts.indices(self.audit.plan.shadows))

    @property
    def sizes_differ(self) -> int | None:
        """The number of records of the description, where the target was trained on others."""
        told = None if self.checked is None else self.checked.facts.get("data.records")
        if told is None or not isinstance(told.value, int):
            return None
        return told.value if abs(told.value / self.records_trained - 1.0) > SIZES_DIFFER else None


def read_training(
    folder: str | Path, description: Sequence[str] = (), *, expected_head: str | None = None
) -> TrainingFacts:
    """Return the audit in a folder, and the verdict of `check` on files that describe the training.

    Raises `InvalidInput` for an audit that is not finished or was changed, and for files that
    `check` does not read.
    """
    audit = read_audit(folder, expected_head=expected_head)
    if audit.results is None:
        raise InvalidInput(
            f"The audit in {folder} is not finished.",
            "A result is made of all models.",
            "Call privplan.audit_model again with the same folder, which goes on.",
        )
    checked = check(*description) if description else None
    why = "" if checked is None else _incomparable(checked, audit.plan.unit)
    return TrainingFacts(audit, audit.results, checked, why)


def _incomparable(checked: CheckResult, unit: str) -> str:
    if checked.currency != "epsilon":
        return f"the description claims a number of {checked.currency}"
    told, relation = checked.facts.get("claim.unit"), checked.facts.get("claim.neighbours")
    other_unit = told is not None and told.value != unit and not checked.unit_is_open
    other_relation = relation is not None and relation.value != "add-remove"
    if other_unit or other_relation:
        return f"the description is about {protects(checked)}, and coins add or remove one {unit}"
    return ""
