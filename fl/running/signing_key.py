"""The private key that signs the log of a run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import regular_content
from ..log.signing import require_library
from ..settings.schema import Settings

MAX_KEY_BYTES: Final = 2**16

OPEN_KEY_WARNING: Final = (
    "Others can read or change the private key that signs this log, so a signature proves less. "
    "Close it: chmod 600 {path}"
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def signing_key(settings: Settings) -> Ed25519PrivateKey | None:
    """Return the Ed25519 private key that `[log] sign_key` names, or None.

    Raises as `private_key`.
    """
    path = settings.log.sign_key
    return None if path is None else private_key(path, "`sign_key` in [log]")


def private_key(path: Path, named_by: str) -> Ed25519PrivateKey:
    """Return the Ed25519 private key in a file; `named_by` says what named it, for messages.

    Raises `InvalidInput` for a file that holds none (the message shows nothing of it), and
    `MissingExtra` without `cryptography`.
    """
    require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: object = None
    with contextlib.suppress(OSError, ValueError, TypeError, RuntimeError, UnsupportedAlgorithm):
        pem = regular_content(path.expanduser(), MAX_KEY_BYTES)
        key = load_pem_private_key(pem, password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"The file that {named_by} names holds no Ed25519 private key.",
            "It must be PEM, not encrypted, and readable.",
            "Make one: openssl genpkey -algorithm ed25519 -out key.pem",
        )
    return key


def key_is_open(path: Path) -> bool:
    """Return whether others than its owner can read or change the file of a key."""
    try:
        return bool(path.expanduser().stat().st_mode & 0o066)
    except OSError:
        return False
