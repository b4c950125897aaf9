"""Shamir's secret sharing over GF(2^16): any `threshold` holders can put a secret together.

Every two bytes of the secret are the value at 0 of a polynomial of degree `threshold` - 1 with
uniform coefficients; holder x (1 to 65,535) gets its value at x.  Fewer shares than the threshold
are independent of the secret, exactly.  Shares prove nothing about themselves: who receives one
must know by other means who made it, and `combine` sees a wrong one only where it has more than
it needs.

The field is GF(2)[x] modulo x^16 + x^12 + x^3 + x + 1; its products go through tables of
logarithms, whose use of the cache depends on the secret, so do not share a processor with an enemy.
Source: Shamir 1979, *How to share a secret*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant import validate
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput, ProtocolFault
from ...accountant.randomness import Secret

FieldElements: TypeAlias = NDArray[np.uint16]

_POLYNOMIAL: Final = 0x1100B
"""x is a generator modulo this polynomial: its powers are all 65,535 non-zero elements."""

_ORDER: Final = 65535
MAX_HOLDERS: Final = _ORDER

_ELEMENTS_AT_A_TIME: Final = 1 << 22
"""FieldElements that are worked on at a time."""


def split(secret: bytes, *, threshold: int, holders: Sequence[int]) -> dict[int, Secret]:
    """Return one share for each holder, as long as the secret.

    `secret` has an even number of bytes, `holders` are different numbers from 1 to 65,535, and
    2 <= `threshold` <= number of holders.  Raises `InvalidInput` otherwise.

    >>> shares = split(bytes(range(32)), threshold=2, holders=[1, 5, 9])
    >>> bytes(combine({9: shares[9], 1: shares[1]}, 2)) == bytes(range(32))
    True
    """
    if not secret or len(secret) % 2:
        raise InvalidInput(
            "A secret to share must have an even number of bytes, and some.",
            "It is shared two bytes at a time.",
        )
    from .keys import fresh  # whoever only counts holders needs no package for keys

    points = _points(holders)
    degree = validate.count_from(2, threshold=threshold) - 1
    if degree >= len(points):
        raise InvalidInput(
            f"`threshold` must be at most the number of holders ({len(points)}); it is {threshold}."
        )
    constant = np.frombuffer(secret, "<u2")
    width = len(constant)
    drawn = np.frombuffer(fresh(2 * degree * width), "<u2").reshape(degree, width)
    shares: dict[int, Secret] = {}
    block = max(1, _ELEMENTS_AT_A_TIME // width)
    for first in range(0, len(points), block):
        block_points = points[first : first + block]
        at = _log()[block_points][:, None]
        values = np.zeros((len(block_points), width), np.uint16)
        # Horner's rule: (..(c_d x + c_{d-1}) x + .. + c_1) x + secret, addition being XOR.
        for coefficients in drawn:
            values = _times(values ^ coefficients, at)
        values ^= constant
        raw = values.astype("<u2").tobytes()
        for index, holder in enumerate(block_points.tolist()):
            shares[holder] = Secret(raw[2 * width * index : 2 * width * (index + 1)])
    return shares


def combine(shares: Mapping[int, bytes], threshold: int) -> Secret:
    """Return the secret from at least `threshold` shares, by holder.

    Raises `ProtocolFault` for too few shares, for holders outside 1 to 65,535, for shares of
    different or odd lengths, and for any share beyond the threshold that does not lie on the
    polynomial of the first ones.
    """
    needed = validate.count_from(2, threshold=threshold)
    if len(shares) < needed:
        raise _fault("There are too few shares to put a secret together.")
    try:
        points = _points(list(shares))
    except InvalidInput:
        raise _fault("A share belongs to no holder that there can be.") from None
    if len({len(share) for share in shares.values()}) != 1:
        raise _fault("Shares of one secret have different lengths.")
    raw = b"".join(shares.values())
    if not raw or len(raw) // len(shares) % 2:
        raise _fault("Shares have no length that a share can have.")
    values = np.frombuffer(raw, "<u2").reshape(len(shares), -1)
    targets = np.concatenate(([0], points[needed:]))
    secrets = _interpolated(points[:needed], values[:needed], targets)
    if not np.array_equal(secrets[1:], values[needed:]):
        raise _fault("The shares of a secret contradict each other.")
    return Secret(secrets[0].astype("<u2").tobytes())


def _interpolated(points: IntArray, values: FieldElements, targets: IntArray) -> FieldElements:
    """Return what the polynomial through `values` at `points` is at each target.

    values (threshold, W), targets (E,) that are none of the points; result (E, W).  Lagrange, in
    logarithms: prod_j (x - x_j) / ((x - x_i) prod_{j != i} (x_i - x_j)).
    """
    log = _log()
    count = len(points)
    below = np.empty(count, np.int64)
    block = max(1, _ELEMENTS_AT_A_TIME // count)
    # log prod_{j != i} (x_i - x_j) for every i, in blocks of rows.
    for first in range(0, count, block):
        rows = slice(first, min(first + block, count))
        differences = points[rows, None] ^ points[None, :]
        differences[np.arange(len(differences)), np.arange(rows.start, rows.stop)] = 1  # log 1 is 0
        below[rows] = log[differences].sum(axis=1)
    # Each target: the values times their Lagrange weights, summed by XOR.
    logs = log[values]
    out = np.empty((len(targets), values.shape[1]), np.uint16)
    for index, target in enumerate(targets.tolist()):
        differences = log[points ^ target]
        weights = (differences.sum() - differences - below) % _ORDER
        out[index] = np.bitwise_xor.reduce(_exp()[logs + weights[:, None]], axis=0)
    return out


def _points(holders: Sequence[int]) -> IntArray:
    whole = all(isinstance(holder, int) and not isinstance(holder, bool) for holder in holders)
    if (
        not whole
        or not holders
        or len(set(holders)) != len(holders)
        or not 1 <= min(holders) <= max(holders) <= MAX_HOLDERS
    ):
        raise InvalidInput(
            f"`holders` must be different integers from 1 to {MAX_HOLDERS}.",
            "The share of holder 0 would be the secret itself.",
        )
    return np.asarray(holders, np.int64)


def _times(left: FieldElements, log_right: IntArray) -> FieldElements:
    """Return products in the field, the right factor given by its logarithm."""
    product: FieldElements = _exp()[_log()[left] + log_right]
    return product


@cache
def _exp() -> FieldElements:
    """Return the powers of x, twice over, and then zeros: for sums of two logarithms."""
    powers = np.zeros(4 * _ORDER + 1, np.uint16)
    value = 1
    for exponent in range(_ORDER):
        powers[exponent] = powers[exponent + _ORDER] = value
        value <<= 1
        if value >> 16:
            value ^= _POLYNOMIAL
    return powers


@cache
def _log() -> IntArray:
    """Return logarithms to the base x; that of 0 is so large that `_exp` of any sum is 0."""
    logs = np.full(_ORDER + 1, 2 * _ORDER, np.int64)
    logs[_exp()[:_ORDER]] = np.arange(_ORDER)
    return logs


def _fault(what: str) -> ProtocolFault:
    return ProtocolFault(
        what,
        "A party that is broken or dishonest may have sent it.",
        "Find out which, and begin again; nothing was put together.",
    )
