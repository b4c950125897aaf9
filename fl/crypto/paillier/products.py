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
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....accountant import validate
from ....accountant.errors import InvalidInput
from .arithmetic import invert, mpz
from .keys import PublicKey
from .packing import Packing
from .straus import ENTRY, SQUARING, TABLE_PAIR, long_start, offset, product, squared, table
from .work import ALONE, Workers

Digits: TypeAlias = NDArray[np.int64]

_ENTRIES: Final = 1 << 17
"""Table entries that a process holds at a time, about 900 bytes each at 3072 bits."""

_LONGEST: Final = 2048
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
    digits: Digits,
    packing: Packing,
    *,
    digit_bits: int = 16,
    plaintexts: Sequence[int] | None = None,
    workers: Workers = ALONE,
) -> list[int]:
    """Return one ciphertext for each block of parameters: the formula above.

    `bases` are U units modulo n^2; `digits` is int64 of shape (U, D), of b = `digit_bits` (2 to 32,
    at most `packing.width`): -2^(b-1) <= d < 2^(b-1).  `plaintexts` is the packed noise, one for
    each block (none if left out).  The result is **not re-randomised** and must not be sent as it
    is: see `blinding.blinded`.  Raises `InvalidInput`, which never shows a digit.
    """
    users, count = _shape(bases, digits, digit_bits, packing)
    blocks = packing.blocks(count)
    added = [0] * blocks if plaintexts is None else [int(one) for one in plaintexts]
    if len(added) != blocks:
        raise InvalidInput(f"`plaintexts` must be {blocks}, one for each block.")
    n = int(key.n)
    plan = _plan(users, count, digit_bits, packing)
    shifts = [packing.width * plan.slots * place for place in range(plan.segments)]
    shifting = workers if plan.segments > 1 else ALONE
    segments = shifting.spread(_shifted, [int(one) for one in bases], shifts, n)
    layout = _Layout(plan, packing.slots, packing.width, n)
    together = max(1, (_ENTRIES >> plan.window) // plan.segments)
    totals = [mpz(1)] * blocks
    for first in range(0, users, together):
        own = slice(first, first + together)
        calls: list[tuple[object, ...]] = [
            (
                segments[own],
                digits[own, part.start * packing.slots : part.stop * packing.slots],
                [0 if first else one for one in added[part]],
                layout,
            )
            for part in workers.parts(blocks, _LONGEST)
        ]
        found = workers.concatenated(_blocks, calls)
        totals = [a * b % key.square for a, b in zip(totals, found, strict=True)]
    return totals


def _shape(
    bases: Sequence[int], digits: Digits, digit_bits: int, packing: Packing
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
        shifts = SQUARING * packing.width * plan.slots * (plan.segments - 1)
        tables = TABLE_PAIR * 2.0 ** (plan.window - 1) * plan.segments
        taken_in = ENTRY * plan.windows * count
        passes = max(1.0, users * plan.segments * 2.0**plan.window / _ENTRIES)
        squarings = SQUARING * packing.width * plan.slots * packing.blocks(count) * passes
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
    own = mpz(n)
    found = []
    for base in bases:
        row, done = [mpz(base)], 0
        for shift in shifts[1:]:
            row.append(squared(row[-1], shift - done, own))
            done = shift
        found.append(row)
    return found


def _blocks(
    segments: Sequence[Sequence[int]], digits: Digits, plaintexts: Sequence[int], layout: _Layout
) -> list[int]:
    """Return the ciphertexts of consecutive blocks, whose digits are the columns."""
    n, plan = mpz(layout.n), layout.plan
    tables = [table(base, plan.window, n) for user in segments for base in user]
    start, surplus = long_start(n), dict[int, int]()
    found = []
    for place, plaintext in enumerate(plaintexts):
        own = digits[:, place * layout.slots : (place + 1) * layout.slots]
        rows = _rows(own, plan)
        gaps = [0, *_gaps(plan, layout.width)[-len(rows) :][1:]]
        squarings = sum(gaps)  # the same for all blocks but, perhaps, the last
        if squarings not in surplus:
            surplus[squarings] = invert(squared(start, squarings, n), n * n)
        total = product(tables, rows, gaps, n, plaintext, start)
        found.append(total * surplus[squarings] % (n * n))
    return found


def _rows(digits: Digits, plan: Plan) -> list[list[int]]:
    """Return the table indices of one block, (users, slots): its most significant row first.

    There is a column for each segment of each user, and no row for slots that no segment uses.
    """
    users, used = digits.shape
    padded = np.zeros((users, plan.segments * plan.slots), np.int64)
    padded[:, :used] = digits
    shifted = padded.reshape(users, plan.segments, plan.slots)[:, :, : min(used, plan.slots)]
    shifted = shifted + offset(plan.window, plan.windows)
    found = shifted[..., None] >> (np.arange(plan.windows - 1, -1, -1) * plan.window)
    found[..., 1:] &= (1 << plan.window) - 1  # the top window may reach 2^w, which has its entry
    ordered = found[:, :, ::-1].transpose(2, 3, 0, 1)
    rows: list[list[int]] = ordered.reshape(-1, users * plan.segments).tolist()
    return rows


def _gaps(plan: Plan, width: int) -> list[int]:
    """Return how often is squared before each row of a whole block."""
    within = [plan.window] * (plan.windows - 1)
    first = width - plan.window * (plan.windows - 1)
    return [first, *within] * plan.slots
