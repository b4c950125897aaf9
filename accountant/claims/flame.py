"""FLAME: federated learning in the shuffle model, with coordinates sampled or chosen by size.

A unit is a user, whose update is replaced by another; the observer is the analyzer, who sees what
the shufflers put out.  "By coordinate" reads the algorithms as d independent shufflers, which the
analysis assumes; "whole tuples" and "whole vectors" read them as they are printed.  Parameters that
the text leaves open, and that were found by reproducing its numbers, are called inferred.

Source of what is claimed: Liu, Cao, Chen, Guo and Yoshikawa 2021, AAAI, arXiv 2009.08063v4, and
Rachelxuan11/FLAME; see `flame_published`.  Lower ends: `flame_lower`, or the engine's own.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from .. import events as ev
from . import flame_formulas
from .flame_formulas import (
    DIMENSIONS,
    FIFTIETH,
    FLAME_DELTA,
    MESSAGE_EPSILON,
    SIMPLE_EPSILON,
    TENTH,
    USERS,
    SentCoordinates,
    laplace,
    row,
    sampled,
    simple,
    topk_without_overflow,
)
from .flame_lower import count_epsilon, laplace_stays, tuple_epsilon
from .flame_published import published_simple, published_theorem_4_with_double_counting
from .proofs import epsilon, upper_epsilon
from .table import Claim


def _theorem_4(sent: SentCoordinates, *, sampling: bool = True) -> float:
    return published_theorem_4_with_double_counting(
        MESSAGE_EPSILON,
        dimensions=DIMENSIONS,
        chosen=sent.chosen,
        padded_to=sent.padded_to,
        delta=FLAME_DELTA,
        sampling=sampling,
    )


def _count_epsilon(local_epsilon: float, own: int, messages: int) -> float:
    return count_epsilon(laplace_stays(local_epsilon), own, messages, FLAME_DELTA)


def _simple() -> Claim:
    proven, lower = epsilon(simple(), FLAME_DELTA, "replace-one")
    count_lower = _count_epsilon(SIMPLE_EPSILON, DIMENSIONS, DIMENSIONS * USERS)
    why = "A mistyped bound and then advanced composition; still ten times what is proven."
    claimed = published_simple(SIMPLE_EPSILON, USERS, DIMENSIONS)
    setting = "SS-Simple, by coordinate"
    return row(setting, claimed, proven, max(lower, count_lower), why, "Figure 5", printed="0.91")


def _simple_vectors() -> Claim:
    event = ev.SampledShuffle(
        *(USERS, DIMENSIONS, DIMENSIONS, USERS),
        *("tuple", "oblivious", "refuse", laplace(SIMPLE_EPSILON)),
    )
    proven = upper_epsilon(event, FLAME_DELTA, "replace-one")
    count_lower = _count_epsilon(SIMPLE_EPSILON, DIMENSIONS, DIMENSIONS * USERS)
    why = "Of a vector that stays whole, no more is proven than its own noise gives."
    claimed = published_simple(SIMPLE_EPSILON, USERS, DIMENSIONS)
    setting = "SS-Simple, whole vectors"
    return row(setting, claimed, proven, count_lower, why, "Algorithm 2", printed="0.91")


def _double(sent: SentCoordinates, printed: str, source: str) -> Claim:
    proven, lower = epsilon(sampled(sent, "coordinate", "oblivious"), FLAME_DELTA, "replace-one")
    count_lower = _count_epsilon(MESSAGE_EPSILON, sent.chosen, DIMENSIONS * sent.padded_to)
    why = (
        "Theorem 4 counts k coordinates as if the index sets were known and amplifies as if they "
        "were hidden; its number happens to hold here."
    )
    setting = f"SS-Double, {sent.beta}, by coordinate"
    claimed = _theorem_4(sent)
    return row(setting, claimed, proven, max(lower, count_lower), why, source, printed=printed)


def _double_tuples() -> Claim:
    """Read as printed: d n_p / k tuples of k messages, dummies among them."""
    proven = upper_epsilon(sampled(FIFTIETH, "tuple", "oblivious"), FLAME_DELTA, "replace-one")
    tuples = DIMENSIONS * FIFTIETH.padded_to // FIFTIETH.chosen
    attained = tuple_epsilon(MESSAGE_EPSILON, FIFTIETH.chosen, tuples, FLAME_DELTA)
    why = (
        "A tuple of 157 messages stays together, and one that favours a value in all of them "
        "points at its user; only the local noise protects."
    )
    setting, source = f"SS-Double, {FIFTIETH.beta}, whole tuples", "Algorithms 2 and 3"
    return row(setting, _theorem_4(FIFTIETH), proven, attained, why, source, printed="0.24")


def _topk(sent: SentCoordinates, printed: str, why: str, *, sampling: bool = True) -> Claim:
    proven, lower = epsilon(topk_without_overflow(sent), FLAME_DELTA, "replace-one")
    count_lower = _count_epsilon(MESSAGE_EPSILON, sent.chosen, sent.chosen * sent.padded_to)
    condition = "no overflow" if sampling else "no sampling"
    return row(
        f"SS-Topk, {sent.beta}, {condition}",
        _theorem_4(sent, sampling=sampling),
        proven,
        max(lower, count_lower),
        why,
        "Theorem 4 and Figure 5",
        printed=printed,
    )


def _topk_two_epochs() -> Claim:
    delta = 1e-5
    proven, lower = epsilon(ev.Repeat(2, topk_without_overflow(TENTH)), delta, "replace-one")
    why = "Twice 2.348: true where no coordinate overflows, but not by Theorem 4."
    return row(
        f"SS-Topk, {TENTH.beta}, 2 epochs",
        2.0 * _theorem_4(TENTH),
        proven,
        lower,
        why,
        "abstract; setting inferred",
        printed="4.696",
        delta=delta,
    )


def _topk_overflow() -> Claim:
    """n_p = 333 < n = 1,000.

    Let 333 others send a coordinate, and the user or not: 334 messages are seen, or what is done
    about them is, with certainty.
    """
    event = sampled(FIFTIETH, "coordinate", "data-dependent")
    proven = upper_epsilon(event, FLAME_DELTA, "replace-one")
    why = (
        "Which coordinates are sent depends on the data, and 334 messages do not fit where 333 "
        "are expected: what happens then is visible."
    )
    setting, source = f"SS-Topk, {FIFTIETH.beta}, as specified", "Algorithms 3 and 4"
    return row(setting, _theorem_4(FIFTIETH), proven, math.inf, why, source, printed="0.24")


_NEVER: Final = (
    "Which coordinates are largest depends on the data, so sampling amplifies nothing; an exact "
    "test on the messages shows more."
)
_UNKNOWN: Final = (
    "The amplification by sampling has no ground; what is proven lies just above the number."
)
_LOOSE: Final = "Without the sampling that does not apply, the number holds, and is far from tight."

ROWS: Final = (
    _simple,
    _simple_vectors,
    partial(_double, FIFTIETH, "0.24", "Theorem 4 and Figure 5"),
    _double_tuples,
    partial(_topk, FIFTIETH, "0.24", _NEVER),
    _topk_overflow,
    partial(_topk, FIFTIETH, "20.53", _LOOSE, sampling=False),
    partial(_double, TENTH, "2.348", "Theorem 4; setting inferred"),
    partial(_topk, TENTH, "2.348", _UNKNOWN),
    _topk_two_epochs,
    *flame_formulas.ROWS,
)
"""One function per row, in the order of the table."""
