"""The key that kept answers are signed with, so that nobody's numbers but our own are shown.

A digest alone can be computed by whoever edits a file.  The key lies beside the answers, and only
its owner may read it: a key that others can read or have put there signs nothing.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from ...accountant.regular_file import open_regular
from ...fl.files import atomic

CACHE_KEY_FILE: Final = "key"
CACHE_KEY_BYTES: Final = 32
RIGHTS_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""Rights of anybody but the owner; a key has none of them."""


def known_key(folder: Path) -> bytes:
    """Return the key of a folder, 32 bytes.

    Raises `OSError` where there is none, and `ValueError` for one that others can read or have
    written.

    >>> known_key(Path("/nowhere"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/key'
    """
    with open_regular(folder / CACHE_KEY_FILE, within=folder) as file:
        status = os.fstat(file.fileno())
        key = file.read(CACHE_KEY_BYTES + 1)
    if not _is_private(status) or len(key) != CACHE_KEY_BYTES:
        raise ValueError("The key of the cache is not the user's own.")
    return key


def key_of(folder: Path) -> bytes:
    """Return the key of a folder, a new one where it has none that is the user's own.

    Raises `OSError` where none can be written.
    """
    try:
        return known_key(folder)
    except (OSError, ValueError):
        atomic.write(folder / CACHE_KEY_FILE, secrets.token_bytes(CACHE_KEY_BYTES), private=True)
        return known_key(folder)


def _is_private(status: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):  # Windows has other rights, and folders of users of their own
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & RIGHTS_OF_OTHERS
