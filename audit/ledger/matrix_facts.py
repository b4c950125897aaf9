"""Sums of matrices of rows, whichever they are: Gram matrices, and products with a public matrix.

Of both, facts of their own derive what bounds a unit's part, how many values there are, and on
which grid these stand (`gram_facts`, `product_facts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ...accountant.records import Contribution, Noise, RoundIntent
from . import gram_facts, product_facts
from .gram_facts import gram_of, is_gram, unusable_gram
from .product_facts import is_product, product_of, unusable_product


def is_matrix(contribution: Contribution) -> bool:
    """Return whether terms are matrices of a unit's rows, with facts of their own."""
    return is_gram(contribution) or is_product(contribution)


def matrix_name(contribution: Contribution) -> str:
    """Return what the matrix is called in a sentence."""
    return "Gram matrix" if is_gram(contribution) else "product"


def unusable_matrix(intent: RoundIntent) -> Iterator[str]:
    """Yield why the facts of a matrix bound nothing, or stand where there is none."""
    yield from unusable_gram(intent)
    yield from unusable_product(intent)


def values_of(contribution: Contribution) -> int:
    """Return how many values are released, by the facts of a matrix."""
    if is_gram(contribution):
        return gram_facts.bound_of(gram_of(contribution)).values
    return product_facts.bound_of(contribution).values


def derived_bound(contribution: Contribution) -> float:
    """Return the largest norm of one unit's part that the facts allow."""
    if is_gram(contribution):
        return gram_facts.derived_bound(contribution)
    return product_facts.derived_bound(contribution)


def moved_by_unit(
    contribution: Contribution, relation: str, *, part: str | None, apart: bool = False
) -> Fraction:
    """Return how far one unit moves the sum, or silos' matrices seen one by one (`apart`).

    `part`: the unit of the promise, where that is a part of what is bounded.
    """
    if is_gram(contribution):
        finer = part is not None
        return gram_facts.moved_by_unit(contribution, relation, finer=finer, apart=apart)
    return product_facts.moved_by_unit(contribution, relation, part=part)


def least_grid(noise: Noise, contribution: Contribution) -> float:
    """Return the coarsest step on which a value stands by the facts, rounded up."""
    if is_gram(contribution):
        return gram_facts.least_grid(gram_of(contribution), noise.family)
    return product_facts.least_grid(product_of(contribution))


def coarsest_grid(noise: Noise, contribution: Contribution) -> float:
    """Return the grid to count on: the stated one, or that of the bits where it is coarser."""
    return max(noise.grid, least_grid(noise, contribution))
