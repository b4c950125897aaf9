"""A claim about a run that options or an event describe, as the reading that a check takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .run_files import printed_number
from .sampling import ALLOCATED

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...audit.description.reading import Reading
    from .described_run import DescribedRun

SOURCE: Final = "options"


def reading_of_claim(
    claimed: str, delta: float, neighbours: str, run: DescribedRun | None, event: Event
) -> Reading:
    """Return what is claimed, and of which run; of one that no keys can express, its event.

    Raises `InvalidInput` for a claim that is no number.
    """
    from ...audit.check.checked_run import PRIVPLAN_EVENT
    from ...audit.description.reading import Reading
    from ...audit.description.tables import reading_of_tables

    claim = {"epsilon": printed_number(claimed), "delta": delta, "neighbours": neighbours}
    described = run is not None and run.schedule.sampling != ALLOCATED
    tables: dict[str, Mapping[str, object]] = {"claim": claim}
    if described:
        assert run is not None
        tables |= _tables(run)
    reading = reading_of_tables(tables, SOURCE)
    if described:
        return reading
    return Reading(SOURCE, PRIVPLAN_EVENT, reading.facts, event=event)


def _tables(run: DescribedRun) -> dict[str, Mapping[str, object]]:
    schedule = run.schedule
    tables: dict[str, Mapping[str, object]] = {
        "noise": {"family": run.mechanism, "noise_multiplier": run.noise_multiplier},
        "schedule": {"steps": schedule.rounds},
    }
    method = "full" if schedule.rate == 1.0 else schedule.sampling
    if schedule.records is None:
        return {**tables, "sampling": {"method": method, "rate": schedule.rate}}
    return {
        **tables,
        "data": {"records": schedule.records},
        "sampling": {"method": method, "batch": schedule.batch},
    }
