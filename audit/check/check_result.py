"""The answer of a check: a verdict, what is proven, what reproduces the claim, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...accountant.guarantee import Bounds
from ..description.merging import OVERRIDDEN
from ..description.printed_number import PrintedNumber
from ..description.run_description import Fact
from ..findings import Finding
from ..reproduction.reproduction import Reproduction
from .checked_run import Currency
from .claim_status import DecidingCompletion
from .conventions import Convention

Verdict = Literal["holds", "holds-not-from-these-settings", "unproven", "false", "unverifiable"]


@dataclass(frozen=True)
class MissingFact:
    """A key that the description lacks, as a question; `deciding` where the verdict waits for it.

    All others are what the verdict takes to be as usual.
    """

    key: str
    asks: str
    deciding: bool = False


@dataclass(frozen=True)
class CheckResult:
    """The verdict about one run; `conditions` are the sentences under which it holds.

    `proven` are the bounds on the claimed quantity, `currency`, under the relation of the facts,
    assumed or not.  `by_sampler` says what each sampler would mean where none is stated.
    """

    verdict: Verdict
    proven: Bounds | None
    claimed: PrintedNumber | None
    delta: float | None
    reproduced_by: tuple[Reproduction, ...]
    causes: tuple[Finding, ...]
    missing: tuple[MissingFact, ...]
    facts: Mapping[str, Fact]
    conditions: tuple[str, ...] = ()
    alternatives: Mapping[str, Bounds] | None = None
    """Where the sampler is not known: what is proven under each, by `sampling.method`."""
    doubts: tuple[str, ...] = ()
    currency: Currency = "epsilon"
    by_sampler: tuple[str, ...] = ()
    headline: str = ""
    """The verdict in one sentence."""
    of_log: bool = False
    """Whether the run is one of privplan's own, with the verdict of its budget audit."""
    lacks: str = ""
    """Why there is no upper end, where there is none."""
    class_lower: float = 0.0
    """Where the run names a class of mechanisms by stated numbers: the lower end for the worst."""
    conventions: tuple[Convention, ...] = ()
    """What nobody mentioned, and what the verdict therefore takes to be so."""
    completions: tuple[DecidingCompletion, ...] = ()
    """Where runs that the description allows disagree about the claim: those runs."""
    settled_by: str = ""
    """Up to which count of steps the claim holds, where that alone decides."""
    unit_is_open: bool = False
    """Whether the verdict is about a record and about a user, as nobody said which."""
    other_claims: tuple[CheckResult, ...] = ()
    """The verdicts about the same run in other currencies that it claims a number of."""

    @property
    def only_rounded(self) -> bool:
        """Return whether the claim holds by the rounding of its last digit alone."""
        if self.claimed is None or self.proven is None or not self.verdict.startswith("holds"):
            return False
        return self.claimed.value < self.proven.upper

    @property
    def overridden(self) -> tuple[str, ...]:
        """Return the sentences about what an option says in the place of a file."""
        return tuple(each for each in self.doubts if OVERRIDDEN in each)

    @property
    def deciding(self) -> tuple[MissingFact, ...]:
        """Return the missing facts that the verdict waits for."""
        return tuple(each for each in self.missing if each.deciding)

    def __str__(self) -> str:
        """Return the verdict in words, with the ids of its causes."""
        causes = "; ".join(f"{each.severity} {each.id}" for each in self.causes)
        words = self.headline or self.verdict
        return f"{words} ({causes})" if causes else words
