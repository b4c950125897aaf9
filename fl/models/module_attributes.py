"""What a module holds besides parameters and buffers: numbers, words, functions, and lists of them.

The digest of an architecture has them, and a call that changes one leaves something behind.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from torch import Tensor, nn

_OF_TORCH: Final = frozenset([*vars(nn.Module()), "_flat_weights"])
"""What PyTorch itself keeps in a module."""

_MOST_NESTED: Final = 12


def held_values(layer: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and a text of each value that a layer holds; addresses are no part of it."""
    for name, value in sorted(vars(layer).items()):
        if name not in _OF_TORCH:
            yield name, _text(value, _MOST_NESTED)


def held_by_classes(layer: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield the same of what the layer's classes hold for all their layers, but for functions."""
    for kind in type(layer).__mro__:
        if kind.__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        for name, value in sorted(vars(kind).items()):
            if not (name.startswith("__") or callable(value) or hasattr(value, "__get__")):
                yield f"{kind.__name__}.{name}", _text(value, _MOST_NESTED)


def described(value: object) -> str:
    """Return a text of a function or an object: its code, and what it holds and remembers."""
    return f"{_text(type(value), _MOST_NESTED)} {_text(value, _MOST_NESTED)}"


def source_of(code: Any) -> str:
    """Return the source of a class or a function; nothing where it was typed into a session."""
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return ""


def _text(value: object, depth: int) -> str:
    # Of other objects the text may hold an address, which is another in every process.
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, nn.Module) or depth == 0:
        return kind
    if isinstance(value, nn.Parameter):
        return f"{kind} {tuple(value.shape)}"
    if isinstance(value, Tensor):
        return f"{kind} {value.dtype} {_array(value.detach().cpu().numpy())}"
    if isinstance(value, np.ndarray):
        return f"{kind} {_array(value)}"
    if isinstance(value, Mapping):
        texts = [f"{_text(k, depth - 1)}: {_text(v, depth - 1)}" for k, v in value.items()]
        return f"{kind} {texts}"
    if isinstance(value, (list, tuple)):
        return f"{kind} {[_text(each, depth - 1) for each in value]}"
    if isinstance(value, (set, frozenset)):
        return f"{kind} {sorted(_text(each, depth - 1) for each in value)}"
    if isinstance(value, functools.partial):
        return _text((value.func, value.args, value.keywords), depth - 1)
    if isinstance(value, types.CodeType):
        parts = (value.co_names, value.co_varnames, value.co_consts)
        return f"{value.co_code.hex()} {_text(parts, depth - 1)}"
    if inspect.isclass(value):
        functions = {k: v for k, v in sorted(vars(value).items()) if inspect.isfunction(v)}
        return f"{value.__module__}.{value.__qualname__} {_text(functions, depth - 1)}"
    if inspect.isroutine(value):
        # The code that was loaded: its file may have been edited since.
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        held = [getattr(value, "__code__", None), getattr(value, "__defaults__", None), cells]
        return f"{value.__module__}.{value.__qualname__} {_text(held, depth - 1)}"
    slots = getattr(value, "__dict__", None)
    return f"{kind} {_text(slots, depth - 1)}" if isinstance(slots, dict) else kind


def _array(values: np.ndarray[Any, Any]) -> str:
    content = b"" if values.dtype.hasobject else np.ascontiguousarray(values).tobytes()
    return f"{values.dtype} {values.shape} {hashlib.sha256(content).hexdigest()}"
