"""Packing: many signed integers in one plaintext, a slot of L bits for each.

    x = sum_j v_j 2^(L j),    |v_j| <= bound < 2^(L - 1),    k slots with k L <= bits(n) - 2

so |x| < n / 2 and x mod n gives every v_j back.  Sums of plaintexts are sums of slots, as long as
`bound` covers the sums; what it must cover is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

from ....accountant import validate
from ....accountant.errors import InvalidInput, ProtocolFault


@dataclass(frozen=True)
class Packing:
    """`slots` integers of magnitude at most `bound`, `width` bits apart (2^(width-1) > bound).

    >>> packing = Packing(slots=2, width=8, bound=100)
    >>> packing.pack([-3, 100, 7])
    [25597, 7]
    >>> packing.unpack([25597, 7], 3, n=2**31 - 1)
    [-3, 100, 7]
    """

    slots: int
    width: int
    bound: int

    def __post_init__(self) -> None:
        validate.count(slots=self.slots)
        validate.count(width=self.width)
        if not 0 <= self.bound < 1 << (self.width - 1):
            raise InvalidInput("`bound` must be 0 or above, and below 2^(width-1).")

    @classmethod
    def plan(cls, bits: int, bound: int) -> Packing:
        """Return as many slots as a key of `bits` has room for, in the narrowest width.

        Raises `InvalidInput` if there is no room for one.
        """
        width = max(bound, 1).bit_length() + 1
        slots = (validate.count(bits=bits) - 2) // width
        if slots < 1:
            raise InvalidInput(
                f"A key of {bits} bits has no room for a slot of {width} bits.",
                "The sums that are decrypted would not fit.",
                "Use a longer key, fewer digits, or a smaller limit on counts.",
            )
        return cls(slots, width, bound)

    def blocks(self, count: int) -> int:
        """Return how many plaintexts `count` values take."""
        return -(-validate.count(count=count) // self.slots)

    def pack(self, values: Sequence[int]) -> list[int]:
        """Return the signed plaintexts of values, the first in the lowest slot.

        Raises `InvalidInput` if one is no integer, or if its magnitude exceeds `bound`; the message
        does not say it.
        """
        try:
            whole = [index(value) for value in values]
        except TypeError:
            raise InvalidInput("Only integers are packed.") from None
        if any(abs(value) > self.bound for value in whole):
            raise InvalidInput(
                "A value does not fit its slot.", "It would spill into its neighbours."
            )
        packed = []
        for first in range(0, len(whole), self.slots):
            total = 0
            for value in reversed(whole[first : first + self.slots]):
                total = (total << self.width) + value
            packed.append(total)
        return packed

    def unpack(self, plaintexts: Sequence[int], count: int, n: int) -> list[int]:
        """Return the first `count` values of plaintexts modulo n.

        Raises `ProtocolFault` if their number is wrong, or if they are not what `pack` can make or
        sums of it: a slot out of bounds, or anything beyond the last one.
        """
        if len(plaintexts) != self.blocks(count):
            raise ProtocolFault("There are not as many plaintexts as the values take.")
        values: list[int] = []
        for plaintext in plaintexts:
            values += self._slots(int(plaintext), min(self.slots, count - len(values)), int(n))
        return values

    def _slots(self, plaintext: int, count: int, n: int) -> list[int]:
        signed = plaintext if plaintext <= n // 2 else plaintext - n
        half, mask = 1 << (self.width - 1), (1 << self.width) - 1
        shifted = signed + sum(half << (self.width * slot) for slot in range(count))
        values = [((shifted >> (self.width * slot)) & mask) - half for slot in range(count)]
        inside = 0 <= shifted < 1 << (self.width * count)
        if not inside or any(abs(value) > self.bound for value in values):
            raise ProtocolFault(
                "A decrypted sum does not fit its slots.",
                "A party sent what is no sum of bounded values.",
            )
        return values
