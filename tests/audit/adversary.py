"""The standard adversary reads a log: they know all data but those of one unit.

Make the same run twice, with that unit and without it, with the same seed (so noise and samples
are the same, and all else is fresh), and compare the logs.  Whatever differs, depends on the unit:
it must be a digest of noisy values, a commitment, a number made from the released model, or a name
or a time of the run.  What is the same for every noise has the same distribution in both worlds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from privplan.fl.log.hash_chain import LOG

NOISY = (
    "round.intent.model_in",
    "round.release.aggregate",
    "round.release.model_out",
    "run.close.model",
    "evaluation.metrics.*",  # of the released model
)
"""Digests of noisy values, and what follows from them."""

FRESH = (
    "run.open.run_id",
    "run.open.opened",
    "run.open.dataset",
    "round.release.sealed.*",
    "*.prev",
    "*.hash",
    "head.signature",
)
"""Commitments, names and times, and the chain over everything."""


def differing_fields(log_a: Path, log_b: Path) -> dict[str, list[int]]:
    """Return the fields in which two logs differ, as `kind.field.inner`, with their lines.

    `lines` stands for another number of lines, `type` for another order of their kinds.  Give
    folders of runs.
    """
    found: dict[str, list[int]] = {}
    lines_a, lines_b = _lines(log_a), _lines(log_b)
    if len(lines_a) != len(lines_b):
        found["lines"] = [len(lines_a), len(lines_b)]
    for number, (text_a, text_b) in enumerate(zip(lines_a, lines_b, strict=False), 1):
        a, b = json.loads(text_a), json.loads(text_b)
        if a["type"] != b["type"]:
            found.setdefault("type", []).append(number)
            continue
        for path in _differing(a, b, a["type"]):
            found.setdefault(path, []).append(number)
    return found


def leaks(log_a: Path, log_b: Path) -> dict[str, list[int]]:
    """Return the fields that differ and may not, and `length` for lines of another length.

    The length of an evaluation is that of the numbers in it, which come from the released model.
    """
    found = {
        path: numbers
        for path, numbers in differing_fields(log_a, log_b).items()
        if not any(fnmatchcase(path, pattern) for pattern in (*NOISY, *FRESH))
    }
    pairs = enumerate(zip(_lines(log_a), _lines(log_b), strict=False), 1)
    lengths = [
        number
        for number, (a, b) in pairs
        if len(a) != len(b) and json.loads(a)["type"] != "evaluation"
    ]
    return found | ({"length": lengths} if lengths else {})


def _lines(folder: Path) -> list[str]:
    return (folder / LOG).read_text().splitlines()


def _differing(a: Any, b: Any, path: str) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted(a.keys() | b.keys()):
            if name in a and name in b:
                yield from _differing(a[name], b[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for one, other in zip(a, b, strict=True):
            yield from _differing(one, other, f"{path}[]")
    elif a != b or type(a) is not type(b):
        yield path
