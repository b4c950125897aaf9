"""What a single release runs under without a folder: its plan, records in memory, costs of fits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import events as ev
from ...accountant import records
from ...accountant.arrays import FloatArray
from ...accountant.errors import Unsupported, counted
from ...accountant.guarantee import Guarantee
from .guarantees import guarantee_of
from .public_terms import PublicTerms, SizedRelease
from .statistics import ReleasedStatistics

if TYPE_CHECKING:
    from ...accountant.odometer.plan_ledger import ReleasePlan


PHASE: Final = "release"
"""The name of its only phase."""


def release_plan(terms: PublicTerms, release: SizedRelease) -> ReleasePlan:
    """Return the plan of a single release, as each observer sees it."""
    guarantees = {
        who: guarantee_of(event, terms.delta, terms.neighbours, terms.unit, who)
        for who, event in release.views.items()
    }
    return _OneRelease((_PlannedRelease(release.views["model"]),), guarantees, release.views)


@dataclass(frozen=True)
class _PlannedRelease:
    """The only phase of a plan: one release."""

    event: ev.Event
    name: str = PHASE
    events: int = 1
    counted: int | None = None


@dataclass(frozen=True)
class _OneRelease:
    """A plan of one release (`odometer.plan_ledger.ReleasePlan`)."""

    phases: tuple[_PlannedRelease, ...]
    guarantees: Mapping[str, Guarantee]
    views: Mapping[str, ev.Event]

    def seen_by(self, observer: str, rounds: Sequence[int] | None = None) -> ev.Event:
        """Return what an observer sees of the release, or of nothing."""
        return ev.Compose(()) if rounds is not None and not rounds[0] else self.views[observer]


class MemoryRecords:
    """Records in their order (`lines`); nothing can be sealed."""

    def __init__(self) -> None:
        self.lines: list[records.Record] = []

    def append(self, record: records.Record) -> int:
        """Keep a record, and return its place."""
        self.lines.append(record)
        return len(self.lines) - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Raise `Unsupported`: there is no sidecar."""
        raise Unsupported(
            "Nothing is sealed without a sidecar.",
            f"{len(items)} items would be lost.",
            "Give a `recorder`.",
        )

    def settle(self) -> None:
        """Do nothing: all is kept."""


@dataclass
class FitCosts:
    """The fits that were made from the last of `releases` releases; `record` is told of each.

    `record` takes the name of a fit, its public settings and the SHA-256 of its result.
    """

    releases: int = 0
    record: Callable[[str, Mapping[str, object], str], object] | None = None
    fits: list[str] = field(default_factory=list)

    def fit(
        self,
        name: str,
        settings: Mapping[str, object],
        result: FloatArray,
        released: ReleasedStatistics,
    ) -> str:
        """Note a fit and its result, and return what it cost, in a sentence."""
        if self.record is not None:
            digest = hashlib.sha256(np.ascontiguousarray(result, "<f8").tobytes()).hexdigest()
            self.record(name, settings, digest)
        self.fits.append(name)
        if len(self.fits) == 1:
            return f"{name} is computed from {self._release(released)}; the fit itself is free."
        first = self.fits[0]
        return f"{name} is computed from the same release as {first} and costs nothing more."

    def sentence(self, released: ReleasedStatistics | None) -> str:
        """Return what was spent so far."""
        if released is None:
            return "Nothing has been released, and nothing spent."
        fits = counted(len(self.fits), "fit")
        spent = f"Spent on {self._release(released)}; {fits} from it cost nothing more."
        if self.releases < 2:
            return spent
        return f"{spent}  What the {self.releases - 1:,} before it cost was spent as well."

    def _release(self, released: ReleasedStatistics) -> str:
        proven = released.guarantee
        number = f"release {self.releases:,}" if self.releases > 1 else "one release"
        return (
            f"{number} with {released.family} noise: epsilon {proven.epsilon.upper:.4g} at delta "
            f"{proven.delta.upper:.3g} for one {proven.unit} ({proven.neighbours}), before "
            f"{proven.observer!r}"
        )
