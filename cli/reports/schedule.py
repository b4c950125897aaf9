"""Silos that take part by a public schedule: how many rounds a plan counts of the worst of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...accountant.records import Planned


def counted_rows(plan: Planned) -> list[tuple[str, str]]:
    """Return the line that says it; none where every silo takes part in every round."""
    if plan.counted is None:
        return []
    most = f"{plan.counted:,} of {plan.rounds:,} rounds, the most of one silo"
    return [("counts", f"{most}; who takes part when is public")]
