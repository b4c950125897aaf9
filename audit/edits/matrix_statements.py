"""Matrices whose facts do not fit: a bound, a grid, a length that do not follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain

from ...accountant.errors import with_article
from ...accountant.records import Contribution, Gram, Product
from ..findings import UNTOUCHED_COPY, Match, rule
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.gram_facts import STATED_TOLERANCE_RELATIVE, is_gram
from ..ledger.matrix_facts import derived_bound, least_grid, matrix_name, unusable_matrix, values_of
from ..ledger.product_facts import is_product, moved_by_unit, product_of


@rule(
    "gram-mismatch",
    why="How many values a Gram matrix has, what bounds a unit's part of it and on which grid it "
    "stands follow from its facts. Where they differ, something was changed.",
    next_step=UNTOUCHED_COPY,
)
def gram_mismatch(ledger: Ledger) -> Match | None:
    """Fire where bound, weights, grid or number of values are not those of the Gram facts."""
    return _first_misfit(ledger, is_gram)


@rule(
    "product-mismatch",
    why="How many values a product has, how far a unit moves it, what it is divided by and on "
    "which grid it stands follow from its facts. Where they differ, something was changed.",
    next_step=UNTOUCHED_COPY,
)
def product_mismatch(ledger: Ledger) -> Match | None:
    """Fire where bound, sensitivity, divisor, grid or length are not those of the facts."""
    return _first_misfit(ledger, is_product)


def _first_misfit(ledger: Ledger, is_kind: Callable[[Contribution], bool]) -> Match | None:
    """Return the first statement about a matrix of a kind that its facts do not give."""
    for spent in ledger.spent:
        intent = spent.intent
        with_noise = intent.noise.family != "none"
        if is_kind(intent.contribution) and with_noise and not any(unusable_matrix(intent)):
            relation = ledger.opened.claim.neighbours
            # In turn: of a bound that is not finite nothing further can be derived.
            for number, what in chain(_misfits(spent), _product_misfits(spent, relation)):
                return Match(what, (number,))
    return None


def _misfits(spent: SpentIntent) -> Iterator[tuple[int, str]]:
    intent = spent.intent
    contribution, noise = intent.contribution, intent.noise
    named = with_article(matrix_name(contribution))
    for what, stated, due in (
        (f"The bound of {named}", contribution.bound, derived_bound(contribution)),
        (f"The grid of {named}", noise.grid, least_grid(noise, contribution)),
        (f"The largest weight of {named}", intent.weights.largest_sum, 1.0),
    ):
        if not math.isclose(stated, due, rel_tol=STATED_TOLERANCE_RELATIVE):
            yield spent.number, f"{what} is stated as {stated:.9g}; its facts give {due:.9g}."
    values = values_of(contribution)
    for number, release in spent.releases:
        if release.values != values:
            yield (
                number,
                f"{release.values:,} values of {named} are released; its facts give {values:,}.",
            )


def _product_misfits(spent: SpentIntent, relation: str) -> Iterator[tuple[int, str]]:
    """Yield what a product's facts fix besides: how far it moves, and what it is divided by."""
    contribution = spent.intent.contribution
    if not is_product(contribution):
        return
    moved, stated = float(moved_by_unit(contribution, relation)), spent.intent.sensitivity
    if not math.isclose(stated, moved, rel_tol=STATED_TOLERANCE_RELATIVE):
        yield (
            spent.number,
            f"The sensitivity of a product is stated as {stated:.9g}; its facts give {moved:.9g}.",
        )
    divisor = product_of(contribution).divisor
    for number, release in spent.releases:
        used = None if release.normaliser is None else release.normaliser.value
        if used is not None and used != divisor:
            yield (
                number,
                f"A product is divided by {used:.9g}; its facts say {divisor:.9g}.",
            )


@rule(
    "uneven-gram",
    why="All rounds of a phase release Gram matrices of one kind, which the configuration fixes. "
    "Other facts in one of them belong to another run, or were changed.",
    next_step=UNTOUCHED_COPY,
)
def uneven_gram(ledger: Ledger) -> Match | None:
    """Fire where the facts of a Gram matrix differ between the intents of one phase."""
    return _first_uneven(ledger, lambda each: (is_gram(each), each.gram), "Gram matrix")


@rule(
    "uneven-product",
    why="All rounds of a phase release products of one kind, which the configuration fixes. Other "
    "facts in one of them belong to another run, or were changed.",
    next_step=UNTOUCHED_COPY,
)
def uneven_product(ledger: Ledger) -> Match | None:
    """Fire where the facts of a product differ between the intents of one phase."""
    return _first_uneven(ledger, lambda each: (is_product(each), each.product), "product")


def _first_uneven(
    ledger: Ledger,
    facts_of: Callable[[Contribution], tuple[bool, Gram | Product | None]],
    name: str,
) -> Match | None:
    """Return the first intent that states another matrix than the first of its phase."""
    first: dict[str, tuple[bool, Gram | Product | None]] = {}
    for spent in ledger.spent:
        stated = facts_of(spent.intent.contribution)
        if first.setdefault(spent.intent.phase, stated) != stated:
            return Match(
                f"Round {spent.intent.round:,} states another {name} than the first of its phase.",
                (spent.number,),
            )
    return None
