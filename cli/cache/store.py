"""Keeps computed answers between runs, and never a stale one.

A file is named after a digest of the source files that computed it, the interpreter and the
numerical libraries; whatever changes any of them makes the file invisible.  It is signed with a key
of the user (`cache_key`), name and content, so that what somebody else wrote, or moved to another
name, is computed again.  A folder that is a link is not followed.  A cache that cannot be read or
written changes nothing but the time.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from ...accountant.regular_file import regular_content
from .cache_key import key_of, known_key

MAX_KEPT_BYTES: Final = 2**24


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
    held = json.loads(regular_content(path, MAX_KEPT_BYTES, within=path.parent))
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
