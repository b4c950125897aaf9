"""Events as files: dp_accounting's named tuples as JSON or as printed, and privplan's own JSON.

    ["dp_accounting.dp_event", "GaussianDpEvent", 1.0]      json.dumps(event.to_named_tuple())
    {"module_name": ..., "class_name": ..., FIELD: ...}     the same tuple by its field names
    GaussianDpEvent(noise_multiplier=1.0)                   print(event)
    {"type": "gaussian", "noise_multiplier": 1.0}           privplan's own, json.dumps(to_json(...))

Classes are taken from a closed list by their name, and no module is imported by name, as
dp_accounting's reader does.  What has no counterpart among the events here is a doubt, and the
reading then has no event.

Versions: dp_accounting 0.4 to 0.6 and its newer classes as far as `from_named_tuple` knows them.
Source: dp_accounting 0.6.0, dp_event.py (`DpEvent.to_named_tuple`).

An event says more than keys do, and stands for them; the keys are given where they say the same,
so that a claim can also be held against what common accountants print.

**The text** of dp_accounting's events, as `repr` prints them, in a closed grammar:

    event  = NAME "(" fields ")"                         NAME ends in DpEvent
    fields = FIELD "=" value, ...  or  value, ...
    value  = number | "inf" | event | "[" value, ... "]" | "(" value, ... ")"
           | "array(" list ")" | "range(" integers ")" | "np.float64(" number ")"

Python's parser makes a tree of the text, nothing is evaluated, and a part outside the grammar is
refused by what it is.  The result has the form of `DpEvent.to_named_tuple()`, as JSON shows it.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Final

from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.events import TYPES, ZCDP, Compose, Event, Gaussian, Poisson, Repeat, from_json
from ...accountant.events.dp_event_tuples import from_named_tuple
from ..description.run_description import Phase, Reading
from .content import NOT_JSON, json_of, merged_phases, read_facts, schedule_values, text_of

MAX_TEXT: Final = 1024 * 1024
MAX_RANGE: Final = 10_000
MAX_TEXT_DEPTH: Final = 200

MODULE: Final = "dp_accounting.dp_event"

_EVENT: Final = re.compile(r"\s*(?:\w+\.)*[A-Z]\w*DpEvent\s*\(")
_NUMPY: Final = frozenset(
    {
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint32",
        "uint64",
    }
)
_LISTS: Final = frozenset({"array", "Array"})


def looks_like_event_text(text: str) -> bool:
    """Return whether a text begins as an event is printed.

    >>> looks_like_event_text("GaussianDpEvent(noise_multiplier=1.0)")
    True
    """
    return _EVENT.match(text) is not None


def event_of_text(text: str) -> dict[str, object] | list[object]:
    """Return the event that a text prints, as `from_named_tuple` takes it.

    Raises `InvalidInput` for anything outside the grammar.

    >>> event_of_text("GaussianDpEvent(noise_multiplier=1.0)")["noise_multiplier"]
    1.0
    """
    value = literal(parsed(text), 0)
    if not isinstance(value, (dict, list)) or not looks_like_event_text(text):
        raise outside("it is no event")
    return value


def parsed(text: str) -> ast.expr:
    """Return the tree of one expression; nothing of it is evaluated."""
    if len(text) > MAX_TEXT:
        raise outside(f"it has more than {MAX_TEXT // 2**20} MiB")
    try:
        with warnings.catch_warnings():
            # Whoever prints strange text need not warn whoever reads it.
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise outside("it is not the text of a value") from None


def literal(node: ast.expr, depth: int) -> object:
    """Return what a tree says where it stays inside the grammar."""
    if depth > MAX_TEXT_DEPTH:
        raise outside(f"it is nested more than {MAX_TEXT_DEPTH} levels deep")
    if isinstance(node, ast.Constant) and (
        node.value is None or isinstance(node.value, (bool, int, float, str))
    ):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        number = literal(node.operand, depth + 1)
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return math.inf if node.id == "inf" else math.nan
    if isinstance(node, (ast.List, ast.Tuple)):
        return [literal(item, depth + 1) for item in node.elts]
    if isinstance(node, ast.Call):
        return _called(node, depth)
    raise outside(f"it has a part of the kind {type(node).__name__}")


def called_name(node: ast.Call) -> str:
    """Return the last part of the name that a call has; empty where it has none."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _called(node: ast.Call, depth: int) -> object:
    name = called_name(node)
    if name.endswith("DpEvent"):
        return _event(name, node, depth)
    arguments = [literal(item, depth + 1) for item in node.args]
    if name in _NUMPY and len(arguments) == 1 and not node.keywords:
        return arguments[0]
    if name in _LISTS and len(arguments) == 1 and isinstance(arguments[0], list):
        # What else is printed of an array (its type and shape) changes no number.
        return arguments[0]
    if name == "range" and 1 <= len(arguments) <= 3 and all(type(a) is int for a in arguments):
        return _range([a for a in arguments if isinstance(a, int)])
    raise outside(f"it has a call of `{name:.60}`")


def _range(arguments: list[int]) -> list[int]:
    try:
        numbers = range(*arguments)
        if len(numbers) <= MAX_RANGE:
            return list(numbers)
    except (ValueError, OverflowError):
        pass
    raise outside(f"it has a range of no or more than {MAX_RANGE:,} numbers")


def _event(name: str, node: ast.Call, depth: int) -> dict[str, object] | list[object]:
    values = [literal(item, depth + 1) for item in node.args]
    named: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise outside(f"`{name:.60}` has a field without a name, or one twice")
        named[keyword.arg] = literal(keyword.value, depth + 1)
    if values and named:
        raise outside(f"`{name:.60}` has some fields with and some without a name")
    if values:
        return [MODULE, name, *values]
    return {"module_name": MODULE, "class_name": name, **named}


def outside(why: str) -> InvalidInput:
    """Return the error for a text outside the grammar."""
    return InvalidInput(
        f"The text of an event is not read: {why}.",
        "Only what dp_accounting prints of its events is read here, and nothing is evaluated.",
        "Save the event as JSON: json.dumps(event.to_named_tuple()).",
    )


MAX_PHASES: Final = 10_000

SAMPLING_IS_TOLD: Final = (
    "The event says how its accountant was told that batches were sampled, not how they were: no "
    "file shows which sampler ran."
)

SAMPLED_ZCDP: Final = (
    "The event samples something of which only zCDP is known, and sampling does not amplify that "
    "as such. If it is discrete Gaussian noise, the event is Poisson of DiscreteGaussian."
)


def schedule_of(event: Event) -> dict[str, object]:
    """Return the keys that say what an event does; none where it is no such composition.

    >>> schedule_of(Repeat(3, Poisson(0.1, Gaussian(1.0))))["schedule.steps"]
    3
    """
    phases = _phases(event)
    return schedule_values(list(phases)) if phases else {}


def parts_of(event: Event) -> Iterator[Event]:
    """Yield an event and every event inside it."""
    waiting = [event]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += getattr(current, "events", ())
        inner = getattr(current, "event", None)
        if inner is not None:
            waiting.append(inner)


def event_doubts(event: Event) -> tuple[str, ...]:
    """Return the doubts that an event itself raises."""
    sampled = [part for part in parts_of(event) if isinstance(part, Poisson)]
    doubts = [SAMPLING_IS_TOLD] if sampled else []
    if any(isinstance(part.event, ZCDP) for part in sampled):
        doubts.append(SAMPLED_ZCDP)
    return tuple(doubts)


def _phases(event: Event) -> tuple[Phase, ...]:
    """Return the phases of a composition of (Poisson-sampled) Gaussians; none for any other.

    A phase that is repeated is longer; a repeated series of phases is no schedule.
    """
    if isinstance(event, Gaussian):
        return (Phase(event.noise_multiplier, 1.0, 1),)
    if isinstance(event, Poisson) and isinstance(event.event, Gaussian) and event.rate > 0.0:
        return (Phase(event.event.noise_multiplier, event.rate, 1),)
    if isinstance(event, Repeat):
        inner = _phases(event.event)
        if len(inner) != 1:
            return ()
        (phase,) = inner
        return (Phase(phase.noise_multiplier, phase.rate, phase.steps * event.count),)
    if isinstance(event, Compose):
        phases: list[Phase] = []
        for part in event.events:
            inner = _phases(part)
            phases += inner
            if not inner or len(phases) > MAX_PHASES:
                return ()
        return merged_phases(phases)
    return ()


NAMED_TUPLE: Final = "dp_accounting event"
PRIVPLAN_EVENT: Final = "privplan event"

NEVER_SAID: Final = (
    "An event never says delta, the unit or the neighbouring relation.",
    "It is what an accountant was told; whether that was all that the run released is not said.",
)


def recognises(content: bytes, name: str) -> bool:
    """Return whether a content is an event, of dp_accounting or of privplan."""
    del name
    text = text_of(content)
    if text is None:
        return False
    if text.lstrip()[:1] not in ("[", "{"):
        return looks_like_event_text(text)
    value = json_of(content)
    return is_named_tuple(value) or _is_privplan_event(value)


def read(content: bytes, name: str) -> Reading:
    """Return the event of a file, with the keys that say the same.

    Raises `InvalidInput` for an unknown class or type, an unknown or missing field, and a value
    outside its range.
    """
    value = json_of(content)
    try:
        if _is_privplan_event(value):
            return event_reading(from_json(value), name, PRIVPLAN_EVENT)
        if value is NOT_JSON:
            value = event_of_text(text_of(content) or "")
        event = event_of_named_tuple(value)
    except RecursionError:
        raise outside("it is nested too deeply") from None
    except Unsupported as error:
        return Reading(name, NAMED_TUPLE, {}, (*NEVER_SAID, str(error)))
    return event_reading(event, name, NAMED_TUPLE, {"claim.library": "dp_accounting"})


def event_of_named_tuple(value: object) -> Event:
    """Return the event of a named tuple that was saved as JSON.

    Raises `InvalidInput` for what is none, and `Unsupported` where there is no such event here.
    """
    return from_named_tuple(value)


def event_reading(
    event: Event, name: str, form: str, values: Mapping[str, object] | None = None
) -> Reading:
    """Return the reading of an event: its keys, its doubts, and itself."""
    facts = read_facts(name, {**(values or {}), **schedule_of(event)})
    return Reading(name, form, facts, (*NEVER_SAID, *event_doubts(event)), event)


def is_named_tuple(value: object) -> bool:
    """Return whether a JSON value is an event of dp_accounting, by position or by name."""
    if isinstance(value, dict):
        class_name = value.get("class_name")
    else:
        class_name = value[1] if isinstance(value, list) and len(value) > 1 else None
    return isinstance(class_name, str) and class_name.endswith("DpEvent")


def _is_privplan_event(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in TYPES
