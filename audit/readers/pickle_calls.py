"""What stands for the result of a call in a pickle: a plain value or a placeholder.

The functions that a pickle names are never imported or called.  For those whose result is a plain
value (a dict, a set, a number of numpy), that value is computed here from the arguments.
"""

from __future__ import annotations

from typing import Final

from ...accountant.errors import InvalidInput
from .inert_values import GlobalName, Inert, NumpyType, known_global, numpy_number
from .pickle_budget import PickleBudget, UnreadablePickle

DICTIONARIES: Final = frozenset(
    {"builtins.dict", "collections.OrderedDict", "collections.defaultdict"}
)
SEQUENCES: Final = frozenset(
    {"builtins.set", "builtins.frozenset", "builtins.list", "builtins.tuple"}
)
NUMPY_SCALARS: Final = frozenset({"numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"})
GETATTR: Final = "builtins.getattr"


def named_global(module: object, name: object) -> GlobalName:
    """Return the placeholder of a global; `UnreadablePickle` names one outside the closed list."""
    if not isinstance(module, str) or not isinstance(name, str):
        raise TypeError("a global whose name is no text")
    listed = known_global(module, name)
    if listed is None:
        raise UnreadablePickle(f"Loading it would run `{module:.60}.{name:.60}`.")
    return listed


def called(function: object, arguments: object, budget: PickleBudget) -> object:
    """Return what stands for a call of a global of the closed list with `arguments`."""
    if not isinstance(function, GlobalName) or not isinstance(arguments, tuple):
        raise TypeError("a call of what is no global")
    name = function.name
    if name in DICTIONARIES:
        without_factory = arguments[1:] if name.endswith("defaultdict") else arguments
        return _dictionary(without_factory, budget)
    if name in SEQUENCES:
        return _sequence(name, arguments, budget)
    if name in ("_codecs.encode", "builtins.bytes", "builtins.bytearray"):
        return _bytes(arguments, budget)
    if name in NUMPY_SCALARS:
        kind, content = arguments
        return numpy_number(kind, content)
    if name == "numpy.dtype":
        code = arguments[0]
        return NumpyType(name, code=code if isinstance(code, str) else "")
    if name == GETATTR:
        return _attribute(arguments)
    return Inert(name)


def _dictionary(sources: tuple[object, ...], budget: PickleBudget) -> dict[object, object]:
    result: dict[object, object] = {}
    for source in sources:
        if not isinstance(source, (list, dict, tuple)):
            raise TypeError("a mapping that is made of something else")
        budget.copying(len(source))
        for pair in source.items() if isinstance(source, dict) else source:
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise TypeError("an item that is no pair")
            result[budget.key(pair[0])] = pair[1]
    return result


def _sequence(name: str, sources: tuple[object, ...], budget: PickleBudget) -> object:
    items: list[object] = []
    for source in sources:
        if not isinstance(source, (list, tuple, set, frozenset)):
            raise TypeError("a sequence that is made of something else")
        budget.copying(len(source))
        items.extend(source)
    if name == "builtins.list":
        return items
    if name == "builtins.tuple":
        return tuple(items)
    keys = [budget.key(item) for item in items]
    return set(keys) if name == "builtins.set" else frozenset(keys)


def _bytes(arguments: tuple[object, ...], budget: PickleBudget) -> bytes:
    """Return bytes, which old protocols write as text and a call that encodes it."""
    if len(arguments) > 2:
        raise TypeError("bytes that are made of more than text")
    content = arguments[0] if arguments else b""
    encoding = arguments[1] if len(arguments) == 2 else "latin1"
    if isinstance(content, bytes):
        return content
    if not isinstance(content, str) or encoding not in ("latin1", "latin-1"):
        raise TypeError("an encoding that no pickler uses")
    budget.copying(len(content))
    return content.encode("latin-1")


def _attribute(arguments: tuple[object, ...]) -> Inert:
    """Return the placeholder of an accountant's `mechanism`, which Opacus up to 1.5 saved so."""
    target, attribute = arguments
    if not isinstance(target, GlobalName) or attribute != "mechanism":
        raise UnreadablePickle(f"Loading it would run `{GETATTR}`.")
    return Inert(f"{target.name}.{attribute}")


def refusal(source: str, why: str) -> InvalidInput:
    """Return the error for a pickle that is not read, with the two sentences that all share."""
    return InvalidInput(
        f"The pickle in `{source}` is not read. {why}",
        "A pickle is a program that runs when it is loaded: none is run here, and only names of a "
        "closed list are read.",
        "Save the accountant's state by itself: json.dump(accountant.state_dict(), file).",
    )
