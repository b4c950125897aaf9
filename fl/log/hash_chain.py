"""The hash chain of a log: the one way in which a line is written, and its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from ...accountant.errors import InvalidInput

LOG: Final = "log.jsonl"
SEALED: Final = "sealed.jsonl"

START: Final = "0" * 64
"""What stands as `prev` in the first line."""

CHAIN: Final = ("seq", "prev", "hash")
"""The fields that the log adds to a record."""

LONGEST: Final = 2**26
"""Longest line in bytes, 64 MiB; a longer one is neither written nor read."""

_encoder: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)
_decoder: Final = json.JSONDecoder()


def canonical(value: object) -> str:
    """Return the canonical JSON text: sorted keys, no spaces, ASCII, finite numbers.

    Raises `InvalidInput` for what JSON cannot carry; its value is not shown.

    >>> canonical({"b": 1.0, "a": "\\u00e9"})
    '{"a":"\\\\u00e9","b":1.0}'
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(
            "What is to be written cannot stand in JSON.",
            "Keys are texts, numbers are finite, and nothing is nested without end.",
            "Give texts, numbers, lists and objects with text keys.",
        ) from None


def parsed(text: str) -> Any:
    """Return what a JSON text says; `ValueError` or `RecursionError` if it is none."""
    return _decoder.decode(text)


def digest(text: str) -> str:
    """Return the SHA-256 of an ASCII text, in hex."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def chained(record: Mapping[str, object], seq: int, prev: str) -> tuple[str, str]:
    """Return the line of a record (without newline) and its hash.

    The hash is over the canonical line without `hash`, so it covers the content, the place and,
    through `prev`, every line before.
    """
    # `hash` is over everything else in its final form, so it is computed before it is put in.
    line: dict[str, object] = {**record, "seq": seq, "prev": prev}
    line_hash = digest(canonical(line))
    line["hash"] = line_hash
    return canonical(line), line_hash


def is_hash(value: object) -> bool:
    """Return whether a value is the hex form of a SHA-256 hash."""
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")
