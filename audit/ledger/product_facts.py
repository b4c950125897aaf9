"""What the facts of a product A^T A Z / s bound: its sensitivity and its grid.

`Contribution.product` holds what `accountant.sensitivity.product` derives a sensitivity from; the
bound and the sensitivity that stand next to it count only where they are larger.

    promise for                        a sum moves by at most
    what is bounded                    the sensitivity for the relation
    an entry of a record, or of a silo that of replace-one for the whole, in which the entry stays
    a record of a silo                 that of replace-one for the whole, as a record that goes may
                                       let another row in; twice that under replace-one, where what
                                       comes may be in another silo

Silos' products, seen one by one, move no farther than is bounded for their sum
(`sensitivity.product`).  Of the lower end of epsilon the facts say nothing: Z has spectral norm at
most 1, and may be any shorter; and no row that is fixed beforehand lies along the Z of a later
round, which depends on noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final, cast

from ...accountant.errors import PrivplanError
from ...accountant.records import Contribution, Product, Reach, RoundIntent, Security
from ...accountant.sensitivity.product import ProductBound, ProductUnit
from ...accountant.sensitivity.release import up
from .gram_facts import MAX_USABLE_FACT, STATED_TOLERANCE_RELATIVE

MIN_FACTOR_BITS: Final = 8
"""Bits of the coarsest grid on which rows, or Z, stand."""

MIN_PRODUCT_BITS, MAX_PRODUCT_BITS = 24, 42
"""Bits 2 b + q of one row's product, those of `accountant.mechanisms.product_grid`, whose module is
too heavy for checking a log."""

MAX_SILO_ROWS: Final = 2**48
"""Most rows of a silo that can be meant."""


def is_product(contribution: Contribution) -> bool:
    """Return whether terms are x (x^T Z) of a unit's rows, for a public Z."""
    return contribution.terms == "product"


def product_of(contribution: Contribution) -> Product:
    """Return the facts of a product; `unusable_product` has found that they are there."""
    assert contribution.product is not None
    return contribution.product


def bound_of(contribution: Contribution) -> ProductBound:
    """Return what bounds one unit's part, of rows on their grid.

    Raises `InvalidInput` for facts that are out of range.
    """
    product = product_of(contribution)
    return ProductBound(
        dimension=product.dimension,
        rank=product.rank,
        row_norm=product.row_norm,
        divisor=product.divisor,
        unit=cast("ProductUnit", contribution.unit),
        rows=product.rows,
        largest_change=product.largest_change,
    ).on_grid(product.row_bits)


def noise_is_taken_off(
    contribution: Contribution, reaches: Iterable[Reach], security: Security | None
) -> bool:
    """Return whether only one silo's noise may stay in a product, by a reach or by its protocol."""
    if not is_product(contribution):
        return False
    keyed = security is not None and security.protocol == "pairwise-masks" and security.key_bits > 0
    return keyed or any(reach.sees == "one-share" for reach in reaches)


def unusable_product(intent: RoundIntent) -> Iterator[str]:
    """Yield why the facts of an intent, taken together, bound no product, or are of none."""
    contribution, product = intent.contribution, intent.contribution.product
    if not is_product(contribution):
        if product is not None:
            terms = contribution.terms
            yield f"`product` says nothing of terms of kind `{terms}`, and stands there"
        return
    if product is None:
        yield "`product` is missing, and nothing else says what bounds a unit's part of a product"
        return
    yield from _out_of_range(contribution, product)
    if intent.weights.rule != "none":
        yield f"weights by `{intent.weights.rule}` are stated of a product, which has none"
    if intent.noise.family != "gaussian":
        yield f"of {intent.noise.family} noise on a product no event is known"
    elif contribution.norm != "l2":
        yield (
            "gaussian noise on a product is measured against l2 norms, and the bound is "
            f"{contribution.norm}"
        )


def _out_of_range(contribution: Contribution, product: Product) -> Iterator[str]:
    for name in ("row_norm", "divisor", "largest_change"):
        value = getattr(product, name)
        if value is not None and not 1.0 / MAX_USABLE_FACT <= value <= MAX_USABLE_FACT:
            yield f"`product.{name}` is {value!r}, which bounds nothing"
            return
    if not 1 <= product.rows <= MAX_SILO_ROWS:
        yield f"`product.rows` is {product.rows:,}, which bounds nothing"
        return
    for name in ("row_bits", "basis_bits"):
        value = getattr(product, name)
        if not MIN_FACTOR_BITS <= value <= MAX_PRODUCT_BITS:
            yield f"`product.{name}` is {value:,}; grids have {MIN_FACTOR_BITS} or more"
            return
    bits = product_bits(product)
    if not MIN_PRODUCT_BITS <= bits <= MAX_PRODUCT_BITS:
        yield (
            f"rows and Z of `product` make products of {bits:,} bits; they have "
            f"{MIN_PRODUCT_BITS} to {MAX_PRODUCT_BITS}"
        )
        return
    try:
        bound_of(contribution)
    except PrivplanError as error:
        yield f"`product`: {error.what.rstrip('.')}"


def product_bits(product: Product) -> int:
    """Return 2 b + q, the bits of one row's product."""
    return 2 * product.row_bits + product.basis_bits


def moved_by_unit(
    contribution: Contribution, relation: str, *, part: str | None = None
) -> Fraction:
    """Return how far one unit moves the sum: derived, and more where a larger bound is stated.

    `part`: the unit of the promise, where that is a part of what is bounded.  Where an entry is
    bounded, a promise for several of them, or one under which an entry comes or goes, is that of
    replace-one for its row.
    """
    bound = bound_of(contribution)
    if bound.unit == "entry" and (part or relation != "replace-one"):
        bound, part = replace(bound, unit="record", largest_change=None), "entry"
    moved = Fraction(bound.l2("replace-one" if part else relation))
    wholes = 2 if part == "record" and relation == "replace-one" else 1
    stated, derived = Fraction(contribution.bound), Fraction(bound.row_bound)
    if stated > derived * (1 + Fraction(STATED_TOLERANCE_RELATIVE)):
        # Facts that are said to bound less than the bound: nothing is known of two such parts but
        # that each is within it.
        replaced = part is not None or relation == "replace-one"
        return wholes * max(moved, stated * (2 if replaced else 1))
    return wholes * moved * max(Fraction(1), stated / derived)


def derived_bound(contribution: Contribution) -> float:
    """Return the largest norm of what the rows of one unit add."""
    return bound_of(contribution).row_bound


def least_grid(product: Product) -> float:
    """Return the step on which a value stands, R^2 / s 2^-(2 b + q), rounded up."""
    square = Fraction(product.row_norm) ** 2 / Fraction(product.divisor)
    return up(square / 2 ** product_bits(product))
