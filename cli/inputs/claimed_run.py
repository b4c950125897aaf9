"""A claim about a run that options or an event describe, as the reading that a check takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .run_files import printed_number
from .sampling import ALLOCATED, REPLACED, SHUFFLED

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...audit.description.run_description import Reading
    from .described_run import DescribedRun

SOURCE: Final = "options"
DEFAULT: Final = "the default of the command"


@dataclass(frozen=True)
class TypedFacts:
    """What of a claim somebody typed, rather than a default that stood in."""

    delta: bool
    neighbours: bool
    sampling: bool


def reading_of_claim(
    claimed: str,
    delta: float,
    neighbours: str,
    run: DescribedRun | None,
    event: Event,
    typed: TypedFacts,
) -> Reading:
    """Return what is claimed, and of which run; of one that no keys can express, its event.

    A default that nobody typed is an assumption, and a sampler that nobody typed is not said at
    all.  Raises `InvalidInput` for a claim that is no number.
    """
    from ...audit.check.checked_run import PRIVPLAN_EVENT
    from ...audit.description.run_description import Reading
    from ...audit.description.tables import checked_fact, reading_of_tables

    tables: dict[str, Mapping[str, object]] = {"claim": {"epsilon": printed_number(claimed)}}
    described = run is not None and run.schedule.sampling != ALLOCATED
    if described:
        assert run is not None
        tables |= _tables(run, typed)
    facts = dict(reading_of_tables(tables, SOURCE).facts)
    for key, value, was_typed in (
        ("claim.delta", delta, typed.delta),
        ("claim.neighbours", neighbours, typed.neighbours),
    ):
        if was_typed:
            facts[key] = checked_fact(key, value, "stated", SOURCE)
        else:
            facts[key] = checked_fact(key, value, "assumed", DEFAULT)
    if described:
        return Reading(SOURCE, "description", facts)
    return Reading(SOURCE, PRIVPLAN_EVENT, facts, event=event)


def _tables(run: DescribedRun, typed: TypedFacts) -> dict[str, Mapping[str, object]]:
    schedule = run.schedule
    tables: dict[str, Mapping[str, object]] = {
        "noise": {"family": run.mechanism, "noise_multiplier": run.noise_multiplier},
        "schedule": {"steps": schedule.rounds},
    }
    sampling: dict[str, object] = {}
    if schedule.rate == 1.0 and schedule.sampling != REPLACED:
        sampling["method"] = "full"
    elif typed.sampling:
        sampling["method"] = schedule.sampling
    if schedule.records is None:
        return {**tables, "sampling": {**sampling, "rate": schedule.rate}}
    if schedule.sampling == SHUFFLED and schedule.rate < 1.0:
        # Whole passes, as they are accounted: steps of a last one that is cut short count as one.
        tables["schedule"] = {"epochs": schedule.repeats}
    elif schedule.passes and schedule.batch:
        whole = -(-schedule.passes * schedule.records // schedule.batch) == schedule.rounds
        passes = {"epochs": schedule.passes} if whole else {}
        tables["schedule"] = {"steps": schedule.rounds, **passes}
    return {
        **tables,
        "data": {"records": schedule.records},
        "sampling": {**sampling, "batch": schedule.batch},
    }
