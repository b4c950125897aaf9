"""FLAME as printed, for study: its three protocols with the paper's epsilon as their claim.

**No guarantee**, whatever the settings.  What is done as the text has it, and why nothing holds:

- *Whole tuples* (Algorithms 2 and 3): one permutation mixes what users send, and what one of them
  sends stays together.  So `granularity` counts as `tuple`, and each message reaches everybody.
- *Words* (Algorithm 1): of "responses" the drawn word is one of 1..b, so 0 is sent only by who
  means it (`UnblanketedResponses`).  Dummies are uniform on 1..b too.
- *The largest coordinates* (Algorithm 4, line 2): taken after values are mapped to [0, 1], where
  the most positive are largest.  They are raw data, as are those of the largest size.
- *Padding*: n_p may be below n for SS-Topk, so what overflows depends on the data.  The text does
  not say what becomes of a message too many; here `overflow` does.
- *Amplification* (Theorem 4): index sets count as known and as hidden, and a message by a bound
  with a slip of the pen (`accountant.claims.flame_published`).

With Laplace noise and a choice that depends on no data, the local noise of all messages of a user
would still prove something; `granularity = "tuple"` without `as_published` states that.

The claim is R epsilon(delta / R) for R rounds, as the text adds up epochs.  Sums of words are
freed of what 1..b adds on average over coordinates.  Ciphertexts, where there are any, are carried
as in every run: what an order would show besides that changes no sum.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, *FLAME*, AAAI, arXiv 2009.08063v4, Algorithms 1 to
4, Lemma 1, Theorems 4 and 5.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...accountant.claims.flame_published import (
    published_simple,
    published_theorem_4_with_double_counting,
)
from ...accountant.mechanisms import LaplaceMessages, ResponseMessages, UnblanketedResponses
from ..frame.opening import OpeningStatement
from ..frame.promise import Promise, unproven
from ..frame.requirements import refuse
from ..frame.setup import Setup
from ..frame.state import State
from ..settings.declared_rules import unpaid_votes
from . import selection
from .settings import RESPONSES, SIMPLE, FlameSettings, Protocol
from .system import Flame
from .terms import FlameTerms

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray


class PublishedFlame(Flame):
    """FLAME's users, shuffler and analyzer as printed; see the module.

    Raises `InvalidInput` as `Flame`, and for a target epsilon.
    """

    state = State()

    def __init__(self, setup: Setup, table: FlameSettings, protocol: Protocol) -> None:
        super().__init__(setup, table, protocol)
        refuse(setup, None if setup.held_out is None else unpaid_votes(setup.name))

    @cached_property
    def promise(self) -> Promise:
        """The promise of the run: it proves nothing, and claims the paper's number."""
        privacy, rounds = self.setup.privacy, self.setup.rounds

        def claim(noise: float) -> float:
            return published_claim(self.terms, noise, rounds, privacy.delta)

        return unproven(self.views, privacy, rounds, self.terms.published, claim)

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states, marked as published."""
        return replace(super().opening(), as_published=True)

    def _largest(self, rows: FloatArray) -> IntArray:
        """Return the coordinates of each user's most positive values: (users, chosen)."""
        finite = np.where(np.isfinite(rows), rows, 0.0)
        clip = self.terms.clip
        mapped = (np.clip(finite, -clip, clip) + clip) / (2.0 * clip)  # in [0, 1]
        return selection.largest_coordinates(mapped, self.terms.chosen)

    def _sums(self, mechanism: LaplaceMessages | ResponseMessages, sums: IntArray) -> FloatArray:
        if not isinstance(mechanism, UnblanketedResponses):
            return super()._sums(mechanism, sums)
        terms = self.terms
        senders = terms.users * terms.chosen / terms.dimensions
        return printed_sums(
            sums, self.sent_terms.count, senders, mechanism.epsilon, terms.clip, self.table.steps
        )


def published_claim(terms: FlameTerms, noise_multiplier: float, rounds: int, delta: float) -> float:
    """Return the epsilon that the paper's formulas give of so many rounds at `delta`.

    SS-Simple's composition, or Theorem 4 for both others, whose index sets it takes for random; by
    the program's bound for Laplace noise, and by Lemma 1 for words.  Each round has delta / R.
    Infinite where they are too large for a float.
    """
    try:
        return rounds * _round_claim(terms, 2.0 / noise_multiplier, delta / rounds)
    except OverflowError:
        return math.inf


def _round_claim(terms: FlameTerms, local: float, delta: float) -> float:
    words = terms.table.randomizer == RESPONSES
    if terms.protocol == SIMPLE:
        return published_simple(
            local,
            terms.users,
            terms.dimensions,
            lemma_1=words,
            categories=terms.table.steps,
            delta=delta,
        )
    assert terms.padded_to is not None
    return published_theorem_4_with_double_counting(
        local,
        dimensions=terms.dimensions,
        chosen=terms.chosen,
        padded_to=terms.padded_to,
        delta=delta,
        amplify="lemma-1" if words else "buggy-bennett",
        categories=terms.table.steps,
    )


def printed_sums(
    sums: IntArray, messages: int, senders: float, epsilon: float, clip: float, steps: int
) -> FloatArray:
    """Return sums of values from sums of words, (dimensions,), of so many messages each.

        E[sum] = n_p (b + 1) / 2 + (1 - gamma) sum_i (y_i - (b + 1) / 2),   y = b (x + C) / (2 C)

    for n_p `messages`, of which `senders` are users', on average over coordinates, and the others
    dummies: unbiased where all coordinates have as many senders, on average over rounds.
    """
    t = math.exp(-epsilon)
    meant = (1.0 - t) / (1.0 + (steps - 1) * t)
    centred = (sums.astype(np.float64) - messages * ((steps + 1) / 2.0)) / meant
    # x = 0 is y = b/2, half a step below the middle of 1..b.
    return np.asarray((centred + senders / 2.0) * (2.0 * clip / steps))
