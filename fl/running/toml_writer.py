"""Tables as TOML: what a configuration holds, and nothing that needs more.

What is written reads back as the same values.  Source: TOML 1.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.toml_source import toml_text

_UNQUOTED: Final = re.compile(r"[A-Za-z0-9_-]+")
"""A key that needs no quotes."""


def toml_bytes(tables: Mapping[str, Mapping[str, object]]) -> bytes:
    """Return tables of texts, truths, numbers, paths, lists and tables as a TOML file, UTF-8.

    Raises `InvalidInput`, which names table and key, for any other value.

    >>> toml_bytes({"run": {"rounds": 2}, "privacy": {"observers": ["model"]}}).decode()
    '[run]\\nrounds = 2\\n\\n[privacy]\\nobservers = ["model"]\\n'
    """
    if not isinstance(tables, Mapping):
        raise InvalidInput(
            f"A configuration must be a mapping of tables; it is {kind_of(tables)}.",
            "It describes a run as a TOML file does.",
            'Give {"run": {"system": ...}, "data": {...}, ...}, or the path of a file.',
        )
    texts = []
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise InvalidInput(
                f"The configuration needs {str(name)!r:.60} to be a table; it is {kind_of(table)}.",
                "Every key stands in a table.",
                'Give a mapping, as in {"run": {"rounds": 10}}.',
            )
        lines = [f"{_key(key)} = {_value(value, name, key)}\n" for key, value in table.items()]
        # No blank line inside a table, one between tables.
        texts.append("".join([f"[{_key(name)}]\n", *lines]))
    try:
        return "\n".join(texts).encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            "A text of the configuration holds half a character.",
            "A configuration is UTF-8.",
            "Correct the text.",
        ) from None


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInput(
            f"A name in the configuration is {kind_of(name)}.",
            "Tables and keys have names.",
            "Give a text.",
        )
    return name if _UNQUOTED.fullmatch(name) else toml_text(name)


def _value(value: object, table: str, key: str) -> str:
    if getattr(value, "shape", None) == ():  # a number, truth or text of numpy's
        value = value.item()  # type: ignore[attr-defined]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, Path)):
        return toml_text(str(value))
    try:
        if isinstance(value, Integral):
            return str(int(value))
        if isinstance(value, Real):
            return repr(float(value))
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(_value(item, table, key) for item in value)}]"
        if isinstance(value, Mapping):
            inside = (f"{_key(name)} = {_value(item, table, key)}" for name, item in value.items())
            return f"{{{', '.join(inside)}}}"
    except (OverflowError, ValueError, RecursionError):
        raise InvalidInput(
            f"`{key}` in [{table}] is {kind_of(value)} that no configuration can hold.",
            "A number has an end that can be written, and a list does not hold itself.",
            f"Give `{key}` a smaller one.",
        ) from None
    step = "Leave it out to have the default." if value is None else "Give one of these."
    raise InvalidInput(
        f"`{key}` in [{table}] is {kind_of(value)}, which a configuration cannot hold.",
        "It holds texts, truths, numbers, and lists and tables of these.",
        step,
    )
