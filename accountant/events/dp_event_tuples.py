"""Events of dp_accounting as data: its named tuples, and both shapes that JSON gives them.

`DpEvent.to_named_tuple()` returns a tuple (module_name, class_name, fields ...) with nested events
as tuples of that kind, and JSON turns it into one of

    [module_name, class_name, field, ...]                                       (json.dumps of it)
    {"module_name": ..., "class_name": ..., "field": ..., ...}                  (from its _asdict)

Class names come from a closed list, with the fields of each; no name that stands in the data is
imported, and dp_accounting need not be installed.

Source: dp_accounting 0.6.0 and its main branch of 2026, dp_event.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..errors import InvalidInput, kind_of
from ..nearest_names import require_fields, suggestion
from . import definitions as ev
from .dp_event_converters import Position, converted

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

EventLike: TypeAlias = "ev.Event | DpEvent | tuple[Any, ...]"
"""An event of ours, an event of dp_accounting, or a named tuple of one."""

MODULE_NAMES: Final = ("dp_accounting.dp_event", "dp_accounting")
"""What `module_name` may be."""

_NEEDED: Final = object()
"""In place of a default, where a field has none."""

_EVENT_FIELD: Final = {"event": _NEEDED}

FIELDS: Final[Mapping[str, Mapping[str, object]]] = {
    "NoOpDpEvent": {},
    "NonPrivateDpEvent": {},
    "UnsupportedDpEvent": {},
    "RandomizedResponseDpEvent": {"noise_parameter": _NEEDED, "num_buckets": _NEEDED},
    "EpsilonDeltaDpEvent": {"epsilon": _NEEDED, "delta": _NEEDED},
    "GaussianDpEvent": {"noise_multiplier": _NEEDED},
    "LaplaceDpEvent": {"noise_multiplier": _NEEDED},
    "DiscreteLaplaceDpEvent": {"noise_parameter": _NEEDED, "sensitivity": _NEEDED},
    "DiscreteGaussianDpEvent": {"sigma": _NEEDED, "sensitivity": 1.0, "dimension": None},
    "SelfComposedDpEvent": {**_EVENT_FIELD, "count": _NEEDED},
    "ComposedDpEvent": {"events": _NEEDED},
    "PoissonSampledDpEvent": {"sampling_probability": _NEEDED, **_EVENT_FIELD},
    "SampledWithReplacementDpEvent": {
        "source_dataset_size": _NEEDED,
        "sample_size": _NEEDED,
        **_EVENT_FIELD,
    },
    "SampledWithoutReplacementDpEvent": {
        "source_dataset_size": _NEEDED,
        "sample_size": _NEEDED,
        **_EVENT_FIELD,
    },
    "SingleEpochTreeAggregationDpEvent": {"noise_multiplier": _NEEDED, "step_counts": _NEEDED},
    "RepeatAndSelectDpEvent": {**_EVENT_FIELD, "mean": _NEEDED, "shape": _NEEDED},
    "MixtureOfGaussiansDpEvent": {
        "standard_deviation": _NEEDED,
        "sensitivities": _NEEDED,
        "sampling_probs": _NEEDED,
    },
    "ZCDpEvent": {"rho": _NEEDED, "xi": 0.0},
    "ExponentialMechanismDpEvent": {"epsilon": _NEEDED},
    "PermuteAndFlipDpEvent": {"epsilon": _NEEDED},
    "TruncatedSubsampledGaussianDpEvent": {
        "dataset_size": _NEEDED,
        "sampling_probability": _NEEDED,
        "truncated_batch_size": _NEEDED,
        "noise_multiplier": _NEEDED,
    },
    "RandomAllocationDpEvent": {**_EVENT_FIELD, "num_selected": _NEEDED, "num_steps": _NEEDED},
}
"""The closed list: class name -> its fields in order, with the defaults of those that have one."""

_HEAD: Final = ("module_name", "class_name")

MAX_ITEMS: Final = 16
"""More than the fields of any event, with its names."""

_SHAPES_OF_DATA: Final = (
    "Give what to_named_tuple() returns, or its JSON: a list that begins with the module and the "
    "class, or an object with `module_name`, `class_name` and the fields."
)


def from_named_tuple(value: object) -> ev.Event:
    """Return our event for a named tuple of dp_accounting, or for its JSON once it is parsed.

    Nothing that the data names is imported, and dp_accounting itself is not needed.  Raises
    `Unsupported`, naming the part, where there is no event with that meaning here, and
    `InvalidInput` for data that are none of the shapes above, an unknown or missing field, a value
    outside its range, nesting deeper than `MAX_DEPTH` and more than `MAX_PARTS` parts.

    >>> from_named_tuple(["dp_accounting.dp_event", "PoissonSampledDpEvent", 0.01,
    ...                   ["dp_accounting.dp_event", "GaussianDpEvent", 1.0]])
    Poisson(rate=0.01, event=Gaussian(noise_multiplier=1.0))
    """
    return converted(value, Position("event", _opened))


def as_event(value: object) -> ev.Event | None:
    """Return an event of ours, or what an event or a named tuple of dp_accounting means here.

    None for anything else.  Raises as `from_named_tuple` and `from_dp_event` do.
    """
    if isinstance(value, ev.Event):
        return value if value.type else None
    if isinstance(value, tuple) and set(_HEAD) <= set(_names_of(value)):
        return from_named_tuple(value)
    # Whoever has one of their events has loaded their module.
    theirs = sys.modules.get("dp_accounting.dp_event")
    if theirs is not None and isinstance(value, theirs.DpEvent):
        from .dp_accounting_exchange import from_dp_event

        return from_dp_event(value)
    return None


def known_event(value: object) -> ev.Event:
    """Return the event that a value stands for; raise `InvalidInput` where it is none."""
    known = as_event(value)
    if known is None:
        raise InvalidInput(
            f"`event` must be an event; it is {kind_of(value)}.",
            next_step="Give an event such as privplan.events.Gaussian(1.0).",
        )
    return known


def _opened(source: Any, at: Position) -> tuple[str, Any]:
    """Return the class name that data state, and their fields as attributes."""
    given, named = _stated(source, at)
    module, name = (_text(given.pop(key), f"{at.path}.{key}") for key in _HEAD)
    if module not in MODULE_NAMES:
        raise InvalidInput(
            f"`{at.path}.module_name` is {module[:60]!r}, which is not {MODULE_NAMES[0]}.",
            "Only dp_accounting's own events are known; nothing is imported by name.",
            "Convert the event to one of theirs.",
        )
    known = FIELDS.get(name)
    if known is None:
        raise InvalidInput(
            f"`{at.path}.class_name` is {name[:60]!r}, which is not a known event.",
            next_step=suggestion(name[:60], FIELDS, f"Known classes: {', '.join(sorted(FIELDS))}."),
        )
    fields = dict(given) if named else _by_position(given, known, name, at)
    for key, default in known.items():
        if default is not _NEEDED:
            fields.setdefault(key, default)
    listed = f"The fields of {name}: {', '.join(known) or 'none'}."
    require_fields(sorted(fields), sorted(known), at.path, otherwise=listed, if_missing=listed)
    return name, SimpleNamespace(**fields)


def _stated(source: Any, at: Position) -> tuple[dict[str, Any], bool]:
    """Return what is stated by name, and whether the fields have names or only positions."""
    if isinstance(source, (Mapping, list, tuple)) and len(source) > MAX_ITEMS:
        raise InvalidInput(
            f"`{at.path}` has {len(source):,} items, more than any event.",
            next_step=_SHAPES_OF_DATA,
        )
    if isinstance(source, Mapping):
        given, named = dict(source), True
    elif isinstance(source, tuple) and _names_of(source):
        given, named = dict(zip(_names_of(source), source, strict=True)), True
    elif isinstance(source, (list, tuple)):
        given, named = dict(zip((*_HEAD, *range(len(source) - 2)), source, strict=False)), False
    else:
        raise InvalidInput(
            f"`{at.path}` must be an event of dp_accounting; it is {kind_of(source)}.",
            next_step=_SHAPES_OF_DATA,
        )
    for key in _HEAD:
        if key not in given:
            raise InvalidInput(f"`{at.path}` has no `{key}`.", next_step=_SHAPES_OF_DATA)
    if named and not all(isinstance(key, str) for key in given):
        raise InvalidInput(f"`{at.path}` has a field name that is not text.")
    return given, named


def _names_of(value: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of a named tuple's fields; none where it has none, or they do not fit."""
    names = getattr(value, "_fields", ())
    fits = isinstance(names, tuple) and len(names) == len(value)
    return names if fits and all(isinstance(name, str) for name in names) else ()


def _by_position(
    given: Mapping[Any, Any], known: Mapping[str, object], name: str, at: Position
) -> dict[str, Any]:
    if len(given) > len(known):
        raise InvalidInput(
            f"`{at.path}` has {len(given)} fields, and {name} has {len(known)}.",
            next_step=f"The fields of {name}: {', '.join(known) or 'none'}.",
        )
    return dict(zip(known, given.values(), strict=False))


def _text(value: object, path: str) -> str:
    """Return a name, which their own tuples may hold as bytes."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if not isinstance(value, str):
        raise InvalidInput(f"`{path}` must be text; it is {kind_of(value)}.")
    return value
