"""Public pseudo-random draws of one training unit: the order of its records, and dropout masks.

The draws of a unit (a user in a silo, a silo, or one record) are a function of (seed, round, user,
silo) and a counter, computed by SplitMix64, so they do not depend on who else takes part.  With one
generator for all units, the numbers of an absent user would go to the next, and every later delta
would change with it: one user would move more than its own delta.

The draws need not be secret: a delta is clipped whatever the order of its records was.  Privacy
noise comes from `accountant.randomness` alone.

Tensors of int64 hold 64-bit words; their products wrap modulo 2^64.

Source: Steele, Lea and Flood 2014, *Fast splittable pseudorandom number generators* (the mixing
function is David Stafford's variant 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
"""Increment of SplitMix64's counter: the odd integer nearest to 2^64 / golden ratio."""

_MIX_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MIX_SHIFTS: Final = (30, 27)
"""Multipliers and right shifts of SplitMix64's mixing function (Stafford's variant 13)."""

_WORD_MODULUS: Final = 1 << 64

_DRAWS_PER_WORD: Final = 4
"""Draws of 16 bits in a word of 64 bits."""

DROPOUT_LEVELS: Final = 1 << 16
"""Dropout rates are multiples of 1 / DROPOUT_LEVELS."""


def _signed(word: int) -> int:
    """Return the int64 (two's complement) with the bits of an unsigned 64-bit word."""
    word %= _WORD_MODULUS
    return word - _WORD_MODULUS if word >= _WORD_MODULUS >> 1 else word


def _shift_right(words: Tensor, bits: int) -> Tensor:
    """Return a logical right shift; `>>` on int64 is arithmetic and repeats the sign bit."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _mix(words: Tensor) -> Tensor:
    """Return SplitMix64's mixing function of each word: a bijection of 64-bit words."""
    # z <- (z xor (z >> shift)) * factor  modulo 2^64, twice; then z xor (z >> 31).
    for shift, factor in zip(_MIX_SHIFTS, _MIX_FACTORS, strict=True):
        words = (words ^ _shift_right(words, shift)) * _signed(factor)
    return words ^ _shift_right(words, 31)


def child_keys(keys: Tensor, name: int | Tensor) -> Tensor:
    """Return the key of the child stream `name` of each of `keys`; the two shapes broadcast."""
    step = torch.as_tensor(name, dtype=torch.int64, device=keys.device) * _signed(_GOLDEN_GAMMA)
    return _mix(_mix(keys) + step)


def unit_keys(seed: int, number: int, user: Tensor, silo: Tensor) -> Tensor:
    """Return the key of each unit in round `number`: (units,) int64.

    `user` and `silo` are (units,) int64.
    """
    root = torch.tensor([_signed(seed)], dtype=torch.int64, device=user.device)
    return child_keys(child_keys(child_keys(root, number), user), silo)


def random_words(keys: Tensor, count: int) -> Tensor:
    """Return the first `count` 64-bit words of each stream: (units, count) int64."""
    # Word i of a stream is mix(key + i gamma), so each word is computed by itself.
    counters = torch.arange(1, count + 1, dtype=torch.int64, device=keys.device)
    return _mix(keys[:, None] + counters * _signed(_GOLDEN_GAMMA))


def random_orders(keys: Tensor, sizes: Tensor, width: int) -> Tensor:
    """Return a random permutation of 0 .. `sizes[u]` - 1 for each unit u: (units, width) int64.

    `keys` and `sizes` are (units,).  Entries of row u from `sizes[u]` on are the padding positions,
    in their order; the entries before do not depend on `width`.
    """
    # Positions sorted by random 63-bit words; padding gets the largest word, and sorts last.
    sort_keys = _shift_right(random_words(keys, width), 1)
    padding = torch.arange(width, device=keys.device) >= sizes[:, None]
    sort_keys = sort_keys.masked_fill(padding, torch.iinfo(torch.int64).max)
    return torch.argsort(sort_keys, dim=1, stable=True)


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of one training step: `keys` is (units,) int64, the key of one stream per unit."""

    keys: Tensor

    def dropout_mask(self, layer: int, records: int, values: int, rate: float) -> Tensor:
        """Return the dropout mask (units, records, values): True where a value is not dropped.

        `layer` is the index of the layer, so that each has masks of its own.  Each value is dropped
        with probability `rate`, exactly where that is a multiple of 1 / DROPOUT_LEVELS.
        """
        # One signed 16-bit draw per value, uniform in [-2^15, 2^15): it is below the threshold
        # with probability `rate`.
        count = records * values
        words = random_words(child_keys(self.keys, layer), -(-count // _DRAWS_PER_WORD))
        drawn = words.view(torch.int16)
        threshold = round(rate * DROPOUT_LEVELS) - DROPOUT_LEVELS // 2
        return (drawn[:, :count] >= threshold).view(-1, records, values)
