"""`privplan.check`: files, tables, events and facts in, a verdict out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.events import Event, from_dp_event
from ..description.keys import DOTTED, KEYS, TABLES
from ..description.run_description import Reading
from ..description.tables import RELEASES, reading_of_names, reading_of_tables
from .check_result import CheckResult
from .checked_run import PRIVPLAN_EVENT
from .checking import check_readings

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

DP_EVENT_FORMAT: Final = "dp_accounting event"
CALL: Final = "the call"
EVENT: Final = "the event"
STATE: Final = "the state"

Source = str | PathLike[str] | Mapping[str, object] | Event | Reading
"""What a run can be described by; events of dp_accounting as well."""


def check(
    *sources: Source | DpEvent,
    claimed: object = None,
    delta: object = None,
    strict: bool = False,
    **facts: object,
) -> CheckResult:
    """Return whether the epsilon that is said of a run holds, and why, if it does not.

    `sources` describe one run together: paths of files, tables as a description file has them
    (`{"noise": {"noise_multiplier": 1.3}}`), the `state_dict()` of an accountant, events of
    privplan or of dp_accounting.  An event of dp_accounting says what an accountant was told, so
    the sampler that ran is a fact with it: `method="poisson"`.  `facts` are the keys of a
    description by their last part, such as `records=60000`.  A fact that differs from what a
    source says is a contradiction, and leaves the verdict open.

    `claimed` is the epsilon that is said, at `delta`.  A `float` is exact, since it has no last
    digit: `claimed=1.13` is what `"1.13"` in quotes is in a file.  `decimal.Decimal("1.13")` is
    open by half its last digit, as `--claimed 1.13` and an unquoted 1.13 in a file are.

    A description stands for every run that it allows: the verdict is about all of them, and what
    nobody mentions falls under `conventions`.  `strict` opens these as well.

    Raises `InvalidInput` for what cannot be read, unknown keys, and values out of range.

    >>> result = check(
    ...     claimed=1.0, delta=1e-5, noise_multiplier=1.3, records=60000, batch=256, steps=3516,
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
    return check_readings(readings, strict=strict)


def _reading(source: object) -> Reading:
    """Return what one source says of the run."""
    from ..readers.dp_accounting_events import event_reading

    if isinstance(source, Reading):
        return source
    if isinstance(source, Event):
        return event_reading(source, EVENT, PRIVPLAN_EVENT)
    if isinstance(source, Mapping):
        return _of_mapping(source)
    if isinstance(source, (str, PathLike)):
        from ..readers.recognition import read_file

        return read_file(Path(source))
    if _is_dp_event(source):
        told = {"claim.library": "dp_accounting"}
        return event_reading(from_dp_event(source), EVENT, DP_EVENT_FORMAT, told)
    raise InvalidInput(
        f"A source must be a path, a table or an event; it is {kind_of(source)}.",
        next_step="Give the path of a file, or the event that was composed; several sources one "
        "by one: check(*paths).",
    )


def _of_mapping(source: Mapping[str, object]) -> Reading:
    """Return what tables say, or what a state says that a library would save as JSON."""
    from ..readers.recognition import read_content

    if source and not set(source) & {*TABLES, RELEASES} and _is_state(source):
        return read_content(json.dumps(dict(source)).encode(), STATE)
    return reading_of_tables(source, CALL)


def _is_state(source: Mapping[str, object]) -> bool:
    """Return whether a mapping can be JSON, and holds more than keys of a description."""
    if any(key in DOTTED or key in KEYS for key in source):
        return False
    try:
        json.dumps(dict(source))
    except (TypeError, ValueError, RecursionError):
        return False
    return any(isinstance(value, (list, tuple, Mapping)) for value in source.values())


def _is_dp_event(source: object) -> bool:
    return any(cls.__name__ == "DpEvent" for cls in type(source).__mro__)
