"""`privplan.check`: files, tables, events and facts in, a verdict out."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.events import Event, from_dp_event
from ..description.reading import Reading
from ..description.tables import reading_of_names, reading_of_tables
from .check_result import CheckResult
from .checked_run import PRIVPLAN_EVENT
from .checking import check_readings

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

DP_EVENT_FORMAT: Final = "dp_accounting event"
CALL: Final = "the call"
EVENT: Final = "the event"

Source = str | PathLike[str] | Mapping[str, object] | Event | Reading
"""What a run can be described by; events of dp_accounting as well."""


def check(
    *sources: Source | DpEvent,
    claimed: object = None,
    delta: object = None,
    **facts: object,
) -> CheckResult:
    """Return whether the epsilon that is said of a run holds, and why, if it does not.

    `sources` describe one run together: paths of files, tables as a description file has them
    (`{"noise": {"noise_multiplier": 1.3}}`), events of privplan or of dp_accounting.  `claimed`
    is the epsilon that is said, at `delta`; a `decimal.Decimal` is open by its last digit,
    everything else is exact.  `facts` are the keys of a description by their last part, such as
    `method="poisson"` and `records=60000`; they stand before what files say.

    Raises `InvalidInput` for what cannot be read, unknown keys, and values out of range.

    >>> result = check(
    ...     claimed=1.0, delta=1e-5, noise_multiplier=1.3, records=60000, batch=256, epochs=15,
    ...     method="poisson",
    ... )
    >>> result.verdict, round(result.proven.upper, 3)
    ('holds', 0.865)
    """
    readings = [_reading(source) for source in sources]
    said = dict(facts)
    if claimed is not None:
        said["claim.epsilon"] = claimed
    if delta is not None:
        said["claim.delta"] = delta
    if said:
        readings.append(reading_of_names(said, CALL))
    if not readings:
        raise InvalidInput(
            "Nothing is given to check.", next_step="Give a file, an event, or the facts of a run."
        )
    return check_readings(readings)


def _reading(source: object) -> Reading:
    """Return what one source says of the run."""
    if isinstance(source, Reading):
        return source
    if isinstance(source, Event):
        return event_reading(source, PRIVPLAN_EVENT)
    if isinstance(source, Mapping):
        return reading_of_tables(source, CALL)
    if isinstance(source, (str, PathLike)):
        from ..readers.recognition import read_file

        return read_file(Path(source))
    if _is_dp_event(source):
        return event_reading(from_dp_event(source), DP_EVENT_FORMAT)
    raise InvalidInput(
        f"A source must be a path, a table or an event; it is {kind_of(source)}.",
        next_step="Give the path of a file, or the event that was composed.",
    )


def _is_dp_event(source: object) -> bool:
    return any(cls.__name__ == "DpEvent" for cls in type(source).__mro__)


def event_reading(event: Event, format: str) -> Reading:
    """Return the reading of an event that a caller gives."""
    return Reading(EVENT, format, {}, (), event)
