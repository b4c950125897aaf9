"""What an audit of a budget found: claimed and proven side by side, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...accountant.errors import counted
from ...accountant.guarantee import Bounds
from ...accountant.records import Claim
from ...accountant.rounding import EXACT_DIGITS, up
from ...fl.log.reader import UNBEGUN
from ...fl.observers.names import DEFAULT_OBSERVERS, observer_fields
from ...fl.observers.words import phrase
from ..evidence.epsilon_total import EpsilonTotal

if TYPE_CHECKING:
    from ..findings import Finding
    from ..hazards.sealed import SealedCheck
    from ..verify import Checked, Signature

CLAIM_ROUNDING_RELATIVE: Final = 1e-9
"""Relative excess over a claim or a limit that rounding explains."""


@dataclass(frozen=True)
class Row:
    """What the log supports before one observer, and what its last line states there.

    `rests_on` is what the number supposes beyond clip, noise and sample; of the other silos' noise
    that of `dropouts` may be missing.
    """

    observer: str
    total: EpsilonTotal
    stated: float | None
    dropouts: int = 0
    rests_on: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the row as a JSON object."""
        return {
            **observer_fields(self.observer, self.dropouts),
            "epsilon": _ends(self.total.epsilon),
            "engine": self.total.engine,
            "checks": list(self.total.checks),
            "refused": self.total.refusal or None,
            "stated": self.stated,
            "rests_on": list(self.rests_on),
        }


@dataclass(frozen=True)
class WorstRow:
    """The worst of `named` rows that a verdict is about: `below` of them have a smaller number.

    An observer that was asked for and has no row of its own is judged by the row that covers it.

    `beyond` are rows that the verdict is not about, with a larger one.
    """

    row: Row
    below: int
    named: int
    beyond: tuple[Row, ...]

    @property
    def text(self) -> str:
        """The worst number in words, of how many, how many have it too, and what lies above."""
        words, same = _numbered(self.row), self.named - 1 - self.below
        if self.named > 1:
            words += f", of {self.named:,} observers asked for"
        if same:
            words += f"; {counted(same, 'other')} {'has' if same == 1 else 'have'} the same"
        if self.beyond:
            rows = "; ".join(map(_numbered, self.beyond))
            words += f"; worse, and not asked for: {rows}"
        return words

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            **observer_fields(self.row.observer, self.row.dropouts),
            "epsilon": _ends(self.row.total.epsilon),
            "below": self.below,
            "of": self.named,
            "beyond": [observer_fields(row.observer, row.dropouts) for row in self.beyond],
        }


def _judged_by(observer: str, present: Sequence[str]) -> str:
    """Return whose row tells of an observer: who holds records has one where it learns more."""
    return observer if observer in present else observer.removesuffix("-with-records")


def _numbered(row: Row) -> str:
    """Return a row's number, and whom it is before."""
    upper = row.total.upper
    number = "no guarantee" if math.isinf(upper) else f"epsilon {up(upper, EXACT_DIGITS)}"
    return f"{number} before {phrase(row.observer, row.dropouts)}"


@dataclass(frozen=True)
class GroupRow:
    """What the log supports for a unit of several of what it protects."""

    size: int
    total: EpsilonTotal

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
    """The log as a chain: how many good records, the last hash, the first bad line and why.

    `checked` says against what it was held and fits (a head that is not the last: `up_to` which
    line), `signature` who signed it.
    """

    records: int
    head: str | None
    bad_line: int | None = None
    reason: str = ""
    checked: Checked = "chain only"
    signature: Signature | None = None
    up_to: int | None = None

    @property
    def unbegun(self) -> bool:
        """Whether the log has no record: then line 1 is bad as it is missing."""
        return self.reason == UNBEGUN


@dataclass(frozen=True)
class BudgetReport:
    """What the facts of a log support, for whom, and how that compares with what it says.

    `total` is before the observer of the claim, `planned` the same with all that was planned.
    `spent` counts rounds that were begun.  `left` is how many more rounds like the last one fit
    in the limit, else in the claim; None where that was not asked or is not known.  `relief` says
    what makes numbers rest on less, `observers` are those whose numbers the verdict is about.
    `not_stated` are facts that some rule needs and this log, or this installation, does not have:
    what rests on them is neither right nor wrong.  `sealed` is how much of the sidecar was tested;
    None where it was not opened.  `derived` counts what was computed later of what was released,
    at no cost; `paid_ahead` how many of the rounds that are `left` the last block has paid for.
    Where a run that was cut off at the end of this log could not be resumed, `resumable` is False.
    `study` says who was dealt at random, and is no real unit.
    """

    chain: Chain
    claim: Claim | None
    total: EpsilonTotal
    planned: EpsilonTotal | None
    rows: tuple[Row, ...]
    groups: tuple[GroupRow, ...]
    hazards: tuple[Finding, ...]
    spent: int
    released: int
    planned_rounds: int
    dangling: tuple[int, ...]
    complete: bool
    limit: float | None
    left: int | None
    assumptions: tuple[str, ...]
    relief: tuple[str, ...] = ()
    observers: tuple[str, ...] = DEFAULT_OBSERVERS
    not_stated: tuple[str, ...] = ()
    sealed: SealedCheck | None = None
    derived: int = 0
    paid_ahead: int = 0
    resumable: bool = True
    study: str = ""

    @property
    def worst(self) -> WorstRow | None:
        """The worst row of the observers that the verdict is about; None where there is no row."""
        present = [row.observer for row in self.rows]
        judged = {_judged_by(name, present) for name in self.observers}
        named = [row for row in self.rows if row.observer in judged]
        if not named:
            return None
        worst = max(named, key=lambda row: row.total.upper)
        upper = worst.total.upper
        below = sum(row.total.upper < upper * (1.0 - CLAIM_ROUNDING_RELATIVE) for row in named)
        above = [
            row for row in self.rows if row.total.upper > upper * (1.0 + CLAIM_ROUNDING_RELATIVE)
        ]
        return WorstRow(worst, below, len(named), tuple(above))

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
        return upper < math.inf and upper <= self.claim.epsilon * (1.0 + CLAIM_ROUNDING_RELATIVE)

    @property
    def errors(self) -> tuple[str, ...]:
        """The ids of hazards that are errors."""
        return tuple(hazard.id for hazard in self.hazards if hazard.severity == "error")

    @property
    def within_limit(self) -> bool | None:
        """Whether the limit is kept; None where none was given."""
        return (
            None
            if self.limit is None
            else self.total.upper <= self.limit * (1.0 + CLAIM_ROUNDING_RELATIVE)
        )

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
            "worst": None if self.worst is None else self.worst.to_json(),
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
            "checked": self.chain.checked,
            "up_to": self.chain.up_to,
            "signature": None if self.chain.signature is None else self.chain.signature.to_json(),
            "sealed": None if self.sealed is None else self.sealed.to_json(),
            "derived": self.derived,
            "study": self.study or None,
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
