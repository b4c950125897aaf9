"""Masks: streams of AES-128 in counter mode that two parties add and subtract.

The stream of (key, session, round, label) starts from a key and a first counter block that are
derived for it alone, together with the kind and the number of words, so two masks share nothing
unless all of that is equal.  **Use each combination once**: two vectors under one mask give away
their difference.

Words are little-endian whatever the machine, so all platforms make the same mask.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .keys import derive

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

RingWords: TypeAlias = NDArray[np.uint32] | NDArray[np.uint64]

_CHUNK_BYTES: Final = 1 << 17
"""Bytes that are made and added at a time: they stay in the cache."""

_ZEROS: Final = bytes(_CHUNK_BYTES)

_WORD_LABELS: Final = {"u4": b"words of 32 bits", "u8": b"words of 64 bits"}

_OVERSAMPLED_BYTES: Final = 16
"""Bytes drawn beyond the modulus, so that the remainder is uniform up to 2^-128."""

_scratch = threading.local()


class Mask(NamedTuple):
    """One mask of a vector: the key, what it is for, and whether it is added (1) or taken off."""

    key: bytes
    label: bytes
    sign: Literal[1, -1]


def mask_into(
    words: RingWords, key: bytes, *, session: bytes, round: int, label: bytes, sign: Literal[1, -1]
) -> None:
    """Add (`sign` 1) or subtract (-1) a mask, in place and modulo 2^32 or 2^64.

    `words` is a contiguous vector of uint32 or uint64, `key` what the two parties agreed on (16
    bytes or more), `label` says what the mask is for (the pair, the tensor).  Raises
    `InvalidInput` for other arrays and signs.  Source: NIST SP 800-38A, section 6.5.

    >>> words = np.zeros(3, np.uint64)
    >>> mask_into(words, bytes(32), session=b"doc", round=1, label=b"pair", sign=1)
    >>> mask_into(words, bytes(32), session=b"doc", round=1, label=b"pair", sign=-1)
    >>> words.tolist()
    [0, 0, 0]
    """
    masks_into(words, [Mask(key, label, sign)], session=session, round=round)


def masks_into(words: RingWords, masks: Iterable[Mask], *, session: bytes, round: int) -> None:
    """Add and subtract several masks: as `mask_into` of each, a little faster.

    Every part of the vector meets all masks while it is in the cache.
    """
    kind, count = _kind(words), len(words)
    streams = [
        (
            _stream(mask.key, session, round, mask.label, _WORD_LABELS[kind], count),
            _change(mask.sign),
        )
        for mask in masks
    ]
    step = _CHUNK_BYTES // words.itemsize
    scratch = _buffer()
    drawn = np.frombuffer(scratch, f"<{kind}", step)
    for first in range(0, count, step):
        part = words[first : first + step]
        zeros, keystream = memoryview(_ZEROS)[: part.nbytes], drawn[: len(part)]
        # Each keystream goes on where the last part ended: encrypting zeros gives its bytes.
        for stream, change in streams:
            stream.update_into(zeros, scratch)
            change(part, keystream, out=part)


def words(
    key: bytes, count: int, *, session: bytes, round: int, label: bytes
) -> NDArray[np.uint64]:
    """Return the mask itself as `count` words of 64 bits: what `mask_into` adds to zeros."""
    out = np.zeros(validate.count_from(0, count=count), np.uint64)
    mask_into(out, key, session=session, round=round, label=label, sign=1)
    return out


def residues(
    key: bytes, count: int, modulus: int, *, session: bytes, round: int, label: bytes
) -> list[int]:
    """Return `count` integers in [0, `modulus`), each within 2^-128 of uniform.

    Each is a number of 128 bits more than the modulus, reduced.  For large moduli, such as those
    of Paillier ciphertexts.
    """
    if isinstance(modulus, bool) or not isinstance(modulus, int) or modulus < 2:
        raise InvalidInput("`modulus` must be an integer, 2 or above.")
    total = validate.count_from(0, count=count)
    size = (modulus.bit_length() + 7) // 8 + _OVERSAMPLED_BYTES
    kind = b"residues modulo " + modulus.to_bytes(size, "little")
    raw = _stream(key, session, round, label, kind, total).update(bytes(size * total))
    return [
        int.from_bytes(raw[first : first + size], "little") % modulus
        for first in range(0, len(raw), size)
    ]


def _change(sign: int) -> Any:
    if sign not in (1, -1):
        raise InvalidInput("`sign` must be 1 or -1.")
    return np.add if sign == 1 else np.subtract


def _kind(array: object) -> str:
    if (
        isinstance(array, np.ndarray)
        and array.ndim == 1
        and array.dtype in (np.dtype(np.uint32), np.dtype(np.uint64))
        and array.flags.c_contiguous
        and array.flags.writeable
    ):
        return f"u{array.itemsize}"
    raise InvalidInput(
        "`words` must be a contiguous and writeable vector of uint32 or uint64.",
        "The mask is added in place, modulo 2^32 or 2^64.",
    )


def _stream(
    key: bytes, session: bytes, round: int, label: bytes, kind: bytes, count: int
) -> CipherContext:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    round_number = validate.count_from(0, round=round)
    domain = b"".join(len(part).to_bytes(8, "little") + part for part in (session, label, kind))
    domain += round_number.to_bytes(8, "little") + count.to_bytes(8, "little")
    key_and_counter = derive(key, b"mask" + domain, 32)
    return Cipher(
        algorithms.AES128(key_and_counter[:16]), modes.CTR(key_and_counter[16:])
    ).encryptor()


def _buffer() -> bytearray:
    """Return this thread's scratch, with the slack that the cipher asks for."""
    scratch: bytearray | None = getattr(_scratch, "bytes", None)
    if scratch is None:
        scratch = _scratch.bytes = bytearray(_CHUNK_BYTES + 16)
    return scratch
