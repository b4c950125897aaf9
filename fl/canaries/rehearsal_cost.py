"""Rough estimates of the work of a rehearsal: right to hours, not to minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from ..declarations.registry import declaration_or_none

if TYPE_CHECKING:
    from ..settings.schema import Settings


USUAL_ROW_CANARIES: Final = 1_000
"""Canaries of a system without training whose declaration names no number."""


class Work(Protocol):
    """The function that estimates a round's work; a declaration names it as `canary_work`."""

    def __call__(self, settings: Settings, silos: int, canaries: int, /) -> int:
        """Return about how many steps of half a microsecond a round takes."""


def mask_pairs(settings: Settings, silos: int) -> int:
    """Return how many pairs of silos share a mask in a round; in the clear, how many silos send."""
    return silos if settings.security.aggregation == "plain" else silos**2


def usual_work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round in which all canaries go through together."""
    # A pair of silos costs about as much as a thousand canaries in one silo.
    return 1_000 * mask_pairs(settings, silos) + canaries * silos


def work_of(settings: Settings) -> Work:
    """Return the function that estimates a round's work under these settings."""
    declaration = declaration_or_none(settings.run.system)
    if declaration is None or declaration.canary_work is None:
        return usual_work
    return cast("Work", declaration.load(declaration.canary_work))


def usual_canaries(settings: Settings) -> int | None:
    """Return how many canaries suit a system where one costs more than usual; None elsewhere."""
    declaration = declaration_or_none(settings.run.system)
    usual = None if declaration is None else declaration.canaries
    if declaration is not None and usual is None and not declaration.trains:
        return USUAL_ROW_CANARIES
    if usual is None or isinstance(usual, int):
        return usual
    return usual.get(settings.security.aggregation)
