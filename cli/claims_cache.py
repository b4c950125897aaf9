"""Keeps the computed table of claims between runs, and never a stale number.

A file is named after a digest of every source file of the accountant, the interpreter and the
numerical libraries; whatever changes any of them makes the file invisible.  It holds a digest of
its own content as well.  A cache that cannot be read or written changes nothing but the time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..accountant.claims.claim import Claim

LIBRARIES: Final = ("numpy", "scipy")


def recall(system: str, version: str | None) -> tuple[Claim, ...] | None:
    """Return the claims of a system that code of this version computed, or None."""
    from ..accountant.claims.claim import Claim

    try:
        held = json.loads(_path(system, version).read_text(encoding="utf-8"))
        if held["digest"] != _digest_of(held["claims"]):
            return None
        return tuple(Claim(**row) for row in held["claims"])
    except Exception:  # whatever is wrong with a cache, the answer is to compute
        return None


def keep(system: str, claims: Sequence[Claim], version: str | None) -> None:
    """Keep the claims of a system, and drop what other versions left; do nothing if that fails.

    `version` is what it was before the code was loaded that computed them; if the source files
    have changed since, nobody knows which code it was, and nothing is kept.
    """
    rows = [asdict(claim) for claim in claims]
    with contextlib.suppress(Exception):
        path = _path(system, version)
        if current() != version:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"claims-{system}-*.json"):
            old.unlink(missing_ok=True)
        # Written aside and renamed, so that nobody reads half a file.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".claims-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump({"digest": _digest_of(rows), "claims": rows}, stream)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)


def current() -> str | None:
    """Return a digest of all that the numbers depend on; None if it cannot be told."""
    try:
        return _version()
    except Exception:
        return None


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


def _path(system: str, version: str | None) -> Path:
    if version is None:
        raise FileNotFoundError("Nothing is kept where the version of the code is not known.")
    return folder() / f"claims-{system}-{version}.json"


def _version() -> str:
    from importlib import metadata

    from .. import accountant

    digest = hashlib.sha256(sys.version.encode())
    for library in LIBRARIES:
        digest.update(f"{library} {metadata.version(library)}\n".encode())
    root = Path(accountant.__file__ or "").parent
    files = sorted(root.rglob("*.py"))
    if not files:
        raise FileNotFoundError("The accountant's source files are not at hand.")
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _digest_of(rows: object) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
