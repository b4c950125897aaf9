"""What is computed later of what a run released: one more line of its log, at no cost.

A fit with other settings, eigenvectors, a repair: functions of released values and of public
settings are as private as the release, however many they are.  The line says that they were made,
of what and how, so that whoever reads the log can make them again and compare the digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput, kind_of
from ...accountant.records import PostProcessing
from .hash_chain import canonical, is_hash
from .writer import LogWriter

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAX_WHAT_CHARACTERS: Final = 200
"""Longest name of a computation."""

MAX_SETTINGS_CHARACTERS: Final = 2**16
"""Longest settings, as JSON."""


def append_post_processing(
    folder: str | Path,
    of: int,
    what: str,
    settings: Mapping[str, object],
    values: str,
    *,
    key: Ed25519PrivateKey | None = None,
) -> int:
    """Add what was computed of a release to the log of a run, and return the `seq` of the line.

    - `of`: the `seq` of the release, which stands in the log.
    - `what`: a name such as "ridge", 1 to 200 characters.
    - `settings`: a JSON object of public values; nothing in it may depend on private data.
    - `values`: the SHA-256 of the result, in hex.
    - `key`: that of a signed log, which it stays signed by.

    The whole chain is checked first, and the line is on the disk when this returns: hand the result
    on afterwards.  Works before and after the close of a run.

    Raises `InvalidInput` before anything is written: for arguments out of range, a release that is
    not there, and a log that nothing may be added to (`LogWriter.reopen`); `BadLine` for a log with
    a bad line, and `LogBroken` where the line cannot be written.
    """
    record = PostProcessing(
        validate.count_from(0, of=of), _name(what), _settings(settings), _digest(values)
    )
    with LogWriter.reopen(folder, key=key) as writer:
        return writer.append(record)


def _name(what: object) -> str:
    if (
        not isinstance(what, str)
        or not what.isprintable()
        or not 1 <= len(what) <= MAX_WHAT_CHARACTERS
    ):
        raise InvalidInput(
            f"`what` must be a text of 1 to {MAX_WHAT_CHARACTERS} characters, on one line.",
            "It names the computation for whoever reads the log.",
            'Give a name such as "ridge".',
        )
    return what


def _settings(settings: object) -> Mapping[str, object]:
    if not isinstance(settings, Mapping):
        raise InvalidInput(
            f"`settings` must be an object; it is {kind_of(settings)}.",
            "It says how the result can be computed again.",
            "Give public settings by name, or {} for none.",
        )
    # What cannot be written is refused before the log is opened.
    length = len(canonical(settings))
    if length > MAX_SETTINGS_CHARACTERS:
        raise InvalidInput(
            f"`settings` have {length:,} characters; {MAX_SETTINGS_CHARACTERS:,} are the most.",
            "They say how the result was computed, and hold none of it.",
            "Give the digest of what is larger.",
        )
    return settings


def _digest(values: object) -> str:
    if not isinstance(values, str) or not is_hash(values):
        raise InvalidInput(
            "`values` must be a SHA-256 hash: 64 hexadecimal digits in lower case.",
            "By it a result that is computed again is compared with this one.",
            "Give hashlib.sha256(result.tobytes()).hexdigest().",
        )
    return values
