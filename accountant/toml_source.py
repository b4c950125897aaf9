"""A TOML file that a person wrote: what it says, and refusals that name it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from .errors import InvalidInput
from .nearest_names import suggestion
from .regular_file import first_bytes

MAX_TOML_BYTES: Final = 1024 * 1024
"""Most bytes that are read as a configuration or a plan."""

YAML_LINE: Final = re.compile(r"---\s*$|\s*(- )?[\w-]+:(\s.*)?$|\s*- ")
"""A line of a small YAML file: a key with a colon, or an item of a list."""

TOML_LINES: Final = "a table is [name], and a key is key = value."

WHY_NAMES_ARE_CLOSED: Final = "A misspelt name would silently change a number."


def toml_tables(content: bytes) -> dict[str, Any]:
    """Return what a TOML text says; `ValueError` or `RecursionError` if it is none.

    A byte order mark, which some editors write, is passed over.
    """
    import tomllib

    return tomllib.loads(content.decode("utf-8-sig"))


def other_format(text: str) -> str:
    """Return which other format a text has, JSON or YAML; empty for none of these.

    >>> other_format('{"run": {"system": "disco"}}'), other_format("run:\\n  system: disco")
    ('JSON', 'YAML')
    """
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(json.loads(text), (dict, list)):
            return "JSON"
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    keys = [line for line in lines if YAML_LINE.match(line)]
    return "YAML" if lines and len(keys) == len(lines) else ""


def toml_text(text: str) -> str:
    """Return a basic string of TOML; JSON's escapes are TOML's, but for the one of DEL.

    >>> toml_text('a "b"')
    '"a \\\\"b\\\\""'
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True)
class TomlReader:
    """Reads one TOML file; every complaint starts with its `name`.

    A reader of its own says what the file is (`noun`, as "A plan"), why it is TOML (`reason`),
    and the next step of complaints that have none (`help`).
    """

    name: str
    noun: ClassVar[str]
    reason: ClassVar[str]
    help: ClassVar[str]

    def content(self, path: str | Path, *, within: Path | None = None) -> bytes:
        """Return the first bytes of the file, one more than it may have; `within` as for a link."""
        try:
            return first_bytes(path, MAX_TOML_BYTES, within=within)
        except (OSError, ValueError) as error:
            trouble = getattr(error, "strerror", None) or str(error)
            raise self.refusal(f"cannot be read: {trouble}", self.reason) from None

    def tables(self, content: bytes) -> dict[str, Any]:
        """Return what the content of the file says."""
        if len(content) > MAX_TOML_BYTES:
            raise self.refusal("is larger than 1 MiB", f"{self.noun} is a short description.")
        try:
            return toml_tables(content)
        except UnicodeDecodeError:
            raise self.refusal("is not UTF-8 text", "TOML is UTF-8.", "Save it so.") from None
        except (ValueError, RecursionError) as error:  # also for an integer of too many digits
            other = other_format(content.decode("utf-8-sig"))
            if other:
                step = f"Write it as TOML: {TOML_LINES}"
                raise self.refusal(f"is {other}, and not TOML", self.reason, step) from None
            raise self.refusal("is not TOML", f"{error}.", "Correct the line.") from None

    def unknown(self, what: str, word: str, known: Collection[str]) -> InvalidInput:
        """Return the complaint about a table or key that is not known, with the nearest one."""
        step = suggestion(word, known, f"Known: {', '.join(known)}.")
        return self.refusal(what, WHY_NAMES_ARE_CLOSED, step)

    def refusal(self, what: str, why: str = "", step: str = "") -> InvalidInput:
        """Return a complaint about the file."""
        return InvalidInput(f"{self.name} {what}.", why, step or self.help)
