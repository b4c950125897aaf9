"""Keys of ledgers that a client has seen: the first is believed, and another one is refused.

Each stands in a file of its own, named by a digest of the ledger's address, in the folder of the
variable PRIVPLAN_LEDGER_KEYS (without: `privplan/ledger-keys` where the user's settings are).
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import regular_content
from ..log.hash_chain import digest, is_hash
from . import KEYS_VARIABLE

_MAX_KEPT_KEY_BYTES: Final = 2**14


def key_file(url: str) -> Path:
    """Return the file of the key of a ledger."""
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
    return _folder() / f"{digest(json.dumps(address))[:32]}.json"


def remembered_key(url: str) -> str | None:
    """Return the key that a ledger had when it was first seen; None for a ledger that is new.

    Raises `InvalidInput` where the file cannot be read: that is no reason to believe another key.
    """
    path = key_file(url)
    try:
        key = json.loads(regular_content(path, _MAX_KEPT_KEY_BYTES))["key"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, LookupError, TypeError):
        key = None
    if not isinstance(key, str) or not is_hash(key):
        raise InvalidInput(
            f"{path} does not hold the key of the ledger at {url}.",
            "Without it, nobody knows whose receipts they are.",
            "Give the key that `privplan serve` prints (`key=`), or remove the file.",
        )
    return key


def remember(url: str, key: str) -> str:
    """Keep the key of a ledger that is new, and return the one that is kept.

    Another program may have kept one meanwhile.  Raises `InvalidInput` where it cannot be written.
    """
    path = key_file(url)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            new.write_text(json.dumps({"url": url, "key": key}), encoding="ascii")
            new.chmod(0o600)
            # Unlike a rename, it fails where there is one.
            os.link(new, path)
        except FileExistsError:
            pass
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"The key of the ledger cannot be kept in {path.parent}: {error.strerror}.",
            "The next time, nobody would know whether another one answers in its place.",
            f"Give the key that `privplan serve` prints (`key=`), or a folder: {KEYS_VARIABLE}.",
        ) from None
    return remembered_key(url) or key


def _folder() -> Path:
    given = os.environ.get(KEYS_VARIABLE, "")
    if given:
        return Path(given)
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    settings = base if base.is_absolute() else Path.home() / ".config"
    return settings / "privplan" / "ledger-keys"
