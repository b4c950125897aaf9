"""The values of one table of settings: its defaults, and what a log may say of them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..declarations.toml_keys import KEYS_LOGGED_IF_TRUE, UNLOGGED_KEYS


def default_table(kind: type[Any]) -> object:
    """Return a table whose keys have their defaults; None where some have none."""
    try:
        return kind()
    except TypeError:
        return None


def table_json(table: object) -> dict[str, object]:
    """Return what a log may say of one table."""
    pairs = {item.name: getattr(table, item.name) for item in fields(table)}  # type: ignore[arg-type]
    return {
        name: _json(value)
        for name, value in pairs.items()
        if name not in UNLOGGED_KEYS and (value or name not in KEYS_LOGGED_IF_TRUE)
    }


def _json(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return repr(value) if isinstance(value, float) else value
