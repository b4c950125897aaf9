"""privplan's own logs: they are recognised, and nothing is read of them here.

What a log supports is the question of the audit of budgets, which reads all of it; a check of such
a run gives that answer.  A log is a file whose first line is the record `run.open`, and a run's
folder holds one called log.jsonl.  Source: `fl/log`.
"""

from __future__ import annotations

import re
from typing import Final

from ..description.run_description import Reading

FORMAT: Final = "privplan log"

_FIRST_LINE: Final = re.compile(rb'\{"[^\n]*"type":"run\.open"[^\n]*\}')
_CHAIN: Final = (b'"hash":"', b'"prev":"', b'"seq":0')


def recognises(content: bytes, name: str) -> bool:
    """Return whether the first line of a content is the record with which a log begins."""
    del name
    line = content.partition(b"\n")[0]
    return all(part in line for part in _CHAIN) and bool(_FIRST_LINE.match(line))


def read(content: bytes, name: str) -> Reading:
    """Return the name of the format, and no facts: the log itself is audited."""
    del content
    return Reading(name, FORMAT, {})
