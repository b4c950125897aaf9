"""The tiers of an attack: functions that are imported at their first call, and rehearsal sizes.

A log is a stranger's, and could ask for work without end.  What a rehearsal costs is estimated
from the settings, roughly: to hours, not to minutes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput
from ...fl.canaries.rehearsal_settings import usual_canaries, work_of
from ...fl.settings.schema import Settings
from ..measurement import Measurement


@dataclass(frozen=True)
class TierFunctions:
    """The functions of the tiers: `default` has those of this package, a test may pass others."""

    rehearse: Callable[..., Any]
    claim: Callable[..., Measurement]
    robust: Callable[..., Measurement]
    residual: Callable[..., Sequence[Measurement]]
    membership: Callable[..., Sequence[Measurement]]
    seal: Callable[[Path, Sequence[Measurement]], Path]

    @classmethod
    def default(cls) -> TierFunctions:
        """Return this package's own functions."""
        return cls(
            rehearse=_imported_at_call("canaries", "rehearse"),
            claim=_imported_at_call("canaries", "claim_tier"),
            robust=_imported_at_call("canaries", "robust_tier"),
            residual=_imported_at_call("residual", "residual_tier"),
            membership=_imported_at_call("attack_methods.membership", "membership_tier"),
            seal=_imported_at_call("residual", "write_sealed_report"),
        )


def _imported_at_call(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a sibling module, which is imported by the first call."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f"..{module}", __package__), name)(*args, **options)

    return call


DEFAULT_CANARIES: Final = 50_000
"""How many canaries are used unless told otherwise, where one rehearsal carries all of them."""

MIN_CANARIES: Final = 40
"""To how few they are cut down where there is much to rehearse; fewer would show nothing."""

MAX_REHEARSED_SILOS: Final = 1_000
"""Most silos: a plan holds a table of their pairs."""

MAX_CANARIES_TIMES_SILOS: Final = 2 * 10**7
"""Most canaries x silos that are held at once."""

MAX_DEFAULT_WORK: Final = 10**9
"""Most work without a number of canaries, in steps of about half a microsecond: some minutes."""

MAX_REQUESTED_WORK: Final = 10 * MAX_DEFAULT_WORK
"""Most work with one."""


MAX_REPLICA_WORK: Final = 10**9
"""Most rounds x local epochs x (users + overhead) of a run that is trained again: about a day."""

ROUND_OVERHEAD_USERS: Final = 1_000
"""What a round costs besides its users, as so many of them."""


def canary_count(
    settings: Settings, silos: int, *, rounds: int | None, requested: int | None
) -> int:
    """Return how many canaries are used: as many as are requested, or as many as suit the system.

    `rounds` are those that are rehearsed (None, or more than planned: all).  Raises `InvalidInput`
    for more work than anybody can have meant.
    """
    rehearsed = min(settings.run.rounds, rounds or settings.run.rounds)
    if silos > MAX_REHEARSED_SILOS:
        raise InvalidInput(
            f"{silos:,} silos are too many to rehearse.",
            f"At most {MAX_REHEARSED_SILOS:,} are: the plan of a run holds a table of their pairs.",
            "Audit the log without an attack: privplan audit budget DIR",
        )
    usual = min(DEFAULT_CANARIES, usual_canaries(settings) or DEFAULT_CANARIES)
    canaries, most = (
        (usual, MAX_DEFAULT_WORK) if requested is None else (requested, MAX_REQUESTED_WORK)
    )
    # Halve a default number until it fits; a requested one is refused as it is.
    while not _fits(settings, silos, rehearsed, canaries, most):
        canaries //= 2
        if requested is not None or canaries < MIN_CANARIES:
            shown = MIN_CANARIES if requested is None else requested
            raise InvalidInput(
                f"{shown:,} canaries in {rehearsed:,} rounds of {silos:,} silos are too many.",
                "Each is seen in every round, and this would take a machine hours, or its memory.",
                "Give fewer `rounds`, or fewer `canaries`.",
            )
    return canaries


def require_feasible(settings: Settings, silos: int) -> None:
    """Raise `InvalidInput` where replicas of the run would take a machine days."""
    work = (
        settings.run.rounds
        * settings.training.local_epochs
        * (settings.data.users + ROUND_OVERHEAD_USERS)
    )
    if silos > MAX_REHEARSED_SILOS or work > MAX_REPLICA_WORK:
        raise InvalidInput(
            "The run is too long to be made again many times.",
            "Membership trains 64 replicas of it, with all rounds and local epochs of its log.",
            "Leave the tier out.",
        )


def _fits(settings: Settings, silos: int, rounds: int, canaries: int, most: int) -> bool:
    work = rounds * work_of(settings)(settings, silos, canaries)
    return canaries * silos <= MAX_CANARIES_TIMES_SILOS and work <= most
