"""Ed25519 signatures in a log; with the public key its lines can be verified.

The head of a log is the hash of its last line.  A signature covers the head at its place, which is
the hash of the line before it, and through the hash chain every earlier line.  It does not show
whether lines after it were cut off.
Source: RFC 8032.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ...accountant.errors import InvalidInput, MissingExtra
from ...accountant.records import Head
from ...accountant.regular_file import regular_content

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PURPOSE: Final = b"privplan-log/1 head\n"
"""Domain separation: prefixed to the signed hash, so that no other signature by the key fits."""

OTHER_KEY: Final = "it is signed by another key"
"""The fault of a signature by a key that is not the given one, whether or not it is valid."""

_MAX_KEY_FILE_BYTES: Final = 1 << 16
"""Most bytes of a public key file that are read."""


def signed(key: Ed25519PrivateKey, head: str) -> Head:
    """Return the record with the signature of `head`, a hash in hexadecimal digits."""
    signature = key.sign(PURPOSE + head.encode("ascii"))
    return Head(key.public_key().public_bytes_raw().hex(), signature.hex())


def complaint(key: Ed25519PublicKey, head: Head, prev: str) -> str | None:
    """Return what is wrong with `head` as a signature of the hash `prev` by `key`, else None.

    Raises `MissingExtra` where the package cryptography is not installed.
    """
    require_library()
    from cryptography.exceptions import InvalidSignature

    if head.key != key.public_bytes_raw().hex():
        return OTHER_KEY
    # `prev` is the hash of the line before, and so of the whole chain up to there.
    try:
        key.verify(bytes.fromhex(head.signature), PURPOSE + prev.encode("ascii"))
    except (InvalidSignature, ValueError):
        return "its signature does not fit the line before"
    return None


def stated_key(head: Head) -> Ed25519PublicKey | None:
    """Return the public key that the log states with a signature; None where it is no key.

    It does not authenticate the signer: whoever rewrites a log can sign it with a key of their own.
    Raises `MissingExtra` where the package cryptography is not installed.
    """
    library = require_library()
    try:
        key = library.Ed25519PublicKey.from_public_bytes(bytes.fromhex(head.key))
    except ValueError:
        return None
    return cast("Ed25519PublicKey", key)


def public_key(path: str | Path) -> Ed25519PublicKey:
    """Return the public key in a file: PEM, or 64 hexadecimal digits.

    Raises `InvalidInput` for anything else, and `MissingExtra` where the package cryptography is
    not installed.
    """
    library = require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        data = regular_content(path, _MAX_KEY_FILE_BYTES).strip()
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.",
            "It must hold the public key of whoever signed the log.",
            "Give the file that the signer published.",
        ) from None
    try:
        if data.startswith(b"-----"):
            key: object = load_pem_public_key(data)
        else:
            key = library.Ed25519PublicKey.from_public_bytes(bytes.fromhex(data.decode("ascii")))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, library.Ed25519PublicKey):
        raise InvalidInput(
            f"{path} holds no Ed25519 public key.",
            "Logs are signed with Ed25519.",
            "Give it as PEM, or as 64 hexadecimal digits.",
        )
    return cast("Ed25519PublicKey", key)


def require_library() -> Any:
    """Return the module of Ed25519; raises `MissingExtra` without the package cryptography."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise MissingExtra(
            "Signatures need the package `cryptography`.",
            "It comes with the extra `fl`.",
            "pip install 'privplan[fl]'",
        ) from None
    return ed25519
