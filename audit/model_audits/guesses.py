"""Guesses about the coins of one model: how many are fixed beforehand, and how they are dealt.

Of r guesses a share calls the units with the highest scores members, and the rest calls those with
the lowest scores non-members.  The share is the one that is right most often on shadows that play
the target, so that nothing of the target chooses it.  Who is guessed among units of equal scores is
drawn, and the seed is a digest of how many members and others have each score: neither the order
of rows nor another scale changes the draw.

Source: Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Algorithm 1 (guesses at both ends).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ..attack_methods.membership.evidence import Evidence
from ..attack_methods.membership.scores import references, strangers_to
from ..attack_methods.membership.tier import trials_of
from ..shadows.design import Design

GUESS_SHARES: Final = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Shares of the guesses that call a unit a member, the first one where several are as good."""

WITHOUT_SHADOWS: Final = 0.5


def share_of_members(evidence: Evidence, attack: str, level: str, guesses: int) -> float:
    """Return the share that is right most often on shadows that play the target."""
    right = np.zeros(len(GUESS_SHARES))
    tried = 0
    for row in references(evidence):
        reference = _as_target(evidence, row)
        if reference is None:
            continue
        try:
            trials = trials_of(reference, attack, level)
        except InvalidInput:  # too few shadows are left without it
            continue
        tried += 1
        right += [
            correct(trials.scores[0], trials.members[0], guesses, share) for share in GUESS_SHARES
        ]
    return GUESS_SHARES[int(right.argmax())] if tried else WITHOUT_SHADOWS


def _as_target(evidence: Evidence, row: int) -> Evidence | None:
    """Return the evidence in which a shadow is the target, among those that do not tell it."""
    kept, coins = strangers_to(evidence, row), evidence.design.shadows
    if not kept.any():
        return None
    alone = slice(row, row + 1)
    return replace(
        evidence,
        design=Design(coins[kept], coins[alone], paired=False),
        shadows=evidence.shadows[kept],
        targets=evidence.shadows[alone],
        shadows_population=evidence.shadows_population[kept],
        targets_population=evidence.shadows_population[alone],
    )


def correct(scores: FloatArray, members: BoolArray, guesses: int, share: float) -> int:
    """Return how many of the guesses are right: (units,) each, of at most that many guesses.

    >>> correct(np.array([3.0, 1.0, 2.0]), np.array([True, False, False]), 2, 0.5)
    2
    """
    if guesses > len(scores):
        raise InvalidInput(
            f"`guesses` must be at most the number of units ({len(scores)}); it is {guesses}.",
            next_step="A tenth of the units, or 100, is usual.",
        )
    values, rank = np.unique(scores, return_inverse=True)
    # How many members, and others, have each score, from the lowest: (values, 2).
    held = np.stack(
        [np.bincount(rank[side], minlength=len(values)) for side in (members, ~members)], axis=1
    )
    seed = hashlib.sha256(np.ascontiguousarray(held, "<i8").tobytes()).digest()
    rng = np.random.default_rng(int.from_bytes(seed, "little"))
    inside = round(share * guesses)
    called_in = _taken(held[::-1], inside, rng)[::-1]
    called_out = _taken(held - called_in, guesses - inside, rng)
    return int(called_in[:, 0].sum() + called_out[:, 1].sum())


def _taken(held: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return who is taken if `count` are, block by block, of the last by a draw: (values, 2)."""
    ends = held.sum(1).cumsum()
    whole = int(np.searchsorted(ends, count, "right"))
    taken = np.where(np.arange(len(held))[:, None] < whole, held, 0)
    left = count - (int(ends[whole - 1]) if whole else 0)
    if left:
        members, others = held[whole].tolist()
        drawn = int(rng.hypergeometric(members, others, left))
        taken[whole] = drawn, left - drawn
    return np.asarray(taken)
