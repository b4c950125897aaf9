"""The answer of a check: a verdict, what is proven, what reproduces the claim, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...accountant.guarantee import Bounds
from ..description.fact import Fact
from ..description.printed_number import PrintedNumber
from ..reproduction.reproduction import Reproduction

Verdict = Literal["holds", "holds-not-from-these-settings", "unproven", "false", "unverifiable"]
Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Cause:
    """Why a number is wrong or in doubt: a stable `id`, what it does to epsilon, the next step.

    `error`: the claim cannot rest on these facts.  `warning`: it needs a condition that nothing
    shows.  `info`: a fact to keep in mind.
    """

    id: str
    severity: Severity
    says: str
    next_step: str
    epsilon: Bounds | None = None
    """What is proven once the cause is taken into account, where that is another number."""


@dataclass(frozen=True)
class MissingFact:
    """A key that the description lacks and the verdict needs or rests on, as a question."""

    key: str
    asks: str


@dataclass(frozen=True)
class CheckResult:
    """The verdict about one run; `conditions` are the sentences under which it holds."""

    verdict: Verdict
    proven: Bounds | None
    claimed: PrintedNumber | None
    delta: float | None
    reproduced_by: tuple[Reproduction, ...]
    causes: tuple[Cause, ...]
    missing: tuple[MissingFact, ...]
    facts: Mapping[str, Fact]
    conditions: tuple[str, ...] = ()
    alternatives: Mapping[str, Bounds] | None = None
    """Where the sampler is not known: what is proven under each, by `sampling.method`."""
    doubts: tuple[str, ...] = ()
