"""Public pseudo-random draws that belong to one unit: order of its records, units dropped out.

A unit's draws are a function of (seed, round, user, silo) and a counter, computed by SplitMix64:
whoever else takes part, they stay the same.  A common generator would hand the numbers of an
absent user to the next, and every other delta would change with it.

They protect nobody: a delta is clipped whatever the order was.  Noise comes from
`accountant.randomness` alone.

Source: Steele, Lea and Flood 2014, *Fast splittable pseudorandom number generators* (the mixing
function is David Stafford's variant 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS: Final = (30, 27)
_WORD: Final = 1 << 64
_LANES: Final = 4
"""Draws of 16 bits in a word of 64."""

LEVELS: Final = 1 << 16
"""A rate of dropout is a multiple of 1 / LEVELS."""


def _signed(word: int) -> int:
    """Return the int64 with the bits of a word."""
    word %= _WORD
    return word - _WORD if word >= _WORD >> 1 else word


def _shifted(words: Tensor, by: int) -> Tensor:
    """Return a logical shift to the right; that of int64 repeats the sign."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def mixed(words: Tensor) -> Tensor:
    """Return SplitMix64's mixing of words, held in int64: a bijection with avalanche."""
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
        words = (words ^ _shifted(words, shift)) * _signed(factor)
    return words ^ _shifted(words, 31)


def derived(keys: Tensor, name: int | Tensor) -> Tensor:
    """Return the keys of the streams that `name` says, one below each of `keys`."""
    step = torch.as_tensor(name, dtype=torch.int64, device=keys.device) * _signed(_GOLDEN)
    return mixed(mixed(keys) + step)


def unit_keys(seed: int, number: int, user: Tensor, silo: Tensor) -> Tensor:
    """Return the key of each unit in round `number`: (units,) int64.

    `user` and `silo` are (units,) int64.
    """
    root = torch.tensor([_signed(seed)], dtype=torch.int64, device=user.device)
    return derived(derived(derived(root, number), user), silo)


def words(keys: Tensor, count: int) -> Tensor:
    """Return the first `count` words of each stream: (units, count) int64."""
    counters = torch.arange(1, count + 1, dtype=torch.int64, device=keys.device)
    return mixed(keys[:, None] + counters * _signed(_GOLDEN))


def shuffled(keys: Tensor, sizes: Tensor, width: int) -> Tensor:
    """Return an order of 0 .. size - 1 for each unit, then its other positions: (units, width).

    The first `sizes[u]` entries of row u do not depend on `width`.
    """
    # Sorted by words of 63 bits, positions behind a unit's last record all the way at the end.
    drawn = _shifted(words(keys, width), 1)
    absent = torch.arange(width, device=keys.device) >= sizes[:, None]
    behind = drawn.masked_fill(absent, torch.iinfo(torch.int64).max)
    return torch.argsort(behind, dim=1, stable=True)


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of one step of training: `keys` is (units,) int64, one stream per unit."""

    keys: Tensor

    def kept(self, layer: int, records: int, values: int, rate: float) -> Tensor:
        """Return which values stay under dropout: (units, records, values) bool.

        `layer` says which layer asks; a value stays with probability 1 - `rate`, exactly where
        `rate` is a multiple of 1 / LEVELS.
        """
        # A value stays where its 16 bits, signed, reach the threshold.
        count = records * values
        drawn = words(derived(self.keys, layer), -(-count // _LANES)).view(torch.int16)
        threshold = round(rate * LEVELS) - LEVELS // 2
        return (drawn[:, :count] >= threshold).view(-1, records, values)
