"""The settings of a run, out of its log: read as a stranger's, and held against what it promised.

A log says how its run was configured and what it promises.  An attack repeats the first and judges
the second, so where they do not belong together there is nothing to attack.  Paths and keys never
stand in a log, so none is taken from there.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final

from ..accountant import events as ev
from ..accountant import validate
from ..accountant.account import account
from ..accountant.errors import InvalidInput
from ..accountant.records import RunOpen
from ..fl.declarations.registry import declaration_of, exactly_named, keys_by_table
from ..fl.declarations.toml_keys import UNLOGGED_KEYS
from ..fl.observers.names import SILO, SILO_WITH_RECORDS
from ..fl.running.resumption import require_same_settings
from ..fl.settings.file import content_of, parse
from ..fl.settings.logged_tables import idle_tables, tables_in
from ..fl.settings.schema import NO_TRAINING, Settings
from .first_line import CONFIG, beside, said

_WHY: Final = "An attack repeats a run as it was configured, and judges what it promised."

_LONGEST: Final = 40
"""Most characters of a decimal string."""

_NEAR: Final = 1e-6
"""How much two machines may differ in the same epsilon, of it."""


@exactly_named()
def settings_in(opened: RunOpen) -> Settings:
    """Return the settings under which a run was opened, checked key by key.

    They lack what never reaches a log (`UNLOGGED_KEYS`).  Whether the log keeps to
    them is the question of `audit.configuration`.  Raises `InvalidInput`, naming the key, for a
    configuration that is missing, incomplete, of a newer version or out of range.
    """
    if not opened.configuration:
        raise _refused("The log does not say how its run was configured.")
    tables = tables_in(opened.configuration)
    idle = idle_tables(opened.configuration)
    unknown = sorted(name for name in opened.configuration if name not in (*tables, *idle))
    if unknown:
        raise _refused(f"The log's configuration has an unknown table {unknown[0]!r:.60}.")
    read = {
        name: _table(name, cls, opened.configuration.get(name, {}), opened)
        for name, cls in tables.items()
    }
    try:
        system = declaration_of(read["run"].system)
    except InvalidInput as error:
        raise _refused(f"In [run] of the log's configuration: {error.what}") from None
    special = None if system.table is None else read.pop(system.table.name)
    return Settings(**{"training": NO_TRAINING, **read}, table=special)


@exactly_named()
def require_same_file(folder: Path, opened: RunOpen) -> None:
    """Raise `InvalidInput` where a folder's own configuration is not that of its log."""
    place = folder / CONFIG
    if place.is_file():
        require_same_settings(opened, parse(content_of(place), CONFIG).to_json())
        found = beside(folder, opened).differences
        if found:
            raise _refused(said(found), "One of them was edited, or they are of two runs.")


@exactly_named()
def path_in(folder: Path) -> Path | None:
    """Return the path of the data that a folder's configuration names, if any; nothing is read."""
    place = folder / CONFIG
    return parse(content_of(place), CONFIG).data.path if place.is_file() else None


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
    own, theirs = _counted(event), _counted(planned)
    fits = own == theirs or _of_any_silo(event, opened, observer)
    if cut and not fits:
        fits = own[0] == theirs[0] and all(
            count <= theirs[1].get(part, 0) for part, count in own[1].items()
        )
    if not fits:
        raise _announced(observer)


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
        printed = math.inf if claimed is None else claimed
        fits = cut or math.isclose(printed, promised, rel_tol=_NEAR)
    else:
        planned = opened.plan.events.get(opened.claim.observer)
        proven = math.inf if planned is None else _proven(planned, opened)
        fits = proven <= promised * (1.0 + _NEAR)
    if not fits:
        raise _refused(
            f"The log promises epsilon {promised:.6g}, which its settings and rounds do not bear.",
            "What is measured would be held against another claim than its own.",
        )


def _proven(event: ev.Event, opened: RunOpen) -> float:
    claim = opened.claim
    return account(event, delta=claim.delta, neighbours=claim.neighbours).epsilon.upper


def _announced(observer: str) -> InvalidInput:
    return _refused(
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
    found: dict[ev.Event, int] = {}
    sizes = set()
    for one in event.events:
        size, inside = _counted(one)
        sizes.add(size)
        for part, count in inside.items():
            found[part] = found.get(part, 0) + count
    return (sizes.pop() if len(sizes) == 1 else 0), found


def _table(name: str, cls: type[Any], source: object, opened: RunOpen) -> Any:
    assert is_dataclass(cls)
    if not isinstance(source, Mapping):
        raise _refused(f"[{name}] of the log's configuration is no table.")
    known = {item.name: item for item in fields(cls) if item.name not in UNLOGGED_KEYS}
    unknown = sorted(str(key) for key in source if key not in known)
    if unknown:
        raise _refused(
            f"The log's configuration has an unknown key {unknown[0]!r:.60} in [{name}]."
        )
    hints = typing.get_type_hints(cls)
    given: dict[str, Any] = {}
    for key, item in known.items():
        if key in source:
            given[key] = value_of(f"[{name}] {key}", source[key], hints[key])
            in_range(name, key, given[key], opened)
        elif item.default is MISSING:
            raise _refused(f"The log's configuration lacks `{key}` in [{name}].")
    return cls(**given)


def value_of(where: str, source: object, hint: Any) -> object:
    """Return a value of its field's type; numbers with a fraction stand there as texts."""
    if typing.get_origin(hint) is tuple:
        if not isinstance(source, (list, tuple)) or any(type(one) is not str for one in source):
            raise _refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
        return tuple(source)
    kinds = typing.get_args(hint) if NoneType in typing.get_args(hint) else (hint,)
    if source is None and NoneType in kinds:
        return None
    if typing.get_origin(hint) is tuple:
        return _words(where, source)
    (kind,) = (one for one in kinds if one is not NoneType)
    if typing.get_origin(kind) is typing.Literal:
        fits = isinstance(source, str) and source in typing.get_args(kind)
    elif kind is float:
        return _decimal(where, source)
    else:
        fits = type(source) is kind
    if not fits:
        raise _refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
    return source


def _words(where: str, source: object) -> tuple[str, ...]:
    if not isinstance(source, (list, tuple)) or not all(isinstance(one, str) for one in source):
        raise _refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
    return tuple(source)


def _decimal(where: str, source: object) -> float:
    found = None
    if isinstance(source, str) and len(source) <= _LONGEST:
        try:
            found = float(source)
        except ValueError:
            found = None
    if found is None or repr(found) != source:
        raise _refused(f"{where} of the log's configuration cannot be {source!r:.60}.")
    return found


def in_range(table: str, name: str, value: object, opened: RunOpen) -> None:
    """Raise `InvalidInput` for a value that no configuration may have."""
    if value is None or (value == math.inf and _unused(table, name, opened)):
        return  # what clips nothing has an infinite bound
    keys = keys_by_table(everywhere=table not in keys_by_table())
    key = next((declared for declared in keys[table] if declared.name == name), None)
    try:
        if key is None:
            validate.count(**{name: value})  # `group`, which a file says under [uldp]
        else:
            key.check(**{name: value})
    except InvalidInput as error:
        raise _refused(f"In [{table}] of the log's configuration: {error.what}") from None


def _unused(table: str, name: str, opened: RunOpen) -> bool:
    """Return whether the system of a log has no use for a key."""
    try:
        return not declaration_of(opened.system).has_use_for(table, name)
    except InvalidInput:
        return False


def _refused(what: str, why: str = _WHY) -> InvalidInput:
    return InvalidInput(what, why, "Give the folder of a run as privplan left it.")
