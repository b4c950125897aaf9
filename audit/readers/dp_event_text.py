"""The text of dp_accounting's events, as `repr` prints them, in a closed grammar.

    event  = NAME "(" fields ")"                         NAME ends in DpEvent
    fields = FIELD "=" value, ...  or  value, ...
    value  = number | "inf" | event | "[" value, ... "]" | "(" value, ... ")"
           | "array(" list ")" | "range(" integers ")" | "np.float64(" number ")"

Python's parser makes a tree of the text, nothing is evaluated, and a part outside the grammar is
refused by what it is.  The result has the form of `DpEvent.to_named_tuple()`, as JSON shows it.

Source: dp_accounting 0.6.0, dp_event.py (classes of attrs, printed as attrs prints them).
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from typing import Final

from ...accountant.errors import InvalidInput

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
