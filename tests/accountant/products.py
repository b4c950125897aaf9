"""Products to test with: rows, bases and neighbours, and exact products by Python's integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from privplan.accountant.mechanisms import NoisyProduct
from privplan.accountant.sensitivity.product import ProductBound


def bound(unit: str = "record", **changed: Any) -> ProductBound:
    """Return a bound of 6 columns and 3 directions; an entry changes by 0.5 of the norm 1."""
    given = {"dimension": 6, "rank": 3, **changed}
    if unit == "entry":
        given.setdefault("largest_change", 0.5)
    if unit == "silo":
        given.setdefault("rows", 4)
    return ProductBound(unit=unit, **given)  # type: ignore[arg-type]


def noisy_product(
    product: ProductBound | None = None,
    noise_multiplier: float = 5.0,
    relation: str = "replace-one",
    most_rows: int = 1000,
    **given: Any,
) -> NoisyProduct:
    return NoisyProduct.with_multiplier(
        noise_multiplier,
        product=product or bound(),
        relation=relation,
        most_rows=most_rows,
        **given,
    )


def orthonormal(d: int, r: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random basis (d, r) of orthonormal columns."""
    return np.asarray(np.linalg.qr(rng.normal(size=(d, r)))[0])


def within(rows: np.ndarray, norm: float) -> np.ndarray:
    """Return rows (..., d), the longer ones clipped to a norm."""
    size = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(size, 1e-300)))


def python_product(rows: np.ndarray, basis: np.ndarray) -> list[int]:
    """Return q^T (q z) row by row, by Python's integers, modulo 2^64 with a sign."""
    q, z = rows.astype(np.int64).astype(object), basis.astype(object)
    whole = q.T.dot(q.dot(z)).reshape(-1)
    return [(int(number) + 2**63) % 2**64 - 2**63 for number in whole]


def square(numbers: Any) -> int:
    """Return the sum of squares of integers."""
    return sum(int(number) ** 2 for number in np.asarray(numbers).reshape(-1))


def spectral_norm_is_at_most(basis: np.ndarray, limit: int) -> bool:
    """Return whether limit^2 I - z^T z is positive semi-definite, by elimination in fractions."""
    z = basis.astype(object)
    left = [[Fraction(int(x)) for x in row] for row in -z.T.dot(z)]
    for i in range(len(left)):
        left[i][i] += limit**2
    for i, row in enumerate(left):
        if row[i] < 0 or (row[i] == 0 and any(row[i:])):
            return False
        for j in range(i + 1, len(left)):
            if row[i]:
                times = left[j][i] / row[i]
                left[j] = [a - times * b for a, b in zip(left[j], row, strict=True)]
    return True


def entry_formula(change: float, norm: float) -> float:
    """Return E of the module: how far an entry moves a product, with s of 1."""
    if change >= math.sqrt(2) * norm:
        return math.sqrt(2) * norm**2
    return change * max(2 * norm - change, math.sqrt(2 * norm**2 - change**2 / 2))
