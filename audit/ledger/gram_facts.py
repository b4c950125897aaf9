"""What the facts of a Gram matrix bound: its sensitivity, its grid, and what they cannot say.

`Contribution.gram` holds what `accountant.sensitivity.gram` derives a sensitivity from; the bound
and the sensitivity that stand next to it count only where they are larger.

    promise for                       a sum moves by at most
    what is bounded together          the sensitivity for the relation
    a part of it (a record of a user) that of replace-one for the whole: a record that goes may let
                                      another row of the same user in; twice that under
                                      replace-one, where what comes may be another user's

Under zero-out a unit gives way to one of zeros, or to none: replace-one covers both.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from ...accountant.errors import PrivplanError
from ...accountant.records import Contribution, Gram, RoundIntent
from ...accountant.sensitivity.gram import GramBound
from ...accountant.sensitivity.release import root_down, root_up, up

STATED_TOLERANCE_RELATIVE: Final = 1e-9
"""Relative excess of a stated bound that rounding explains."""

MAX_USABLE_FACT: Final = 1e30
"""Largest norm, weight or trace that can be meant, and one over the smallest: of these every
sensitivity is a float."""

MIN_BITS, MAX_BITS = 8, 20
"""Bits of the grids that Gram matrices stand on: those of `accountant.mechanisms.gram_grid`, whose
module is too heavy for checking a log."""

NORM_OF_NOISE: Final = {"gaussian": "l2", "laplace": "l1", "wishart": "l2"}
"""The norm of a unit's part that noise of a family is measured against; under Wishart noise, which
is measured against none, the one that is stated."""

_STEPS_LOST: Final = 4
"""Steps of the grid by which clipping and truncation, of two coordinates, may shorten a row."""

_CLIP_SHARE_LOST: Final = Fraction(1, 1_000_000)
"""What the margin of the clip may take from a row besides."""


def is_gram(contribution: Contribution) -> bool:
    """Return whether terms are x x^T and x y^T of a unit's rows."""
    return contribution.terms == "gram"


def gram_of(contribution: Contribution) -> Gram:
    """Return the facts of a Gram matrix; `unusable_gram` has found that they are there."""
    assert contribution.gram is not None
    return contribution.gram


def bound_of(gram: Gram) -> GramBound:
    """Return what bounds one unit's part; raises `InvalidInput` for facts that are out of range."""
    return GramBound(
        dimension=gram.dimension,
        classes=gram.classes,
        label_weight=gram.label_weight,
        rows=gram.rows,
        trace=gram.trace,
        by_class=gram.by_class,
    )


def unusable_gram(intent: RoundIntent) -> Iterator[str]:
    """Yield why the facts of an intent, taken together, bound no Gram matrix, or are of none."""
    contribution, gram = intent.contribution, intent.contribution.gram
    if not is_gram(contribution):
        if gram is not None:
            yield f"`gram` says nothing of terms of kind `{contribution.terms}`, and stands there"
        return
    if gram is None:
        yield "`gram` is missing, and nothing else says what bounds a unit's part of a Gram matrix"
        return
    yield from _out_of_range(gram)
    if contribution.unit == "entry":
        yield "a Gram matrix has products of entries, so it bounds none of them by itself"
    if intent.weights.rule != "none":
        yield f"weights by `{intent.weights.rule}` are stated of a Gram matrix, which has none"
    if intent.noise.family == "wishart" and gram.classes:
        yield "of Wishart noise on label sums nothing is known"
    norm = NORM_OF_NOISE.get(intent.noise.family)
    if norm is None:
        yield f"of {intent.noise.family} noise on a Gram matrix no event is known"
    elif norm != contribution.norm:
        yield (
            f"{intent.noise.family} noise on a Gram matrix is measured against {norm} norms, and "
            f"the bound is {contribution.norm}"
        )


def _out_of_range(gram: Gram) -> Iterator[str]:
    for name in ("label_weight", "trace", "row_norm"):
        value = getattr(gram, name)
        if not 1.0 / MAX_USABLE_FACT <= value <= MAX_USABLE_FACT:
            yield f"`gram.{name}` is {value!r}, which bounds nothing"
            return
    if not MIN_BITS <= gram.bits <= MAX_BITS:
        yield f"`gram.bits` is {gram.bits:,}; grids have {MIN_BITS} to {MAX_BITS}"
    try:
        bound_of(gram)
    except PrivplanError as error:
        yield f"`gram`: {error.what.rstrip('.')}"


def moved_by_unit(
    contribution: Contribution, relation: str, *, finer: bool, apart: bool = False
) -> Fraction:
    """Return how far one unit moves the sum: derived, and more where a larger bound is stated.

    `finer`: the promise is for a part of what is bounded.  `apart`: silos' matrices are seen one by
    one, where what goes and what comes may lie in two of them; then their squares add up.  Of a
    part that is replaced they may lie in two wholes, each of which then changes.
    """
    bound, replaced = bound_of(gram_of(contribution)), finer or relation != "add-remove"
    removed = _of_relation(bound, contribution.norm, replaced=False)
    moved = _of_relation(bound, contribution.norm, replaced=replaced)
    wholes = 2 if finer and relation == "replace-one" else 1
    if replaced and apart:
        moved = max(
            moved, Fraction(root_up(2 * removed**2)) if contribution.norm == "l2" else 2 * removed
        )
    stated = Fraction(contribution.bound)
    if stated > removed * (1 + Fraction(STATED_TOLERANCE_RELATIVE)):
        # Facts that are said to bound less than the bound: nothing is known of two such parts but
        # that each is within it.
        return wholes * max(moved, stated * (2 if replaced else 1))
    return wholes * moved * max(Fraction(1), stated / removed)


def derived_bound(contribution: Contribution) -> float:
    """Return the largest norm of one unit's part that the facts allow."""
    bound = bound_of(gram_of(contribution))
    return float(_of_relation(bound, contribution.norm, replaced=False))


def _of_relation(bound: GramBound, norm: str, *, replaced: bool) -> Fraction:
    relation = "replace-one" if replaced else "add-remove"
    return Fraction(bound.l1(relation) if norm == "l1" else bound.l2(relation))


def least_grid(gram: Gram, family: str) -> float:
    """Return the coarsest step on which a value stands, where noise is even, rounded up.

    A matrix has steps of 4^-b, above its diagonal sqrt(2) 4^-b (under Gaussian noise alone);
    label sums have steps of a 2^-b / c, or of a 4^-b where labels are numbers.
    """
    above = root_up(Fraction(2 if family == "gaussian" else 1, 16**gram.bits))
    if not gram.classes:
        return above
    scale = gram.classes if gram.classes > 1 else 2**gram.bits
    return max(above, up(Fraction(gram.label_weight) / (2**gram.bits * scale)))


def least_attained(gram: Gram, *, replaced: bool, rows: int) -> Fraction:
    """Return how far some unit of `rows` equal rows surely moves the release, rounded down.

    A row of norm R becomes one of squared norm r = (1 - e)^2 T / k on the grid, e being what the
    clip and truncation may take.  A unit of n of them that goes moves the release by
    n sqrt(r^2 + a^2 r y^2); one whose labels are exchanged, by n a sqrt(r) times the distance of
    two labels.  0 where labels are all that is exchanged, and there are none.
    """
    bound = bound_of(gram)
    length = root_down(bound.row_square * 4**gram.bits)
    kept = 1 - _CLIP_SHARE_LOST - Fraction(_STEPS_LOST) / Fraction(length)
    if kept <= 0:
        return Fraction(0)
    square = kept**2 * bound.row_square
    weight = Fraction(gram.label_weight) ** 2
    if replaced:
        apart = {0: 0, 1: 4}.get(gram.classes, 2)  # squared: of -1 and 1, of two one-hot vectors
        moved = weight * square * apart
    else:
        moved = square**2 + weight * square * bound.label_square
    return Fraction(root_down(rows**2 * moved)) if moved else Fraction(0)
