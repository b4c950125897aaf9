"""A silo's weighted sums under encryption: for every block i of parameters

    prod_u W_u^(sum_j d_uj 2^(L j)) (1 + n z_i)  modulo n^2,

an encryption of sum_u w_u d_uj in slot j, plus the noise z_i, where W_u encrypts w_u.  `straus`
says how.  The digits d are signed, so no offset is to be taken off afterwards, and each takes in
the same number of table entries whatever its value.  Every product starts from a number as long as
all others, taken off at the end, so slots in which nobody has anything take as long as others.

Two things are chosen by cost.  The window w: a longer one takes fewer entries for a digit and
larger tables.  The segments H: with W_u^(2^(L s h)), h < H, as H bases, s = ceil(k / H), a block
needs only s slots of squarings; that pays where there are many more blocks than users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ....accountant import validate
from ....accountant.arrays import IntArray
from ....accountant.errors import InvalidInput
from .arithmetic import invert, mpz
from .keys import PublicKey
from .packing import Packing
from .processes import SERIAL, Workers
from .straus import (
    ENTRY_COST,
    SQUARING_COST,
    TABLE_PAIR_COST,
    long_start,
    offset,
    product,
    squared,
    table,
)

_TABLE_ENTRIES_AT_A_TIME: Final = 1 << 17
"""Table entries that a process holds at a time, about 900 bytes each at 3072 bits."""

_BLOCKS_AT_A_TIME: Final = 2048
"""Blocks that a process is handed at a time."""


class Plan(NamedTuple):
    """Bits of a window, windows of a digit, segments of a block, and slots of a segment."""

    window: int
    windows: int
    segments: int
    slots: int


class _Layout(NamedTuple):
    """What all blocks have in common: the plan, the slots of a block, their width, and n."""

    plan: Plan
    slots: int
    width: int
    n: int


def products(
    key: PublicKey,
    bases: Sequence[int],
    digits: IntArray,
    packing: Packing,
    *,
    digit_bits: int = 16,
    plaintexts: Sequence[int] | None = None,
    workers: Workers = SERIAL,
) -> list[int]:
    """Return one ciphertext for each block of parameters: the formula above.

    `bases` are U units modulo n^2; `digits` is int64 of shape (U, D), of b = `digit_bits` (2 to 32,
    at most `packing.width`): -2^(b-1) <= d < 2^(b-1).  `plaintexts` is the packed noise, one for
    each block (none if left out).  The result is **not re-randomised** and must not be sent as it
    is: see `blinding.blinded`.  Raises `InvalidInput`, which never shows a digit.
    """
    users, count = _shape(bases, digits, digit_bits, packing)
    blocks = packing.blocks(count)
    added = [0] * blocks if plaintexts is None else [int(value) for value in plaintexts]
    if len(added) != blocks:
        raise InvalidInput(f"`plaintexts` must be {blocks}, one for each block.")
    n = int(key.n)
    plan = _plan(users, count, digit_bits, packing)
    shifts = [packing.width * plan.slots * index for index in range(plan.segments)]
    shifting = workers if plan.segments > 1 else SERIAL
    segments = shifting.spread(_shifted, [int(value) for value in bases], shifts, n)
    layout = _Layout(plan, packing.slots, packing.width, n)
    users_at_once = max(1, (_TABLE_ENTRIES_AT_A_TIME >> plan.window) // plan.segments)
    # Users go in groups whose tables fit in memory; the noise is added with the first group.
    totals = [mpz(1)] * blocks
    for first in range(0, users, users_at_once):
        rows = slice(first, first + users_at_once)
        calls: list[tuple[object, ...]] = [
            (
                segments[rows],
                digits[rows, part.start * packing.slots : part.stop * packing.slots],
                [0 if first else value for value in added[part]],
                layout,
            )
            for part in workers.parts(blocks, _BLOCKS_AT_A_TIME)
        ]
        partial_products = workers.concatenated(_blocks, calls)
        totals = [a * b % key.square for a, b in zip(totals, partial_products, strict=True)]
    return totals


def _shape(
    bases: Sequence[int], digits: IntArray, digit_bits: int, packing: Packing
) -> tuple[int, int]:
    if not 2 <= validate.count(digit_bits=digit_bits) <= min(32, packing.width):
        raise InvalidInput("`digit_bits` must be from 2 to 32, and at most the width of a slot.")
    if not isinstance(digits, np.ndarray) or digits.dtype != np.int64 or digits.ndim != 2:
        raise InvalidInput("`digits` must be an int64 array of shape (users, parameters).")
    users, count = digits.shape
    if users != len(bases) or not users or not count:
        raise InvalidInput("`digits` must have a row for each base, and at least one column.")
    limit = 1 << (digit_bits - 1)
    if int(digits.max()) >= limit or int(digits.min()) < -limit:
        raise InvalidInput(
            f"A digit does not fit {digit_bits} bits.",
            next_step="Clip the update before it is weighted.",
        )
    return users, count


def _plan(users: int, count: int, digit_bits: int, packing: Packing) -> Plan:
    """Return the cheapest plan for one process."""

    def cost(plan: Plan) -> float:
        shifts = SQUARING_COST * packing.width * plan.slots * (plan.segments - 1)
        tables = TABLE_PAIR_COST * 2.0 ** (plan.window - 1) * plan.segments
        taken_in = ENTRY_COST * plan.windows * count
        passes = max(1.0, users * plan.segments * 2.0**plan.window / _TABLE_ENTRIES_AT_A_TIME)
        squarings = SQUARING_COST * packing.width * plan.slots * packing.blocks(count) * passes
        return users * (shifts + tables + taken_in) + squarings

    used = min(packing.slots, count)
    plans = [
        Plan(window, -(-digit_bits // window), segments, -(-used // segments))
        for window in range(2, min(digit_bits, 12) + 1)
        for segments in range(1, min(8, used) + 1)
    ]
    return min(plans, key=cost)


def _shifted(bases: Sequence[int], shifts: Sequence[int], n: int) -> list[list[int]]:
    """Return base^(2^shift) for every base: for every shift, ascending from 0."""
    modulus = mpz(n)
    segments = []
    for base in bases:
        row, done = [mpz(base)], 0
        for shift in shifts[1:]:
            row.append(squared(row[-1], shift - done, modulus))
            done = shift
        segments.append(row)
    return segments


def _blocks(
    segments: Sequence[Sequence[int]], digits: IntArray, plaintexts: Sequence[int], layout: _Layout
) -> list[int]:
    """Return the ciphertexts of consecutive blocks, whose digits are the columns."""
    n, plan = mpz(layout.n), layout.plan
    tables = [table(base, plan.window, n) for user in segments for base in user]
    start, surplus = long_start(n), dict[int, int]()
    ciphertexts = []
    for block, plaintext in enumerate(plaintexts):
        block_digits = digits[:, block * layout.slots : (block + 1) * layout.slots]
        rows = _rows(block_digits, plan)
        gaps = [0, *_gaps(plan, layout.width)[-len(rows) :][1:]]
        squarings = sum(gaps)  # the same for all blocks but, perhaps, the last
        if squarings not in surplus:
            surplus[squarings] = invert(squared(start, squarings, n), n * n)
        total = product(tables, rows, gaps, n, plaintext, start)
        ciphertexts.append(total * surplus[squarings] % (n * n))
    return ciphertexts


def _rows(digits: IntArray, plan: Plan) -> list[list[int]]:
    """Return the table indices of one block, (users, slots): its most significant row first.

    There is a column for each segment of each user, and no row for slots that no segment uses.
    """
    users, used = digits.shape
    # Digits by (user, segment, slot); a block that is not full has zeros at its end.
    padded = np.zeros((users, plan.segments * plan.slots), np.int64)
    padded[:, :used] = digits
    shifted = padded.reshape(users, plan.segments, plan.slots)[:, :, : min(used, plan.slots)]
    shifted = shifted + offset(plan.window, plan.windows)
    # Each digit, offset to be positive, cut into windows: (user, segment, slot, window).
    windows = shifted[..., None] >> (np.arange(plan.windows - 1, -1, -1) * plan.window)
    windows[..., 1:] &= (1 << plan.window) - 1  # the top window may reach 2^w, which has its entry
    # Rows by slot, the highest first, and window; columns by user and segment.
    ordered = windows[:, :, ::-1].transpose(2, 3, 0, 1)
    rows: list[list[int]] = ordered.reshape(-1, users * plan.segments).tolist()
    return rows


def _gaps(plan: Plan, width: int) -> list[int]:
    """Return how often is squared before each row of a whole block."""
    within = [plan.window] * (plan.windows - 1)
    first = width - plan.window * (plan.windows - 1)
    return [first, *within] * plan.slots
