"""Randomness that protects people: ChaCha20 streams under keys that never leave this module.

A run has one root of 32 bytes, from the operating system (`Streams.secure`) or from a seed
(`Streams.seeded`: tests and replications, no protection).  Every name has a stream with a key of
its own, keyed BLAKE2b of the name under the root, and a stream is the ChaCha20 keystream
(RFC 8439) under that key; `position` counts its bytes, so what was drawn can be stated as a range
and never drawn twice.

The functions at the end turn streams into exact draws: no float is rounded on the way.

Keys stand in no attribute, repr, pickle or message, and a process that was forked from the one
that made a stream is refused its bytes, which the parent would draw as well.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

import numpy as np

from . import records, validate
from .arrays import BoolArray, IntArray, UInt64Array
from .errors import InvalidInput, MissingExtra, PrivplanError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Octets: TypeAlias = bytes

_BLOCK_BYTES: Final = 64
"""Bytes of one ChaCha20 block."""

_COUNTER_BYTES: Final = _BLOCK_BYTES << 32
"""Bytes until the 32-bit block counter wraps around and the nonce grows."""

_ZEROS: Final = bytes(1 << 18)
"""Zeros to encrypt, a cache's worth at a time."""

_MAX_STREAM_BYTES: Final = 1 << 62
"""Bytes of one stream; no run comes near."""

_forks = [0]
"""How often this process was forked from one that had streams."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _forks.__setitem__(0, _forks[0] + 1))


class SecretHolder:
    """The base of what is never pickled or copied: streams, keys, and what a party knows.

    A second copy would draw the same bytes again, or leave its party.
    """

    __slots__ = ()

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__}: what is secret is not pickled or copied.")


class Secret(SecretHolder, bytes):
    """Bytes that show themselves to nobody: not in a repr, a message, a traceback or a pickle."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return "<secret>"


class _Keystream(SecretHolder):
    """The ChaCha20 keystream of one key, read from its start.

    `position` moves before bytes are made, so that a draw that is interrupted has used up its own,
    and the cipher is set to `position` again before the next one.
    """

    __slots__ = ("_encryptor", "_key", "_lock", "_offset", "_process", "position")

    def __init__(self, key: Secret) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._process = _process_id()
        self._encryptor = _encryptor(key, 0)
        self._offset = 0  # of the cipher, in bytes
        self.position = 0

    def fill(self, out: memoryview) -> None:
        """Fill a buffer with the next bytes."""
        with self._lock:
            _refuse_other_process(self._process)
            first = self.position
            if first + len(out) > _MAX_STREAM_BYTES:
                raise InvalidInput("A stream of randomness is used up.")
            # Moved first: bytes of a draw that is interrupted are never handed out again.
            self.position = first + len(out)
            if self._offset != first:
                self._seek(first)
            done = 0
            while done < len(out):
                # The cipher encrypts zeros, a chunk at a time and never past the 32-bit counter.
                until_wrap = _COUNTER_BYTES - self._offset % _COUNTER_BYTES
                step = min(len(out) - done, len(_ZEROS), until_wrap)
                zeros = memoryview(_ZEROS)[:step]
                self._encryptor.update_into(zeros, out[done : done + step])
                if step == until_wrap:
                    self._encryptor = _encryptor(self._key, (self._offset + step) // _BLOCK_BYTES)
                done += step
                self._offset += step

    def _seek(self, offset: int) -> None:
        # Ciphers start at whole blocks: the bytes before the offset are drawn and dropped.
        block, skipped = divmod(offset, _BLOCK_BYTES)
        self._encryptor = _encryptor(self._key, block)
        self._encryptor.update(bytes(skipped))
        self._offset = offset


class Stream(SecretHolder):
    """Random bytes under one key, each drawn once; `Streams.stream` hands them out.

    `id` is a one-way public name of the key, `position` the number of bytes drawn so far.  Safe to
    use from several threads.  Raises `PrivplanError` in a forked process.
    """

    __slots__ = ("_check", "_keystream", "id")

    def __init__(self, keystream: _Keystream, name: str, check: Callable[[], None] | None) -> None:
        self._keystream = keystream
        self._check = check
        self.id = name

    @property
    def position(self) -> int:
        """How many bytes were drawn."""
        return self._keystream.position

    def bytes(self, count: int) -> Octets:
        """Return the next `count` bytes."""
        out = bytearray(validate.count_from(0, count=count))
        self._fill(memoryview(out))
        return bytes(out)

    def integers64(self, count: int) -> UInt64Array:
        """Return the next `count` integers, uniform in [0, 2^64): shape (count,)."""
        out = bytearray(8 * validate.count_from(0, count=count))
        self._fill(memoryview(out))
        return np.frombuffer(out, dtype="<u8").astype(np.uint64, copy=False)

    def range_since(self, first: int) -> records.StreamRange:
        """Return the bytes drawn since `position` was `first`, as the log states them."""
        return records.StreamRange(self.id, first, self.position)

    def fork(self) -> Stream:
        """Return a stream under a key made of the next 32 bytes.

        It takes as many bytes as its use needs, where the use must not show: the parent moves on
        by 32 bytes, whatever the data.
        """
        return _stream(Secret(self.bytes(32)), self._check)

    def guarded(self, check: Callable[[], None]) -> Stream:
        """Return the same stream, which calls `check` (it may raise) before it gives bytes."""
        return Stream(self._keystream, self.id, check)

    def _fill(self, out: memoryview) -> None:
        if self._check is not None:
            self._check()
        self._keystream.fill(out)

    def __repr__(self) -> str:
        return f"Stream(id={self.id!r}, position={self.position})"


class Streams(SecretHolder):
    """All streams of one segment of a run: from its start, or from one resumption to the next.

    >>> streams = Streams.seeded(7)
    >>> streams.facts.source, streams.stream("noise").position
    ('seeded', 0)
    """

    __slots__ = ("_lock", "_process", "_root", "_streams", "facts")

    def __init__(self, root: Secret, facts: records.Randomness) -> None:
        """Take the root key; `secure` and `seeded` call this."""
        self._root = hashlib.blake2b(key=root, digest_size=32, person=b"privplan-stream")
        self._streams: dict[str, Stream] = {}
        self._lock = threading.Lock()
        self._process = _process_id()
        self.facts = facts

    @classmethod
    def secure(cls) -> Streams:
        """Return streams whose root comes from the operating system's generator."""
        return cls(Secret(os.urandom(32)), records.Randomness("operating-system"))

    @classmethod
    def seeded(cls, seed: int, segment: int = 0) -> Streams:
        """Return streams that anybody who knows the seed can repeat: they protect nobody.

        `segment` counts the resumptions of a run (0 or above), so that none repeats another's
        bytes.
        """
        text = f"{validate.count_from(0, seed=seed)}/{validate.count_from(0, segment=segment)}"
        root = hashlib.blake2b(text.encode(), digest_size=32, person=b"privplan-seed")
        return cls(Secret(root.digest()), records.Randomness("seeded"))

    def stream(self, name: str) -> Stream:
        """Return the stream of a name: the same one, further on, whenever it is asked for."""
        if not isinstance(name, str) or not name:
            raise InvalidInput("A stream needs a name.", next_step="Give `name` some text.")
        _refuse_other_process(self._process)
        with self._lock:
            if name not in self._streams:
                # Keyed BLAKE2b of the name: names give unrelated keys, and none tells the root.
                key = self._root.copy()
                key.update(name.encode("utf-8", "surrogatepass"))
                self._streams[name] = _stream(Secret(key.digest()), None)
            return self._streams[name]

    def __repr__(self) -> str:
        return f"Streams(source={self.facts.source!r}, streams={len(self._streams)})"


def poisson(stream: Stream, count: int, rate: float) -> BoolArray:
    """Return who takes part: each of `count` independently, with probability at most `rate`.

    The probability is floor(2^64 rate) / 2^64: `rate` itself from 2^-11 on (a float has 53 bits),
    else less by under 2^-64.  A smaller rate reveals less, so the accounted rate covers it.
    """
    # floor(2^64 rate): errs towards fewer units, which the accounted rate covers.
    threshold = int(Fraction(validate.probability(rate=rate)) * 2**64)
    words = stream.integers64(count)
    if threshold >= 2**64:
        return np.ones(len(words), dtype=bool)
    return np.asarray(words < np.uint64(threshold))


def uniform(stream: Stream, count: int, below: int) -> IntArray:
    """Return `count` integers, exactly uniform in [0, `below`), by rejection.

    Range: 1 <= `below` <= 10^18.
    """
    # The largest word of whole multiples of `below`: words above it would favour small residues.
    largest_fair = np.uint64(2**64 // validate.count(below=below) * below - 1)
    drawn: UInt64Array = np.empty(0, dtype=np.uint64)
    needed = validate.count_from(0, count=count)
    while len(drawn) < needed:
        words = stream.integers64(needed - len(drawn))
        drawn = np.concatenate((drawn, words[words <= largest_fair] % np.uint64(below)))
    return drawn.astype(np.int64)


def permutation(stream: Stream, count: int) -> IntArray:
    """Return the integers below `count` in an order that is exactly uniform.

    Sorted by random words; where two are equal, all are drawn again, and given that they differ
    every order is as likely as any other.
    """
    while True:
        words = stream.integers64(count)
        # Distinct uniform words are in every order equally often; a tie draws all again.
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order.astype(np.int64)


def grouped_order(stream: Stream, groups: IntArray) -> IntArray:
    """Return indices sorted by group, and within each group in an order that is exactly uniform.

    `groups` (n,); the result is (n,).  A uniform order of all, sorted by group where it stays as it
    is within one: what it makes of disjoint groups is uniform for each, and independent.
    """
    order = permutation(stream, len(groups))
    return np.asarray(order[np.argsort(groups[order], kind="stable")])


def choice(stream: Stream, count: int, chosen: int) -> IntArray:
    """Return a uniformly random set of `chosen` integers below `count`, ascending."""
    if validate.count_from(0, chosen=chosen) > validate.count_from(0, count=count):
        raise InvalidInput(f"`chosen` must be at most {count}; it is {chosen}.")
    return np.sort(permutation(stream, count)[:chosen])


def _stream(key: Secret, check: Callable[[], None] | None) -> Stream:
    name = hashlib.blake2b(key=key, digest_size=16, person=b"privplan-name").hexdigest()
    return Stream(_Keystream(key), name, check)


def _encryptor(key: Secret, block: int) -> CipherContext:
    """Return the cipher at a block: a counter of 32 bits, and the rest in the nonce."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    except ImportError:
        raise MissingExtra(
            "Drawing noise needs the package cryptography, which is not installed.",
            "Protective noise comes from its ChaCha20 cipher.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None
    cipher = Cipher(algorithms.ChaCha20(key, block.to_bytes(16, "little")), mode=None)
    return cipher.encryptor()


def _process_id() -> tuple[int, int]:
    return os.getpid(), _forks[0]


def _refuse_other_process(process: tuple[int, int]) -> None:
    """Refuse to draw in another process than the one where a stream was made."""
    if process != _process_id():
        raise PrivplanError(
            "A stream of randomness cannot be used in a forked process.",
            "The parent would draw the same bytes again, and equal noise cancels out.",
            "Make a new Streams in the child, or draw in the parent.",
        )
