"""Keys that two parties agree on, signatures, and messages that only their receiver can read.

X25519 (RFC 7748) agrees on a key and HKDF-SHA256 (RFC 5869) derives it, bound to both public keys
and to a context; Ed25519 (RFC 8032) signs; ChaCha20-Poly1305 (RFC 8439) locks.  Keys come from the
operating system's generator and are `Secret`: they show themselves in no repr, message or pickle.
What another party sent and does not check out is a `ProtocolFault`, whose sentences hold no value.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Final, Generic, Self, TypeVar

from ...accountant import validate
from ...accountant.errors import InvalidInput, MissingExtra, ProtocolFault
from ...accountant.randomness import Secret, SecretHolder

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError
except ImportError:
    raise MissingExtra(
        "Protocols between parties need the packages cryptography and pynacl; one is missing.",
        "Keys, masks and signatures come from them.",
        'Install the extra: pip install "privplan[fl]".',
    ) from None

KEY_BYTES: Final = 32
"""Bytes of every key here, private, public or agreed."""

SIGNATURE_BYTES: Final = 64

LOCK_BYTES: Final = 12 + 16
"""By how much a locked message is longer than what it holds: nonce and tag."""

_FIELD: Final = 2**255 - 19
_LONGEST_DERIVED: Final = 255 * 32
_LEAST_SECRET: Final = 16


def fresh(length: int = KEY_BYTES) -> Secret:
    """Return `length` secret bytes from the operating system's generator."""
    return Secret(os.urandom(validate.count(length=length)))


def derive(secret: bytes, label: bytes, length: int = KEY_BYTES) -> Secret:
    """Return `length` bytes derived from a secret, by HKDF-SHA256; another label, other bytes.

    The secret must be uniform or a key agreed on, 16 bytes or more; `length` is at most 8160.
    Raises `InvalidInput` otherwise.  Source: RFC 5869.
    """
    if len(secret) < _LEAST_SECRET:
        raise InvalidInput(
            f"A secret to derive from must have at least {_LEAST_SECRET} bytes.",
            "Fewer could be found by trying them all.",
            "Draw it with `fresh`.",
        )
    if validate.count(length=length) > _LONGEST_DERIVED:
        raise InvalidInput(f"`length` must be at most {_LONGEST_DERIVED}; it is {length}.")
    return _hkdf(secret, b"privplan derive" + label, length)


PrivateKey = TypeVar("PrivateKey", X25519PrivateKey, Ed25519PrivateKey)


class _Pair(SecretHolder, ABC, Generic[PrivateKey]):
    """A private key of the library, with its public half; neither printed nor copied."""

    __slots__ = ("_private", "public")

    def __init__(self, private: PrivateKey) -> None:
        """Take the library's key; `new` and `restore` call this."""
        self._private: PrivateKey = private
        self.public: bytes = private.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> Self:
        """Return a fresh pair."""
        return cls.restore(fresh())

    @classmethod
    @abstractmethod
    def restore(cls, secret: bytes) -> Self:
        """Return the pair with this secret half."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret>)"


class KeyPair(_Pair[X25519PrivateKey]):
    """An X25519 key pair; `new` draws one, `restore` makes it again from its secret half.

    `public` is for everybody: 32 bytes.
    """

    __slots__ = ()

    @classmethod
    def restore(cls, secret: bytes) -> Self:
        """Return the pair with this secret half, for instance from shares of it.

        Raises `ProtocolFault` for another length than 32 bytes.
        """
        if len(secret) != KEY_BYTES:
            raise _fault("A private key does not have 32 bytes.")
        return cls(X25519PrivateKey.from_private_bytes(secret))

    @property
    def secret(self) -> Secret:
        """The secret half: 32 bytes, to be shared out among others or kept."""
        return Secret(self._private.private_bytes_raw())

    def exchange(self, public: bytes) -> Secret:
        """Return the raw Diffie-Hellman value; for `agree`, which derives a key from it."""
        try:
            return Secret(self._private.exchange(X25519PublicKey.from_public_bytes(public)))
        except ValueError:  # the all-zero result of a point of low order
            raise _bad_point() from None


def agree(own: KeyPair, public: bytes, context: bytes) -> Secret:
    """Return the key of 32 bytes that two parties share, the same on both sides.

        HKDF-SHA256(X25519(own, public), info = (context, smaller public key, larger public key))

    The key is good for this pair and this context only: name in it the protocol, the session and
    the purpose.  Who the public keys belong to is for signatures to say.

    Raises `ProtocolFault` for a public key that has not 32 bytes, is no canonical field element,
    has low order, or is one's own (sent back by an attacker).  Source: RFC 7748, section 6.1.
    """
    check_public(public)
    if public == own.public:
        raise _fault("A party was given its own public key as another's.")
    first, second = sorted((own.public, bytes(public)))
    info = b"privplan agree" + len(context).to_bytes(8, "little") + context + first + second
    return _hkdf(own.exchange(public), info, KEY_BYTES)


def check_public(public: bytes) -> bytes:
    """Return an X25519 public key that is well formed and canonical, else `ProtocolFault`.

    That its order is not low is only seen by `agree`.
    """
    if len(public) != KEY_BYTES or int.from_bytes(public, "little") >= _FIELD:
        raise _bad_point()
    return bytes(public)


class Identity(_Pair[Ed25519PrivateKey]):
    """An Ed25519 key pair that signs; `public` (32 bytes) is what others know a party by."""

    __slots__ = ()

    @classmethod
    def restore(cls, secret: bytes) -> Self:
        """Return the identity with this secret seed of 32 bytes; `InvalidInput` otherwise."""
        if len(secret) != KEY_BYTES:
            raise InvalidInput("The secret of an identity must have 32 bytes.")
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    def sign(self, content: bytes) -> bytes:
        """Return a signature of 64 bytes."""
        return self._private.sign(content)


def verify(public: bytes, signature: bytes, content: bytes) -> None:
    """Raise `ProtocolFault` unless `signature` is one of `content` by this identity."""
    # Parties check many signatures, and libsodium takes a third of OpenSSL's time for one.  It also
    # refuses keys of low order.  It reads as many bytes of a key as there should be.
    right = len(public) == KEY_BYTES and len(signature) == SIGNATURE_BYTES
    try:
        if right:
            crypto_sign_open(bytes(signature) + content, bytes(public))
    except BadSignatureError:
        right = False
    if not right:
        raise _fault("A signature is not right.")


def check_relayed(
    name: str,
    public: bytes,
    publics: Mapping[str, bytes],
    signatures: Mapping[str, bytes],
    names: Collection[str],
) -> None:
    """Raise `ProtocolFault` unless a server that relays public keys has kept to its part.

    It must hand the party `name` one key and one signature of every party, no key twice, and the
    party's own (`public`) as it was sent.  Who signed the others is for `verify` to say.
    """
    wrong = None
    if set(publics) != set(names) or set(signatures) != set(names):
        wrong = "not given one key of every party"
    elif not hmac.compare_digest(publics[name], public):
        wrong = "given another key in its own name"
    elif len(set(publics.values())) != len(names):
        wrong = "given one key under two names"
    if wrong:
        raise relayed_fault(f"{name} was {wrong}.")


def relayed_fault(what: str) -> ProtocolFault:
    """Return the error of what a server relayed otherwise than it was sent."""
    return ProtocolFault(
        what,
        "The server relays the keys, and could put one of its own among them.",
        "Find out what the server did, and begin a new session.",
    )


def lock(key: bytes, plaintext: bytes, associated: bytes) -> bytes:
    """Return `plaintext` locked under a key of 32 bytes: nonce (12), ciphertext, tag (16).

    `associated` is not sent but must be the same to unlock: name in it the session, the round,
    the step, the sender and the receiver, so that no message passes for another.  The nonce is
    random: good for 2^32 messages under one key.  Source: RFC 8439.
    """
    nonce = os.urandom(12)
    return nonce + _cipher(key).encrypt(nonce, plaintext, associated)


def unlock(key: bytes, locked: bytes, associated: bytes) -> Secret:
    """Return what `lock` was given; `ProtocolFault` if any bit of it or `associated` differs."""
    try:
        return Secret(_cipher(key).decrypt(locked[:12], locked[12:], associated))
    except (InvalidTag, ValueError):
        raise _fault("A locked message does not open.") from None


def _cipher(key: bytes) -> ChaCha20Poly1305:
    if len(key) != KEY_BYTES:
        raise InvalidInput("A key to lock with must have 32 bytes.")
    return ChaCha20Poly1305(key)


def framed(purpose: bytes, *parts: bytes) -> bytes:
    """Return a digest of parts for one purpose, each after its length: what is signed or bound."""
    digest = hashlib.sha256(purpose)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _hkdf(secret: bytes, info: bytes, length: int) -> Secret:
    return Secret(HKDF(hashes.SHA256(), length, salt=None, info=info).derive(secret))


def _bad_point() -> ProtocolFault:
    return _fault("A public key is malformed, or of low order.")


def _fault(what: str) -> ProtocolFault:
    return ProtocolFault(
        what,
        "The party that sent it is broken or dishonest, or somebody changed it on its way.",
        "Find out where it came from, and begin again with new keys.",
    )
