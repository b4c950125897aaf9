"""Coordinates whose choice depends on the data, each shuffled on its own: what is still proven.

A user's k dimensions tell something about the data, so nothing is gained from hiding them, and two
neighbours may choose different ones.  Let h dimensions be common to both choices.  With n_p
messages in every dimension (others' messages, and dummies from the blanket omega of R), and every
other user's data fixed, the round is a product of

* h pairs A: R(x) against R(x'), among n_p - 1 others;
* k - h pairs B: R(x) against a dummy, among n_p - 1 others; and k - h pairs B': the other way.

**A and B x B' bound them all.**  B has the hockey stick of L = r_x - e^eps, r_x = mu_x / omega,
which is at most r_0 - e^eps in convex order (`randomizers`).  Let h_C be the larger, at each order,
of the hockey sticks of A and of B x B'.  A maximum of hockey sticks is one, so there is a pair C
with that one; it dominates A and B x B', and k copies of it dominate every mixture: no maximum
over h has to be searched.  (Nearly always C is A.  Among dummies alone that is a theorem: A is
(U, V) and B x B' is (U, V*) with U and V means of r_0 and r_1 over the same, and V* over other,
draws; r_0 falls and r_1 rises, so (U, V) is smaller than (U, V*) in supermodular order, while
(u - a v)+ is submodular.)

**All dimensions are sent, with senders.**  Let a user fill the dimensions that it does not choose
with draws from omega of its own (decoys), so that it always sends all d.  Then the k copies of
R(0) against R(1), without any shuffler, dominate what it sends, and so whatever is made of it, for
Laplace noise on numbers and k-ary randomized response.  Proof.  A dimension that neither neighbour
chooses is omega for both.  What is left is h pairs A and k - h of B x B' as above, each among 1
message: the case "among dummies alone" of one draw, where r_0 falls and r_1 rises, so one A
dominates each B x B'.  (One draw is all that it takes: no other user's message is needed.)
So among others A and B x B' are k epsilon0-DP together, too, however few messages there are.

The bounds among others need that no dimension overflows for any data, which n_p >= n gives.  Where
a cap drops random messages beyond n_p, a dimension that only one neighbour chooses may hold n_p
others: then the user takes the place of one of them at random, a mixture of pairs A.  Up to 2 k
dimensions differ, so 2 k copies of A dominate.  (So they do for Gaussian noise and a stated local
epsilon, for which B is not evaluated.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...guarantee import Neighbours, Step
from ..sums import UNIT_ROUNDOFF, log_expected_excess
from .blanket import blanket_profile
from .double import Copies, described, log_blanket_mass, padding_conditions, profile_among_users
from .profile import Profile, smallest_epsilon
from .randomizers import MAX_AMPLIFIED_LOSS, Blanket, Randomizer, randomizer_of

OVERLAP_SOURCE: Final = (
    "derived in amplification/shuffling/overlap.py; one message among others: arXiv 1903.02837, "
    "or arXiv 2208.04591 for a stated local epsilon"
)

KINK_ORDERS: Final = 64
"""Orders at which B is evaluated on each side of 1."""


def data_dependent_bound(event: ev.SampledShuffle, neighbours: Neighbours) -> Copies | None:
    """Return the bound of coordinate-wise shuffling when the choice depends on the data.

    None where there is no guarantee: a dimension may overflow, and no cap is accounted.  It holds
    under replace-one, zero-out and add-remove ("absent" is a user whose slots hold dummies), for
    all that the analyzer sees.  Source: derived above.
    """
    fits = event.padded_to >= event.users
    if not fits and event.overflow != "cap":
        return None
    randomizer = randomizer_of(event.event)
    copies, profile = event.chosen, None
    if fits and randomizer is not None:
        profile = worse_of_both(randomizer, event.padded_to)
    if profile is None:
        copies, profile = 2 * event.chosen, profile_among_users(event.event, event.padded_to)
    room = "no dimension can overflow" if fits else "overflow is cut at random"
    step = Step(
        "shuffling",
        f"No sampling gain: {copies:,} copies of one message ({described(event.event)}) among "
        f"{event.padded_to:,} of one dimension; {room}.",
        OVERLAP_SOURCE,
        (
            "which dimensions are sent may depend on the user's own data, and be known",
            *padding_conditions(event),
            f"neighbours: {neighbours}",
        ),
    )
    return Copies(profile, copies, 0.0, (step,))


def worse_of_both(randomizer: Randomizer, messages: int) -> Profile | None:
    """Return the larger of the hockey sticks of A and of B x B', among `messages`.

    Neither is above that of one message alone, so no loss exceeds the local epsilon.

    None for a randomizer whose losses have no end, or none that can be reached.
    """
    if randomizer.largest_loss > MAX_AMPLIFIED_LOSS:
        return None
    profile_a = blanket_profile(randomizer, messages)
    blanket, log_gamma = randomizer.blanket(0.0), log_blanket_mass(randomizer)
    log_delta_b = _MessageAgainstDummy(blanket, log_gamma, messages).product_with_reverse()

    @cache
    def log_delta(epsilon: float) -> float:
        # Among others B x B' is a post-processing of one message with a decoy, which R(0) against
        # R(1) dominates (see the module); so is A, whose profile says so itself.
        log_local = randomizer.log_local_delta(epsilon)
        return max(profile_a.log_delta(epsilon), min(log_delta_b(epsilon), log_local))

    return Profile(log_delta, profile_a.largest_loss, profile_a.steps)


@dataclass(frozen=True, eq=False)
class _MessageAgainstDummy:
    """B: one message of R(0) against a dummy, among n - 1 others of the randomizer.

    The terms are those of the blanket bound, with (r_0 - e^eps) / gamma for Y; in the other order
    (1 - e^eps r_1) / gamma, by symmetry.
    """

    blanket: Blanket
    log_gamma: float
    messages: int

    def log_delta(self, epsilon: float, backwards: bool) -> float:
        """Return a bound on log delta of B, or of its reverse, at epsilon >= 0."""
        losses = self.blanket.losses
        # (r_0 - e^eps)/gamma, backwards (1 - e^eps r_1)/gamma, as gain - loss; r_0 is
        # gamma e^max(l, 0), and r_1 gamma e^max(-l, 0).
        if backwards:
            gain = np.full(losses.shape, math.exp(-self.log_gamma))
            loss = np.exp(epsilon + np.maximum(-losses, 0.0))
        else:
            gain = np.exp(np.maximum(losses, 0.0))
            loss = np.full(losses.shape, math.exp(epsilon - self.log_gamma))
        size = (gain + loss) * (1.0 + np.abs(losses) + epsilon + abs(self.log_gamma))
        values = np.append(gain - loss + 16.0 * UNIT_ROUNDOFF * size, 0.0)
        log_masses = np.append(self.blanket.log_masses, self.blanket.log_rest)
        log_delta = log_expected_excess(
            values, log_masses, self.messages, mass_error=self.blanket.mass_error
        )
        log_delta -= math.log(self.messages)
        if math.isinf(log_delta):
            return log_delta
        return min(log_delta + 1e-14 * (1.0 + abs(log_delta)), 0.0)

    def product_with_reverse(self) -> Callable[[float], float]:
        """Return log delta of B x B' as a function of epsilon >= 0, from finitely many orders."""
        forward, backward = self._kinks(False), self._kinks(True)
        # Losses of B: ascending kinks of either order, an infinite one, and 0 for the rest.
        p = np.concatenate((forward.greater, backward.lesser_masses, [forward.infinite, 0.0]))
        q = np.concatenate((forward.lesser_masses, backward.greater, [0.0, backward.infinite]))
        rest = max(1.0 - math.fsum(p), 1.0 - math.fsum(q), 0.0) + 1e-14
        p, q = np.append(p, rest), np.append(q, rest)
        # All pairs of outcomes of B and of its reverse: the product's masses.
        both_p, both_q = np.outer(p, q).ravel(), np.outer(q, p).ravel()

        def log_delta(epsilon: float) -> float:
            # Hockey stick of the product, outward: Q down, the sum up.
            excess = np.maximum(both_p - math.exp(epsilon) * both_q * (1.0 - 1e-13), 0.0)
            total = float(excess.sum()) * (1.0 + 1e-12)
            return min(math.log(total), 0.0) if total > 0.0 else -math.inf

        return log_delta

    def _kinks(self, backwards: bool) -> _Kinks:
        """Return the convex hull of bounds on delta, as masses at its corners beyond order 1."""

        def log_delta(epsilon: float) -> float:
            return self.log_delta(epsilon, backwards)

        top = smallest_epsilon(Profile(log_delta, 600.0, ()), 1e-30, relative=0.05)
        epsilons = np.linspace(0.0, top, KINK_ORDERS + 1)
        deltas = np.exp([log_delta(float(epsilon)) for epsilon in epsilons])
        corners: list[int] = []
        orders = np.exp(epsilons)
        for index in range(epsilons.size):
            # Lower convex hull, left to right, in the order a = e^eps.
            while len(corners) > 1:
                a, b = corners[-2:]
                slope_before = (deltas[b] - deltas[a]) / (orders[b] - orders[a])
                slope_after = (deltas[index] - deltas[b]) / (orders[index] - orders[b])
                if slope_before < slope_after:
                    break
                corners.pop()
            corners.append(index)
        orders, deltas = orders[corners], np.minimum.accumulate(deltas[corners])
        slopes = np.append(np.diff(deltas) / np.diff(orders), 0.0)
        # A kink where the slope rises by q: Q-mass q, P-mass a q.
        lesser_masses = np.maximum(np.diff(slopes), 0.0) * (1.0 + 1e-11)
        return _Kinks(lesser_masses * orders[1:], lesser_masses, float(deltas[-1]))


@dataclass(frozen=True, eq=False)
class _Kinks:
    """Masses of the more and the less likely of two laws, at losses above 0; the former's rest."""

    greater: FloatArray
    lesser_masses: FloatArray
    infinite: float
