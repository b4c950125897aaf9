"""How far a budget is spent; never a guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["adaptive", "planned"]
"""Whether releases may be chosen by earlier results, or were all fixed before the first."""


@dataclass(frozen=True)
class BudgetReading:
    """How far a budget is spent: `epsilon` so far at `delta`, and the spent `share` in [0, 1].

    `note` says why this is no guarantee.
    """

    epsilon: float
    delta: float
    share: float
    note: str
