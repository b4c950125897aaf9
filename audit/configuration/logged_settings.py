"""The settings of a run, out of its log: read as a stranger's, and held against what it promised.

A log says how its run was configured and what it promises.  An attack repeats the first and judges
the second, so where they do not belong together there is nothing to attack.  Paths and keys never
stand in a log, so none is taken from there.

A log should announce the rounds, and promise the epsilon, of its settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.decoding import field_types
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.records import RunOpen
from ...fl.declarations.registry import declaration_of, exactly_named
from ...fl.declarations.toml_keys import UNLOGGED_KEYS
from ...fl.observers.names import SILO, SILO_WITH_RECORDS
from ...fl.running.resumption import require_same_settings
from ...fl.settings.logged_tables import idle_tables, is_of_loop, tables_in
from ...fl.settings.schema import NO_TRAINING, Settings
from ...fl.settings.toml_file import content_of, parse
from .first_line import CONFIG_FILE, compare_with_file, sentence_of
from .logged_configuration import in_range, logged_value, refused


@exactly_named()
def settings_in(opened: RunOpen) -> Settings:
    """Return the settings under which a run was opened, checked key by key.

    They lack what never reaches a log (`fl.declarations.toml_keys.UNLOGGED_KEYS`).  Whether the log
    keeps to them is the question of `comparison`.  Raises `InvalidInput`, naming the key, for a
    configuration that is missing, incomplete, of a newer version or out of range.
    """
    if not opened.configuration:
        raise refused("The log does not say how its run was configured.")
    if is_of_loop(opened):
        raise Unsupported(
            "The log is of a training loop that privplan did not run, so nothing can be rehearsed.",
            "Canaries have to be in the training itself, and none were put into this one.",
            "Train with pp.logged(engine, folder, plan=plan, canaries=1000). For counts of another "
            "audit: privplan audit counts.",
        )
    tables = tables_in(opened.configuration)
    idle = idle_tables(opened.configuration)
    unknown = sorted(name for name in opened.configuration if name not in (*tables, *idle))
    if unknown:
        raise refused(f"The log's configuration has an unknown table {unknown[0]!r:.60}.")
    read = {
        name: _table(name, cls, opened.configuration.get(name, {}), opened)
        for name, cls in tables.items()
    }
    try:
        system = declaration_of(read["run"].system)
    except InvalidInput as error:
        raise refused(f"In [run] of the log's configuration: {error.what}") from None
    special = None if system.table is None else read.pop(system.table.name)
    return Settings(**{"training": NO_TRAINING, **read}, table=special)


@exactly_named()
def require_same_file(folder: Path, opened: RunOpen) -> None:
    """Raise `InvalidInput` where a folder's own configuration is not that of its log."""
    file = folder / CONFIG_FILE
    if file.is_file():
        kept = parse(content_of(file, within=folder), CONFIG_FILE)
        require_same_settings(opened, kept.to_json())
        differences = compare_with_file(folder, opened).differences
        if differences:
            raise refused(
                sentence_of(differences), "One of them was edited, or they are of two runs."
            )


@exactly_named()
def path_in(folder: Path) -> Path | None:
    """Return the path of the data that a folder's configuration names, if any; nothing is read."""
    file = folder / CONFIG_FILE
    if not file.is_file():
        return None
    return parse(content_of(file, within=folder), CONFIG_FILE).data.path


def _table(name: str, cls: type[Any], source: object, opened: RunOpen) -> Any:
    assert is_dataclass(cls)
    if not isinstance(source, Mapping):
        raise refused(f"[{name}] of the log's configuration is no table.")
    known = {item.name: item for item in fields(cls) if item.name not in UNLOGGED_KEYS}
    unknown = sorted(str(key) for key in source if key not in known)
    if unknown:
        raise refused(f"The log's configuration has an unknown key {unknown[0]!r:.60} in [{name}].")
    hints = field_types(cls)
    given: dict[str, Any] = {}
    for key, item in known.items():
        if key in source:
            given[key] = logged_value(f"[{name}] {key}", source[key], hints[key])
            in_range(name, key, given[key], opened)
        elif item.default is MISSING:
            raise refused(f"The log's configuration lacks `{key}` in [{name}].")
    return cls(**given)


EPSILON_TOLERANCE_BETWEEN_MACHINES: Final = 1e-6
"""How much two machines may differ in the same epsilon, of it."""


def require_same_event(
    event: ev.Event | None, opened: RunOpen, observer: str, *, cut: bool
) -> None:
    """Raise `InvalidInput` unless what was rehearsed is what the log announces to an observer.

    `event` is what the observer was promised to see of the rehearsal, None where nothing is: then
    the log may announce nothing that proves anything.  With `cut` it may be of fewer rounds, and of
    the training without what is released before it.
    """
    planned = opened.plan.events.get(observer)
    if event is None or planned is None:
        fits = event is None and (planned is None or math.isinf(_proven(planned, opened)))
        if not fits:
            raise _announced(observer)
        return
    rehearsed, announced = _counted(event), _counted(planned)
    fits = rehearsed == announced or _of_any_silo(event, opened, observer)
    # Fewer rounds were rehearsed: each part must occur at most as often as it is announced.
    if cut and not fits:
        fits = rehearsed[0] == announced[0] and all(
            count <= announced[1].get(part, 0) for part, count in rehearsed[1].items()
        )
    if not fits:
        raise _announced(observer)


def announced_in_full(event: ev.Event | None, opened: RunOpen, observer: str) -> bool:
    """Return whether what was rehearsed is all that the log announces to an observer."""
    planned = opened.plan.events.get(observer)
    return event is not None and planned is not None and _counted(event) == _counted(planned)


def _of_any_silo(event: ev.Event, opened: RunOpen, observer: str) -> bool:
    """Return whether a log announces no less, by one number for silos with and without the unit.

    Earlier versions did where weights are by records in the clear; one without is rehearsed.
    """
    training = opened.configuration.get("training")
    rule = training.get("weighting") if isinstance(training, Mapping) else None
    both = observer == SILO and rule == "records" and SILO_WITH_RECORDS not in opened.plan.events
    return both and _proven(event, opened) <= _proven(opened.plan.events[observer], opened)


def require_same_epsilon(claimed: float | None, opened: RunOpen, *, cut: bool) -> None:
    """Raise `InvalidInput` where a log promises less epsilon than the rounds that it announces.

    Its rounds before the claim's observer are those of its settings (`require_same_event`).  As
    published they prove nothing; what is promised is what the paper prints, `claimed` of all of
    them, so with `cut` there is nothing to hold it against.
    """
    promised = math.inf if opened.claim.epsilon is None else opened.claim.epsilon
    if opened.as_published:
        # As published nothing is proven, so the log must promise what the paper prints.
        printed = math.inf if claimed is None else claimed
        fits = cut or math.isclose(printed, promised, rel_tol=EPSILON_TOLERANCE_BETWEEN_MACHINES)
    else:
        planned = opened.plan.events.get(opened.claim.observer)
        proven = math.inf if planned is None else _proven(planned, opened)
        fits = proven <= promised * (1.0 + EPSILON_TOLERANCE_BETWEEN_MACHINES)
    if not fits:
        raise refused(
            f"The log promises epsilon {promised:.6g}, which its settings and rounds do not bear.",
            "What is measured would be held against another claim than its own.",
        )


def _proven(event: ev.Event, opened: RunOpen) -> float:
    claim = opened.claim
    return account(event, delta=claim.delta, neighbours=claim.neighbours).epsilon.upper


def _announced(observer: str) -> InvalidInput:
    return refused(
        f"The log announces other rounds before `{observer}` than its settings make.",
        "It was edited, or made by another version of privplan.",
    )


def _counted(event: ev.Event) -> tuple[int, dict[ev.Event, int]]:
    """Return the size of the groups that an event is about, and how often each part occurs."""
    if isinstance(event, ev.Group):
        size, inside = _counted(event.event)
        return size * event.size, inside
    if isinstance(event, ev.Repeat):
        size, inside = _counted(event.event)
        return size, {part: count * event.count for part, count in inside.items()}
    if not isinstance(event, ev.Compose):
        return 1, {event: 1}
    counts: dict[ev.Event, int] = {}
    sizes = set()
    for component in event.events:
        size, inside = _counted(component)
        sizes.add(size)
        for part, count in inside.items():
            counts[part] = counts.get(part, 0) + count
    return (sizes.pop() if len(sizes) == 1 else 0), counts
