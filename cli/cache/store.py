"""Keeps computed answers between runs, and never a stale one.

A file is named after a digest of the source files that computed it, the interpreter and the
numerical libraries; whatever changes any of them makes the file invisible.  It is signed with a key
of the user (`cache_key`), name and content, so that what somebody else wrote, or moved to another
name, is computed again.  A folder that is a link is not followed.  A cache that cannot be read or
written changes nothing but the time.

The key that kept answers are signed with, so that nobody's numbers but our own are shown.

A digest alone can be computed by whoever edits a file.  The key lies next to the answers, and only
its owner may read it: a key that others can read or have put there signs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar, cast

from ...accountant.decoding import parsed_json
from ...accountant.regular_file import open_regular, regular_content
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


MAX_KEPT_BYTES: Final = 2**24

Row = TypeVar("Row")


def recall(
    stem: str, version: str | None, key: str, kind: Callable[..., Row]
) -> tuple[Row, ...] | None:
    """Return the rows of a kind that code of this version kept on this machine, or None."""
    try:
        rows = cast("list[dict[str, Any]]", read(stem, version, key))
        return tuple(kind(**row) for row in rows)
    except Exception:  # whatever is wrong with a cache, the answer is to compute
        return None


def keep(
    stem: str,
    version: str | None,
    key: str,
    rows: Iterable[Any],
    current: Callable[[], str | None],
) -> None:
    """Keep rows, which are dataclasses; do nothing if that fails.

    `version` is what it was before the code was loaded that computed them; if the source files
    have changed since, nobody knows which code it was, and nothing is kept.
    """
    with contextlib.suppress(Exception):
        # The code may have been edited while it computed; then the version says nothing of it.
        if current() == version:
            write(stem, version, key, [asdict(row) for row in rows])


def folder() -> Path:
    """Return the user's cache directory for privplan, which need not exist."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():  # one that is empty or relative is to be ignored
        base = given
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "privplan"


def read(stem: str, version: str | None, key: str) -> object:
    """Return what is kept under `key`; raise whatever there is to raise if it is not whole."""
    path = _path(stem, version)
    secret = known_key(path.parent)
    held = parsed_json(
        regular_content(path, MAX_KEPT_BYTES, within=path.parent), parse_constant=float
    )
    if not hmac.compare_digest(held["digest"], digest_of(held[key], path.name, secret)):
        raise ValueError("The file is not what was written.")
    return held[key]


def write(stem: str, version: str | None, key: str, content: object) -> None:
    """Keep `content` under `key`, and drop what other versions left; raise if that fails."""
    path = _path(stem, version)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = digest_of(content, path.name, key_of(path.parent))
    # One version is kept at a time: a changed source file would leave another file each time.
    for old in path.parent.glob(f"{stem}-*.json"):
        old.unlink(missing_ok=True)
    # Written aside and renamed, so that nobody reads half a file.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".kept-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"digest": digest, key: content}, stream)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def version_of(packages: Sequence[ModuleType], libraries: Sequence[str]) -> str | None:
    """Return a digest of all source files of the packages and what they run on; None if unknown."""
    try:
        return _version(packages, libraries)
    except Exception:
        return None


def digest_of(content: object, name: str, secret: bytes) -> str:
    """Return the digest, under a key, of what JSON can carry and of the name of its file."""
    kept = json.dumps([name, content], sort_keys=True).encode()
    return hmac.new(secret, kept, hashlib.sha256).hexdigest()


def _path(stem: str, version: str | None) -> Path:
    if version is None:
        raise FileNotFoundError("Nothing is kept where the version of the code is not known.")
    kept_in = folder()
    if kept_in.is_symlink():
        raise NotADirectoryError("A folder that is a link may be anybody's.")
    return kept_in / f"{stem}-{version}.json"


def _version(packages: Sequence[ModuleType], libraries: Sequence[str]) -> str:
    from importlib import metadata

    # Interpreter, libraries and sources decide the numbers; a change of any gives another name.
    digest = hashlib.sha256(sys.version.encode())
    for library in libraries:
        digest.update(f"{library} {metadata.version(library)}\n".encode())
    for package in packages:
        root = Path(package.__file__ or "").parent
        files = sorted(root.rglob("*.py"))
        if not files:
            raise FileNotFoundError("The source files are not at hand.")
        for file in files:
            content = file.read_bytes()
            name = file.relative_to(root).as_posix()
            # Name and length first: text that moves to the next file changes the digest.
            digest.update(f"{package.__name__} {name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:32]
