"""Oblivious transfer, 1 of P: a receiver learns one message of P, the sender not which.

Many transfers at once, one for each user, between the same two parties:

    sender     y random, S = yB, T = yS                                    sends S
    receiver   x random, R = cS + xB, key H(.., S, R, xS)                  sends R
    sender     key_j = H(.., S, R, yR - jT), message j under key_j         sends all P
    receiver   opens message c with its one key

In the group of prime order of Ed25519, with B its base point.  R is uniform whatever c is, so the
sender learns nothing of c, even if it does not follow the protocol (but see below).  A receiver
that follows it knows the key of slot c alone: another one takes y^2 B, from yB (Diffie-Hellman,
and H as a random oracle).

What that rests on, and where it is held:

- S and R are points of that group and not its zero: a point with a part of small order in S would
  show c mod 8 in R.  Checked on arrival.
- cS is looked up in a table of all multiples of S, by masks over the whole table, c = 0 being the
  zero point like any other entry; the message is selected from the answer in the same way.  No
  branch and no address depends on c in this module, and numpy's integer operations and libsodium's
  additions take the same time for all values.  That is as far as it goes: the caller's own work on
  the choices is outside, and Python wipes no memory.
- x is fresh for each user of each `Receiver`, y for each `Sender`; H binds session, round, silo,
  the numbers of users and slots, the user, S and R.  So a key never has a second use, and
  ChaCha20-Poly1305 runs with a zero nonce.  A retry resends the same bytes, a sender that has
  answered answers no other request, and a receiver takes no other answer.

A sender that spoils one slot on purpose sees whether the receiver fails: what is proven holds for
senders that follow the protocol.  A failure stops the round for everybody.

Source: Chou and Orlandi 2015, *The Simplest Protocol for Oblivious Transfer*, for the protocol;
Kato et al. 2024, arXiv 2308.12210, for its use: sampling users unseen by the server and the silos.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...accountant import records, validate
from ...accountant.arrays import BoolArray, IntArray
from ...accountant.errors import InvalidInput, MissingExtra, ProtocolFault
from ...accountant.randomness import Secret, SecretHolder, Stream, Streams, uniform
from .keys import fresh

POINT_BYTES: Final = 32
"""Bytes of a point, and of a scalar."""

TAG_BYTES: Final = 16
"""Bytes by which a message grows."""

_ZERO_POINT: Final = bytes([1]) + bytes(POINT_BYTES - 1)
_ZERO_NONCE: Final = bytes(12)


@dataclass(frozen=True)
class Transfer:
    """What both sides agree on: one silo, one round, one choice out of `slots` for each user.

    Range: `session` 1 to 255 bytes, never used before; `round` 0 or above; `silo` a party's name;
    `users` and `length` (bytes of every message) 1 or above; `slots` 2 to 65,535.  Raises
    `InvalidInput`.
    """

    session: bytes
    round: int
    silo: str
    users: int
    slots: int
    length: int

    def __post_init__(self) -> None:
        if not isinstance(self.session, bytes) or not 1 <= len(self.session) <= 255:
            raise InvalidInput("`session` must be 1 to 255 bytes.")
        if not isinstance(self.silo, str) or not 1 <= len(self.silo.encode()) <= 255:
            raise InvalidInput("`silo` must be a name of at most 255 bytes.")
        counts = {
            "round": validate.count_from(0, round=self.round),
            "users": validate.count(users=self.users),
            "slots": validate.count_from(2, slots=self.slots),
            "length": validate.count(length=self.length),
        }
        if counts["slots"] > 65535:
            raise InvalidInput(f"`slots` must be at most 65,535; it is {self.slots}.")
        for name, number in counts.items():  # numpy's integers would be other bytes, or none
            object.__setattr__(self, name, number)

    @property
    def request_bytes(self) -> int:
        """Bytes that the receiver sends."""
        return POINT_BYTES * self.users

    @property
    def answer_bytes(self) -> int:
        """Bytes that the sender sends in return."""
        return self.users * self.slots * (self.length + TAG_BYTES)


class Sender(SecretHolder):
    """The side that has all messages, and is not told which one is taken.

    One for each silo and round.  `point` is what it sends first (32 bytes).  Raises `MissingExtra`
    without PyNaCl.
    """

    __slots__ = ("_answer", "_answered", "_secret", "_sodium", "point", "transfer")

    def __init__(self, transfer: Transfer) -> None:
        self._sodium = _sodium()
        self._secret = _scalar(self._sodium)
        self.transfer = transfer
        self.point: bytes = self._sodium.crypto_scalarmult_ed25519_base_noclamp(self._secret)
        self._answered = b""
        self._answer = b""

    def encrypt(self, requests: bytes, messages: Sequence[Sequence[bytes]]) -> bytes:
        """Return every message, each under the key of its slot: `transfer.answer_bytes` bytes.

        `messages` is (users, slots), each of `transfer.length` bytes.  The same requests once more
        get the same bytes, and the messages are not looked at.

        Raises `ProtocolFault` for requests that are not one valid point for each user, and for
        others than those that were answered already; `InvalidInput` for messages of another shape.
        """
        if self._answered:
            if not hmac.compare_digest(self._answered, requests):
                raise _second_time(self.transfer)
            return self._answer
        if len(requests) != self.transfer.request_bytes:
            raise _wrong_size("requests", self.transfer)
        self._check(messages)
        points = [requests[at : at + POINT_BYTES] for at in range(0, len(requests), POINT_BYTES)]
        for point in points:
            _check_point(self._sodium, point, f"{self.transfer.silo} sent a request")
        step = self._sodium.crypto_scalarmult_ed25519_noclamp(self._secret, self.point)
        hashed = _bound(self.transfer, self.point)
        parts: list[bytes] = []
        for user, (point, of_user) in enumerate(zip(points, messages, strict=True)):
            # The key of slot j is of yR - jT: one subtraction from one slot to the next.
            shared = self._sodium.crypto_scalarmult_ed25519_noclamp(self._secret, point)
            for slot, message in enumerate(of_user):
                if slot:
                    shared = self._sodium.crypto_core_ed25519_sub(shared, step)
                key = _key(hashed, user, point, shared)
                parts.append(
                    self._sodium.crypto_aead_chacha20poly1305_ietf_encrypt(
                        message, None, _ZERO_NONCE, key
                    )
                )
        self._answered, self._answer = bytes(requests), b"".join(parts)
        return self._answer

    def _check(self, messages: Sequence[Sequence[bytes]]) -> None:
        terms = self.transfer
        if len(messages) != terms.users or any(len(row) != terms.slots for row in messages):
            raise InvalidInput(
                f"`messages` must be {terms.slots} for each of {terms.users} users.",
            )
        if any(len(message) != terms.length for row in messages for message in row):
            raise InvalidInput(f"Every message must have {terms.length} bytes.")


class Receiver(SecretHolder):
    """The side that takes one message for each user, and tells nobody which.

    `choices` is (users,), each in [0, slots).  `requests` is what it sends.

    Raises `ProtocolFault` for a `point` that is no valid point, `InvalidInput` for choices of
    another shape or range, `MissingExtra` without PyNaCl.

    >>> terms = Transfer(b"session", 0, "silo-0", users=1, slots=2, length=3)
    >>> sender = Sender(terms)
    >>> receiver = Receiver(terms, sender.point, np.array([1]))
    >>> receiver.open(sender.encrypt(receiver.requests, [[b"one", b"two"]]))
    [b'two']
    """

    __slots__ = ("_choices", "_opened", "_point", "_secrets", "_sodium", "_taken", "requests",
                 "transfer")  # fmt: skip

    def __init__(self, transfer: Transfer, point: bytes, choices: IntArray) -> None:
        self._sodium = _sodium()
        self.transfer = transfer
        self._choices = _choices(choices, transfer)
        _check_point(self._sodium, point, "The server opened a transfer")
        self._point = bytes(point)
        self._secrets = [_scalar(self._sodium) for _ in range(transfer.users)]
        table = _multiples(self._sodium, self._point, transfer.slots)
        hidden = _selected(np.broadcast_to(table, (transfer.users, *table.shape)), self._choices)
        self.requests = b"".join(
            self._sodium.crypto_core_ed25519_add(
                row.tobytes(), self._sodium.crypto_scalarmult_ed25519_base_noclamp(secret)
            )
            for row, secret in zip(hidden, self._secrets, strict=True)
        )
        self._taken = b""
        self._opened: list[bytes] = []

    def open(self, answer: bytes) -> list[bytes]:
        """Return the chosen message of each user.

        The same answer once more gives the same messages.  Raises `ProtocolFault` for another one,
        for another length, and where a message was not made by the sender for this transfer.
        """
        if len(answer) != self.transfer.answer_bytes:
            raise _wrong_size("an answer", self.transfer)
        digest = hashlib.sha256(answer).digest()
        if self._taken:
            if not hmac.compare_digest(self._taken, digest):
                raise _second_time(self.transfer)
            return self._result()
        self._taken = digest  # nothing else is tried, even after a failure
        terms = self.transfer
        sealed = np.frombuffer(answer, dtype=np.uint8)
        sealed = sealed.reshape(terms.users, terms.slots, terms.length + TAG_BYTES)
        chosen = _selected(sealed, self._choices)
        hashed = _bound(terms, self._point)
        messages: list[bytes] = []
        for user, (row, secret) in enumerate(zip(chosen, self._secrets, strict=True)):
            shared = self._sodium.crypto_scalarmult_ed25519_noclamp(secret, self._point)
            point = self.requests[user * POINT_BYTES : (user + 1) * POINT_BYTES]
            try:
                messages.append(
                    self._sodium.crypto_aead_chacha20poly1305_ietf_decrypt(
                        row.tobytes(), None, _ZERO_NONCE, _key(hashed, user, point, shared)
                    )
                )
            except Exception:  # PyNaCl's; all users first, so that when it stops shows nothing
                continue
        self._opened = messages
        self._secrets = []
        return self._result()

    def _result(self) -> list[bytes]:
        if len(self._opened) == self.transfer.users:
            return list(self._opened)
        raise ProtocolFault(
            f"A transfer to {self.transfer.silo} holds a message that does not open (round "
            f"{self.transfer.round}).",
            "It was made for another transfer, or spoilt on its way.",
            "Begin the round again, with new transfers.",
        )


def shared_choices(seed: Secret, session: bytes, round: int, users: int, slots: int) -> IntArray:
    """Return the slot of each user, exactly uniform in [0, slots): shape (users,).

    Every silo computes it from a seed that all silos have and the server has not, so that all of
    them take the same slot: two different ones would open two slots of one user.

    Range: `seed` 16 to 64 bytes of full entropy.  Raises `InvalidInput`.
    """
    if not 16 <= len(seed) <= 64:
        raise InvalidInput("`seed` must be 16 to 64 bytes.")
    root = hashlib.blake2b(session, key=seed, digest_size=32, person=b"privplan-slots")
    streams = Streams(Secret(root.digest()), records.Randomness("operating-system"))
    stream = streams.stream(f"round {validate.count_from(0, round=round)}")
    return uniform(stream, validate.count(users=users), validate.count(slots=slots))


def real_slots(stream: Stream, users: int, slots: int, chosen: int) -> BoolArray:
    """Return which slots of each user are real: exactly `chosen` of `slots`, uniformly at random.

    Shape (users, slots).  The server draws it once a round, for all silos: whoever takes a uniform
    slot that it does not know takes part with probability chosen / slots, independently for each
    user.  Range: 0 <= `chosen` <= `slots`.  Raises `InvalidInput`.
    """
    row_length = validate.count(slots=slots)
    if validate.count_from(0, chosen=chosen) > row_length:
        raise InvalidInput(f"`chosen` must be at most {row_length}; it is {chosen}.")
    words = np.empty((validate.count(users=users), row_length), dtype=np.uint64)
    open_rows = np.arange(users)
    while len(open_rows):  # where two words are equal, the row is drawn again
        words[open_rows] = stream.integers64(len(open_rows) * row_length).reshape(-1, row_length)
        ranked = np.sort(words[open_rows], axis=1)
        open_rows = open_rows[(ranked[:, 1:] == ranked[:, :-1]).any(axis=1)]
    return np.asarray(words.argsort(axis=1).argsort(axis=1) < chosen)


# --- points, keys and what is taken from tables ---------------------------------------------------


def _scalar(sodium: ModuleType) -> Secret:
    """Return a uniform scalar: 512 random bits modulo the order, so the bias is below 2^-250."""
    return Secret(sodium.crypto_core_ed25519_scalar_reduce(fresh(64)))


def _check_point(sodium: ModuleType, point: bytes, what: str) -> None:
    if len(point) == POINT_BYTES and sodium.crypto_core_ed25519_is_valid_point(point):
        return
    raise ProtocolFault(
        f"{what} that is no valid point of the group.",
        "A malformed point, or one of small order, can show which slot is taken.",
        "Find out who sent it, and begin again.",
    )


def _multiples(sodium: ModuleType, point: bytes, count: int) -> NDArray[np.uint8]:
    """Return 0, S, 2S, .., (count - 1) S: shape (count, 32)."""
    multiples = [_ZERO_POINT, point]
    while len(multiples) < count:
        multiples.append(sodium.crypto_core_ed25519_add(multiples[-1], point))
    return np.frombuffer(b"".join(multiples), dtype=np.uint8).reshape(count, POINT_BYTES)


def _selected(table: NDArray[np.uint8], choices: IntArray) -> NDArray[np.uint8]:
    """Return row `choices[u]` of each user's table, (users, slots, width) to (users, width).

    Every entry of the table is read and masked, in an order that does not depend on the choices.
    """
    selected = np.zeros((table.shape[0], table.shape[2]), dtype=np.uint8)
    for slot in range(table.shape[1]):
        differs = choices ^ slot
        differs = (differs | -differs) >> 63  # -1 where it is another slot, else 0
        mask = np.bitwise_not(differs).astype(np.uint8)  # 255 where it is the slot
        selected |= table[:, slot] & mask[:, None]
    return selected


def _choices(choices: IntArray, transfer: Transfer) -> IntArray:
    slots = np.asarray(choices)
    if slots.shape != (transfer.users,) or slots.dtype.kind not in "iu":
        raise InvalidInput(f"`choices` must be one integer for each of {transfer.users} users.")
    if ((slots < 0) | (slots >= transfer.slots)).any():
        raise InvalidInput(f"`choices` must be at least 0 and below {transfer.slots}.")
    return slots.astype(np.int64)


def _bound(transfer: Transfer, point: bytes) -> hashlib.blake2b:
    """Return H, fed with all that the two parties agree on."""
    state = hashlib.blake2b(digest_size=32, person=b"privplan-ot")
    silo = transfer.silo.encode()
    state.update(bytes([len(transfer.session)]) + transfer.session + bytes([len(silo)]) + silo)
    for number in (transfer.round, transfer.users, transfer.slots, transfer.length):
        state.update(number.to_bytes(8, "little"))
    state.update(point)
    return state


def _key(hashed: hashlib.blake2b, user: int, request: bytes, shared: bytes) -> bytes:
    state = hashed.copy()
    state.update(user.to_bytes(8, "little") + request + shared)
    return state.digest()


def _wrong_size(what: str, transfer: Transfer) -> ProtocolFault:
    return ProtocolFault(
        f"A transfer with {transfer.silo} holds {what} of a wrong size (round {transfer.round}).",
        "There must be one for every user and slot.",
        "See that both sides agree on the users and the slots, and begin again.",
    )


def _second_time(transfer: Transfer) -> ProtocolFault:
    return ProtocolFault(
        f"A transfer with {transfer.silo} was tried a second time, with other content (round "
        f"{transfer.round}).",
        "Two answers under the same keys, or two requests, would open more than one slot.",
        "Resend the same bytes, or begin the round again with new transfers.",
    )


def _sodium() -> ModuleType:
    try:
        import nacl.bindings
    except ImportError:
        raise MissingExtra(
            "Oblivious transfer needs the package PyNaCl, which is not installed.",
            "Its points are added by libsodium.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None
    if not nacl.bindings.has_crypto_core_ed25519:
        raise MissingExtra(
            "Oblivious transfer needs a libsodium that adds points; this one is a minimal build.",
            "PyNaCl was built against it.",
            "Install PyNaCl from its wheels.",
        )
    return nacl.bindings
