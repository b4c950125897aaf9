"""Tables of what is refused, as text: what is written, what is said of it, and the way out."""

from __future__ import annotations


def refusals(text: str) -> dict[str, tuple[str, dict[str, dict[str, str]], str, str]]:
    """Return system, tables, what is said and the way out, by the line that says what is written.

    SYSTEM | TABLE.KEY = VALUE; ...
        what is said
        the way out
    """
    found: dict[str, tuple[str, dict[str, dict[str, str]], str, str]] = {}
    lines = [line.strip() for line in text.strip().splitlines()]
    for written, said, way_out in zip(*[iter(lines)] * 3, strict=True):
        system, keys = written.split(" | ")
        tables: dict[str, dict[str, str]] = {}
        for key, value in (part.split(" = ", 1) for part in keys.split("; ")):
            table, name = key.split(".")
            tables.setdefault(table, {})[name] = value
        found[written] = system, tables, said, way_out
    return found
