"""What a receipt of a ledger signs, and whether it is of the claim that a client made.

A ledger's key signs the number and the hash of an entry, all balances after it, the id of the claim
that it is about, the state that the claim has then, and a digest of what was asked: data set,
blocks, project, event and the key of the request.  So nobody but the ledger can say that a claim is
begun, and no receipt of one claim passes for that of another.
Source: Ed25519, RFC 8032.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..log.hash_chain import canonical, digest
from ..log.signing import require_library

STATEMENT_PREFIX: Final = b"privplan-ledger/1 statement\n"
"""Domain separation: prefixed to what is signed, so that no other signature by the key fits."""

_SIGNED_BY: Final = ("key", "signature")


def content_of(
    data_set: str,
    blocks: Sequence[str] | None,
    project: str,
    event: Mapping[str, Any],
    begin: bool,
    stated: Mapping[str, Any] | None,
) -> str:
    """Return the digest of what is claimed; None stands for all blocks."""
    named = None if blocks is None else sorted(blocks)
    said = [data_set, named, project, dict(event), begin, None if stated is None else dict(stated)]
    return digest(canonical(said))


def request_of(content: str, key: str) -> str:
    """Return the digest of a request: of what is claimed, and of its Idempotency-Key.

    A receipt has it, so that one of the same content that was claimed before is another one.
    """
    return digest(canonical([content, key]))


def signature_holds(key: str, signature: str, message: bytes) -> bool:
    """Return whether a signature by a public key, both in hex, is one of this message."""
    library = require_library()
    from cryptography.exceptions import InvalidSignature

    try:
        public = library.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_signed(receipt: Mapping[str, Any]) -> bool:
    """Return whether the key that a head or a receipt names has signed it."""
    key, signature = (receipt.get(name) for name in _SIGNED_BY)
    if not isinstance(key, str) or not isinstance(signature, str):
        return False
    said = {name: value for name, value in receipt.items() if name not in _SIGNED_BY}
    return signature_holds(key, signature, STATEMENT_PREFIX + canonical(said).encode("ascii"))
