"""The result of an attack on a transcript, and readers of the messages that a party received."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import UInt64Array
from ...accountant.errors import InvalidInput, ProtocolFault
from ...fl.parties.message_bodies import scalars
from ...fl.parties.network import Message
from ...fl.secagg.messages import MaskedWords

FALSE_ALARM = 1e-6
"""How often an attack that rests on chance may find something in a sound transcript."""

Vector = Sequence[int] | UInt64Array | NDArray[np.uint32]


@dataclass(frozen=True)
class Finding:
    """The result of one attack on a transcript: its p-value, and one sentence for a person.

    `p_value` is a bound on the probability that a sound protocol gives as much, corrected for all
    that was tried; the leak is `detected` where it is at most `false_alarm`.  `places` says where,
    `recovered` is what the attacker now has.

    An attack that finds nothing proves nothing but that it finds nothing.  What one does find may
    be a fact about people from before the noise: it belongs to a test, or to a trusted auditor's
    sealed file, never into a log.
    """

    attack: str
    detected: bool
    p_value: float
    false_alarm: float
    what: str
    places: tuple[str, ...] = ()
    recovered: object = field(default=None, repr=False, compare=False)


def values(message: Message) -> Iterator[int | str | bytes]:
    """Yield every value in a message's body, depth first, names of mappings included.

    Masked words are one value.  Raises `InvalidInput` for any other body that is not MessagePack.
    """
    if message.kind == MaskedWords.kind:
        yield message.body
        return
    try:
        yield from scalars(message.body)
    except ProtocolFault:
        raise InvalidInput("A message of the transcript holds no MessagePack.") from None


def residues(
    view: Iterable[Message], kind: str, width: int, *, round: int | None = None
) -> dict[str, list[int]]:
    """Return the big numbers that each sender sent in messages of a kind, in their order.

    All byte strings of a body are cut into big-endian numbers of `width` bytes, the form in which
    ciphertexts and residues travel; `round` picks one round.  Keys are senders.
    """
    by_sender: dict[str, list[int]] = {}
    for message, part in _parts(view, kind, round):
        if len(part) % width:
            raise InvalidInput(f"A message {message.kind!r} holds no numbers of {width} bytes.")
        by_sender.setdefault(message.sender, []).extend(
            int.from_bytes(part[start : start + width], "big")
            for start in range(0, len(part), width)
        )
    return by_sender


def words(
    view: Iterable[Message], kind: str, bits: int, *, round: int | None = None
) -> dict[str, UInt64Array]:
    """Return the 32- or 64-bit words that each sender sent in messages of a kind: little-endian."""
    by_sender: dict[str, list[UInt64Array]] = {}
    for message, part in _parts(view, kind, round):
        if bits not in (32, 64) or len(part) % (bits // 8):
            raise InvalidInput(f"A message {message.kind!r} holds no words of {bits} bits.")
        numbers = np.frombuffer(part, dtype=f"<u{bits // 8}").astype(np.uint64)
        by_sender.setdefault(message.sender, []).append(numbers)
    return {sender: np.concatenate(parts) for sender, parts in by_sender.items()}


def places_of(parts: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return places in words: a label and an index."""
    return tuple(f"{label}[{index}]" for label, index in parts)


def top_words(vector: Vector, modulus: int) -> UInt64Array:
    """Return floor(2^64 v / modulus) of each residue v, so that all rings look like Z_{2^64}."""
    if isinstance(vector, np.ndarray) and modulus in (2**32, 2**64):
        # A ring of 2^k: a shift is floor(2^64 v / 2^k) exactly.
        shift = np.uint64(64 - (modulus.bit_length() - 1))
        return np.asarray(vector.astype(np.uint64) << shift)
    return np.array([(int(residue) << 64) // modulus for residue in vector], dtype=np.uint64)


def finding_from(
    attack: str,
    p_value: float,
    false_alarm: float,
    yes: str,
    no: str,
    places: tuple[str, ...] = (),
    recovered: object = None,
) -> Finding:
    """Return the finding for a p-value: `yes` in words where it is at most `false_alarm`."""
    p_value = min(1.0, p_value)
    detected = p_value <= false_alarm
    return Finding(
        attack,
        detected,
        p_value,
        false_alarm,
        yes if detected else no,
        places if detected else (),
        recovered if detected else None,
    )


def _parts(
    view: Iterable[Message], kind: str, round: int | None
) -> Iterator[tuple[Message, bytes]]:
    for message in view:
        if message.kind == kind and round in (None, message.round):
            for part in values(message):
                if isinstance(part, bytes):
                    yield message, part
