"""Signatures of heads, by Ed25519: whoever has the public key needs no other anchor.

A signature covers the hash of the line before it, and through the chain every earlier line.  It
says nothing about lines that were cut off behind it.
Source: RFC 8032.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ...accountant.errors import InvalidInput, MissingExtra
from ...accountant.records import Head

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PURPOSE: Final = b"privplan-log/1 head\n"
"""Stands before the hash in what is signed, so that no other signature of the key fits here."""

OTHER_KEY: Final = "it is signed by another key"
"""What is wrong with a signature that may hold, by a key that is not the given one."""

_MAX_KEY_FILE_BYTES: Final = 1 << 16
"""Most bytes that are read as a public key."""


def signed(key: Ed25519PrivateKey, head: str) -> Head:
    """Return the signature of a hash."""
    signature = key.sign(PURPOSE + head.encode("ascii"))
    return Head(key.public_key().public_bytes_raw().hex(), signature.hex())


def complaint(key: Ed25519PublicKey, head: Head, prev: str) -> str | None:
    """Return what is wrong with a signature of the hash `prev`; None where it holds."""
    require_library()
    from cryptography.exceptions import InvalidSignature

    if head.key != key.public_bytes_raw().hex():
        return OTHER_KEY
    # What is signed is the hash of the line before, and with it the whole chain up to there.
    try:
        key.verify(bytes.fromhex(head.signature), PURPOSE + prev.encode("ascii"))
    except (InvalidSignature, ValueError):
        return "its signature does not fit the line before"
    return None


def key_beside(head: Head) -> Ed25519PublicKey | None:
    """Return the public key that a signature names itself; None where it is no key.

    Whoever signs anew puts a key of their own there.  Raises `MissingExtra` without `cryptography`.
    """
    library = require_library()
    try:
        key = library.Ed25519PublicKey.from_public_bytes(bytes.fromhex(head.key))
    except ValueError:
        return None
    return cast("Ed25519PublicKey", key)


def public_key(path: str | Path) -> Ed25519PublicKey:
    """Return the public key in a file: PEM, or 64 hexadecimal digits.

    Raises `InvalidInput` for anything else, `MissingExtra` without `cryptography`.
    """
    library = require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_KEY_FILE_BYTES).strip()
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
    """Return the module of Ed25519; raise `MissingExtra` where `cryptography` is absent."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise MissingExtra(
            "Signatures need the package `cryptography`.",
            "It comes with the extra `fl`.",
            "pip install 'privplan[fl]'",
        ) from None
    return ed25519
