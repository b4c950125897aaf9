"""Gram matrices whose facts do not fit: a bound, a grid, a length that do not follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...accountant.records import Gram
from ..ledger.entries import SpentIntent
from ..ledger.gram_facts import (
    STATED_TOLERANCE_RELATIVE,
    bound_of,
    derived_bound,
    gram_of,
    is_gram,
    least_grid,
    unusable_gram,
)
from .edit_rule import EditFinding, History, edit_rule

_RESTORE = "Take the log from a copy that nobody has touched."


@edit_rule(
    "gram-mismatch",
    why="How many values a Gram matrix has, what bounds a unit's part of it and on which grid it "
    "stands follow from its facts. Where they differ, something was changed.",
    next_step=_RESTORE,
)
def gram_mismatch(history: History) -> EditFinding | None:
    """Fire where bound, weights, grid or number of values are not those of the Gram facts."""
    for spent in _grams(history):
        for number, what in _misfits(spent):
            return EditFinding(what, (number,))
    return None


def _grams(history: History) -> Iterator[SpentIntent]:
    """Yield the intents of Gram matrices whose facts can be so."""
    for spent in history.ledger.spent:
        intent = spent.intent
        with_noise = intent.noise.family != "none"
        if is_gram(intent.contribution) and with_noise and not any(unusable_gram(intent)):
            yield spent


def _misfits(spent: SpentIntent) -> Iterator[tuple[int, str]]:
    intent = spent.intent
    contribution, noise = intent.contribution, intent.noise
    gram = gram_of(contribution)
    for what, stated, due in (
        (
            "The bound of a Gram matrix",
            intent.contribution.bound,
            derived_bound(intent.contribution),
        ),
        ("The grid of a Gram matrix", noise.grid, least_grid(gram, noise.family)),
        ("The largest weight of a Gram matrix", intent.weights.largest_sum, 1.0),
    ):
        if not math.isclose(stated, due, rel_tol=STATED_TOLERANCE_RELATIVE):
            yield spent.number, f"{what} is stated as {stated:.9g}; its facts give {due:.9g}."
    values = bound_of(gram).values
    for number, release in spent.releases:
        if release.values != values:
            yield (
                number,
                f"{release.values:,} values of a Gram matrix are released; its facts give "
                f"{values:,}.",
            )


@edit_rule(
    "uneven-gram",
    why="All rounds of a phase release Gram matrices of one kind, which the configuration fixes. "
    "Other facts in one of them belong to another run, or were changed.",
    next_step=_RESTORE,
)
def uneven_gram(history: History) -> EditFinding | None:
    """Fire where the facts of a Gram matrix differ between the intents of one phase."""
    first: dict[str, tuple[bool, Gram | None]] = {}
    for spent in history.ledger.spent:
        contribution = spent.intent.contribution
        stated = is_gram(contribution), contribution.gram
        if first.setdefault(spent.intent.phase, stated) != stated:
            return EditFinding(
                f"Round {spent.intent.round:,} states another Gram matrix than the first of its "
                "phase.",
                (spent.number,),
            )
    return None
