"""Is the claim the number of these settings?  What reproduces it, here or next to here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import PrivplanError
from ..description.run_settings import RunSettings
from ..reproduction.matching import is_target
from ..reproduction.reproduction import Reproduction, with_few_phases
from ..reproduction.search import common_accountants, neighbourhood, same_settings
from .checked_run import CheckedRun
from .claim_status import ClaimStatus

MOST_RECOMPUTED: Final = 8
"""How many of the runs that a description allows are asked for the number."""

MOST_RECOMPUTED_PHASES: Final = 100
"""How many phases these runs have together at most: each costs some ten milliseconds."""


@dataclass(frozen=True)
class Recomputation:
    """What reproduces a claim: with the `same` settings, or else with settings `near` them.

    `comparable` says whether any common accountant has an answer for these settings at all; none
    has where something else was released besides the sums.
    """

    same: tuple[Reproduction, ...] = ()
    near: tuple[Reproduction, ...] = ()
    comparable: bool = False


def recompute(
    run: CheckedRun, stands: ClaimStatus, allowed: tuple[RunSettings, ...] = ()
) -> Recomputation:
    """Return what reproduces the claim of a run; nothing for claims of rho or mu.

    `allowed` are the settings of all runs that the description allows: the number may be of any.

    A round number that holds was chosen beforehand: what else gives it would be chance.
    """
    claim, settings = run.claim, with_few_phases(run.settings)
    if claim is None or run.currency != "epsilon" or run.event is not None or claim.value == 0.0:
        return Recomputation()
    if settings is None:  # more different phases than values can be computed from in seconds
        return Recomputation()
    same = _matches(lambda: same_settings(settings, claim))
    for other in () if same else _recomputed(allowed):
        same = _matches(lambda other=other: same_settings(other, claim))  # type: ignore[misc]
        if same:
            break
    if same:
        return Recomputation(same, (), True)
    comparable = not settings.releases and bool(_matches(lambda: common_accountants(settings)))
    if stands == "holds" and is_target(claim):
        return Recomputation((), (), comparable)
    near = _matches(lambda: neighbourhood(settings, claim, accountant=run.accountant))
    return Recomputation((), near, comparable)


def _recomputed(allowed: tuple[RunSettings, ...]) -> Iterator[RunSettings]:
    """Yield settings that may be asked for the number, as long as few phases are asked about."""
    phases = 0
    for settings in allowed[:MOST_RECOMPUTED]:
        few = with_few_phases(settings)
        phases += 0 if few is None else len(few.phases)
        if few is not None and phases <= MOST_RECOMPUTED_PHASES:
            yield few


def _matches(search: Callable[[], tuple[Reproduction, ...]]) -> tuple[Reproduction, ...]:
    """Return what a search gives; nothing where it breaks down at numbers beyond all use."""
    # No verdict rests on a recomputation, and what cannot be computed was printed by nobody.
    try:
        return search()
    except (PrivplanError, ArithmeticError, ValueError, IndexError):
        return ()
