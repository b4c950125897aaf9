"""What reading a pickle may cost, and the sentences of a pickle that would cost more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .inert_values import Inert

MAX_OPCODES: Final = 2_000_000
MAX_MARKS: Final = 1_000
MAX_MEMO: Final = 1_000_000
MAX_COPIED_ITEMS: Final = 10_000_000
MAX_NUMBER_KEYS: Final = 100_000
MAX_INTEGER_BITS: Final = 1_024
MAX_KEY_BITS: Final = 60
MAX_KEY_ITEMS: Final = 16


class UnreadablePickle(Exception):
    """A pickle that is not read, with the sentence that says why."""


@dataclass
class PickleBudget:
    """Counts what a pickle costs beyond opcodes: items that are copied, keys that are hashed."""

    copied_items: int = 0
    number_keys: int = 0

    def copying(self, count: int) -> None:
        """Count items that a call copies; a short pickle could copy a long list many times."""
        self.copied_items += count
        if self.copied_items > MAX_COPIED_ITEMS:
            raise UnreadablePickle(f"It copies more than {MAX_COPIED_ITEMS:,} items.")

    def key(self, value: object) -> object:
        """Return a value that may be a key of a dict or a member of a set.

        Hashing a tuple of tuples of ... of one shared tuple takes for ever, and integers of more
        bits than a hash can be chosen to collide.
        """
        if isinstance(value, str):
            return value
        self.number_keys += 1
        if self.number_keys > MAX_NUMBER_KEYS:
            raise UnreadablePickle(f"It has more than {MAX_NUMBER_KEYS:,} keys that are not text.")
        parts = value if isinstance(value, tuple) else (value,)
        if len(parts) > MAX_KEY_ITEMS or not all(_is_simple(part) for part in parts):
            raise UnreadablePickle("It has a key that is neither text nor a short number or tuple.")
        return value


def constant(value: object) -> object:
    """Return a number or text that a pickle holds; integers have at most `MAX_INTEGER_BITS`."""
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise UnreadablePickle(f"It has an integer of more than {MAX_INTEGER_BITS:,} bits.")
    return bytes(value) if isinstance(value, bytearray) else value


def _is_simple(part: object) -> bool:
    if isinstance(part, int):
        return part.bit_length() <= MAX_KEY_BITS
    return part is None or isinstance(part, (str, float, bytes, Inert))
