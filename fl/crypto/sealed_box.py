"""Messages that anybody can lock for the holder of a key, and nobody can trace to who did.

libsodium's sealed box: a fresh X25519 key for each message agrees with the receiver's, and
XSalsa20-Poly1305 locks it.  It is as much longer for every message, and two boxes of one content
look as different as any two.  It says nothing of who made it, and binds to no context: whoever
opens one must find in it where it belongs.

Boxes are locked and opened in batches that processes may share.  Each process gets what it works on
through a pipe, the private key of who opens among it; libsodium draws the fresh keys from the
operating system in each.
Source: libsodium, `crypto_box_seal`; RFC 7748.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...accountant.errors import MissingExtra
from ...accountant.randomness import Secret, SecretHolder
from .keys import check_public
from .paillier.processes import SERIAL, Workers

try:
    from nacl.bindings import crypto_box_keypair, crypto_box_seal, crypto_box_seal_open
    from nacl.exceptions import CryptoError
except ImportError:
    raise MissingExtra(
        "Sealed messages need the package pynacl, which is not installed.",
        "libsodium locks them.",
        'Install the extra: pip install "privplan[fl]".',
    ) from None

BOX_BYTES: Final = 32 + 16
"""By how much a box is longer than what it holds: a public key and a tag."""


class BoxKey(SecretHolder):
    """The key pair of who opens boxes; `public` (32 bytes) is for everybody."""

    __slots__ = ("_secret", "public")

    def __init__(self) -> None:
        public, secret = crypto_box_keypair()
        self.public: bytes = public
        self._secret = Secret(secret)

    def opened(self, boxes: Iterable[bytes], workers: Workers = SERIAL) -> list[Secret | None]:
        """Return what is in each box; None for one that does not open."""
        contents = workers.spread(_opened, list(boxes), self.public, bytes(self._secret))
        return [None if content is None else Secret(content) for content in contents]

    def __repr__(self) -> str:
        return "BoxKey(<secret>)"


def sealed(public: bytes, contents: Iterable[bytes], workers: Workers = SERIAL) -> bytes:
    """Return a box for each content, end to end, each `BOX_BYTES` longer than what it holds.

    Raises `ProtocolFault` for a key that is malformed.
    """
    key = check_public(public)
    boxes: list[bytes] = workers.spread(_sealed, list(contents), key)
    return b"".join(boxes)


def _sealed(contents: list[bytes], public: bytes) -> list[bytes]:
    return [crypto_box_seal(content, public) for content in contents]


def _opened(boxes: list[bytes], public: bytes, secret: bytes) -> list[bytes | None]:
    return [_opened_or_none(box, public, secret) for box in boxes]


def _opened_or_none(box: bytes, public: bytes, secret: bytes) -> bytes | None:
    try:
        return bytes(crypto_box_seal_open(box, public, secret))
    except (CryptoError, TypeError, ValueError):
        return None
