"""What an audit of a budget found: claimed and proven beside each other, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...accountant.guarantee import Bounds
from ...accountant.records import Claim
from .total import Total

if TYPE_CHECKING:
    from ..hazards import Hazard

ROUNDING: Final = 1e-9
"""Relative excess over a claim or a limit that rounding explains."""


@dataclass(frozen=True)
class Row:
    """What the log supports before one observer, and what its last line states there."""

    observer: str
    total: Total
    stated: float | None

    def to_json(self) -> dict[str, object]:
        """Return the row as a JSON object."""
        return {
            "observer": self.observer,
            "epsilon": _ends(self.total.epsilon),
            "engine": self.total.engine,
            "checks": list(self.total.checks),
            "refused": self.total.refusal or None,
            "stated": self.stated,
        }


@dataclass(frozen=True)
class GroupRow:
    """What the log supports for a unit of several of what it protects."""

    size: int
    total: Total

    def to_json(self) -> dict[str, object]:
        """Return the row as a JSON object."""
        return {
            "size": self.size,
            "epsilon": _ends(self.total.epsilon),
            "engine": self.total.engine,
            "refused": self.total.refusal or None,
        }


@dataclass(frozen=True)
class Chain:
    """The log as a chain: how many good records, the last hash, the first bad line and why."""

    records: int
    head: str | None
    bad_line: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class BudgetReport:
    """What the facts of a log support, for whom, and how that compares with what it says.

    `total` is before the observer of the claim, `planned` the same with all that was planned.
    `spent` counts intents, released or not.  `left` is how many more rounds like the last one fit
    in the limit, else in the claim; None where that was not asked or is not known.  `not_stated`
    are sentences about what could not be compared, as the log lacks a fact: neither good nor bad.
    """

    chain: Chain
    claim: Claim | None
    total: Total
    planned: Total | None
    rows: tuple[Row, ...]
    groups: tuple[GroupRow, ...]
    hazards: tuple[Hazard, ...]
    spent: int
    released: int
    planned_rounds: int
    dangling: tuple[int, ...]
    complete: bool
    limit: float | None
    left: int | None
    assumptions: tuple[str, ...]
    not_stated: tuple[str, ...] = ()

    @property
    def supported(self) -> bool | None:
        """Whether the log supports its claim; None where it claims no number.

        Where an error stands the log supports nothing, whatever its rounds come to.
        """
        within = self.within_claim
        return within if within is None else within and not self.errors

    @property
    def within_claim(self) -> bool | None:
        """Whether what the rounds come to is at most the claim; None where it is no number."""
        if self.claim is None or self.claim.epsilon is None:
            return None
        upper = self.total.upper
        return upper < math.inf and upper <= self.claim.epsilon * (1.0 + ROUNDING)

    @property
    def errors(self) -> tuple[str, ...]:
        """The ids of hazards that are errors."""
        return tuple(one.id for one in self.hazards if one.severity == "error")

    @property
    def within_limit(self) -> bool | None:
        """Whether the limit is kept; None where none was given."""
        return None if self.limit is None else self.total.upper <= self.limit * (1.0 + ROUNDING)

    @property
    def ok(self) -> bool:
        """Whether the log supports what it says, within the limit, and no error stands."""
        checks = (self.supported, self.within_limit)
        return False not in checks and not self.errors and self.chain.bad_line is None

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object; infinite numbers are floats still."""
        claim = self.claim
        return {
            "epsilon": _ends(self.total.epsilon),
            "delta": None if claim is None else claim.delta,
            "unit": None if claim is None else claim.unit,
            "neighbours": None if claim is None else claim.neighbours,
            "observers": [row.to_json() for row in self.rows],
            "claimed": None if claim is None else claim.epsilon,
            "claim": None if claim is None else _claim(claim),
            "supported": self.supported,
            "limit": self.limit,
            "within_limit": self.within_limit,
            "hazards": [hazard.to_json() for hazard in self.hazards],
            "not_stated": list(self.not_stated),
            "rounds": self.spent,
            "released": self.released,
            "dangling": list(self.dangling),
            "planned": self._plan(),
            "groups": [row.to_json() for row in self.groups],
            "left": self.left,
            "complete": self.complete,
            "records": self.chain.records,
            "head": self.chain.head,
        }

    def _plan(self) -> Mapping[str, object]:
        whole = None if self.planned is None else _ends(self.planned.epsilon)
        return {"rounds": self.planned_rounds, "epsilon": whole}


def _claim(claim: Claim) -> dict[str, object]:
    return {
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "unit": claim.unit,
        "neighbours": claim.neighbours,
        "observer": claim.observer,
        "group": claim.group,
    }


def _ends(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}
