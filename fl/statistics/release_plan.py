"""The plan of a single release, from which an odometer pays for it and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant.guarantee import Guarantee
from .guarantees import guarantee_of
from .public_terms import PublicTerms, SizedRelease

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
