"""A run that a person described in TOML or JSON: the tables of a description, whole.

It is recognised by a table that only a description has, and read by `description.files`, which
refuses whatever it does not know.  Source: the pages of `privplan explain check`.
"""

from __future__ import annotations

import re
from typing import Final

from ..description.reading import Reading
from .content import lines_of, object_of

FORMAT: Final = "run description"

TABLES: Final = (
    "claim",
    "noise",
    "data",
    "sampling",
    "schedule",
    "releases",
    "aggregation",
    "tuning",
)
"""Tables of a description."""

SURE: Final = frozenset({"claim", "noise", "sampling", "schedule", "releases"})
"""Tables that make a JSON object a description; other files have tables of data, too."""

_HEADER: Final = re.compile(rf"\s*\[\[?\s*(?:{'|'.join(TABLES)})\s*\]\]?\s*(?:#.*)?")
_DOTTED: Final = re.compile(rf"\s*(?:{'|'.join(TABLES)})\s*\.\s*\w+\s*=")


def recognises(content: bytes, name: str) -> bool:
    """Return whether a text has tables of a description, as TOML or as a JSON object."""
    del name
    table = object_of(content)
    if table is not None:
        return any(isinstance(table.get(key), (dict, list)) for key in SURE)
    return any(_HEADER.fullmatch(line) or _DOTTED.match(line) for line in lines_of(content))


def read(content: bytes, name: str) -> Reading:
    """Return what `read_description` makes of it."""
    from ..description.files import read_description

    return read_description(content, name)
