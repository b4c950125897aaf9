"""A run that a person described in TOML or JSON: the tables of a description, whole.

It is recognised by a table that only a description has, also where its name is misspelt or its
header broken, and read by `description.files`, which refuses whatever it does not know.

Source: the pages of `privplan explain check`.
"""

from __future__ import annotations

import re
from typing import Final

from ...accountant.nearest_names import nearest
from ..description.keys import DOTTED
from ..description.run_description import Reading
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

OTHER_TABLES: Final = frozenset({"scheduler", "lr_scheduler"})
"""Names that look like those of a description, and are usual in other configurations."""

MISSPELT_RATIO: Final = 0.8
"""Likeness from which a name is one of a table, misspelt."""

_HEADER: Final = re.compile(r"\s*\[\[?\s*[\"']?([\w\-]{1,40})[\"']?\s*(?:\]\]?\s*(?:#.*)?)?")
_INLINE: Final = re.compile(r"\s*([\w\-]{1,40})\s*=\s*\{")
_DOTTED: Final = re.compile(r"\s*([\w\-]{1,40})\s*\.\s*(\w{1,40})\s*=")


def recognises(content: bytes, name: str) -> bool:
    """Return whether a text has tables of a description, as TOML or as a JSON object."""
    del name
    table = object_of(content)
    if table is not None:
        return any(_is_table(key, value) for key, value in table.items())
    return any(_begins_table(line) for line in lines_of(content))


def _is_table(key: str, value: object) -> bool:
    if key in SURE:
        return isinstance(value, (dict, list))
    # Other files have tables of data, too: a misspelt one has keys of a description.
    return isinstance(value, dict) and _is_misspelt(key) and any(word in DOTTED for word in value)


def _begins_table(line: str) -> bool:
    inline = _INLINE.match(line)
    if inline is not None:
        return inline[1] in SURE or _is_misspelt(inline[1])
    header = _HEADER.fullmatch(line)
    if header is not None:
        return header[1] in TABLES or _is_misspelt(header[1])
    dotted = _DOTTED.match(line)
    if dotted is None:
        return False
    return dotted[1] in TABLES or (dotted[2] in DOTTED and _is_misspelt(dotted[1]))


def _is_misspelt(word: str) -> bool:
    plain = word.lower()
    return plain not in OTHER_TABLES and (
        nearest(plain, SURE, least_ratio=MISSPELT_RATIO) is not None
    )


def read(content: bytes, name: str) -> Reading:
    """Return what `read_description` makes of it."""
    from ..description.files import read_description

    return read_description(content, name)
