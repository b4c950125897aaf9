"""Clones: how well the other users' messages hide one, known only that messages are epsilon0-LDP.

Write p = e^epsilon0, and R0 and R1 for the laws of the message that differs.  Both bounds compare

    P = (A + D, C - A + 1 - D)  with  Q = (A + 1 - D, C - A + D),
    A ~ Bin(C, 1/2),  D ~ Bern(p / (p + 1)),

where C, the number of clones, is binomial with n - 1 trials:

* **2021**, success 1/p.  Each other position's law is (1/2p) R0 + (1/2p) R1 + a rest, and R0, R1
  are post-processings of D.  It holds for any epsilon0-LDP randomizer, also when users are
  permuted first and the randomizer at a position depends on the messages before it.
* **2023**, success 2/(p + 1), for one randomizer that all users share and that looks at no other
  message.  The published proof has an erratum (arXiv 2208.04591); for this case:

  Every R(x) is at least max(R0, R1) / p, whose mass is (1 + b)/p, b the total variation distance
  of R0 and R1.  Reveal which messages come from the rest, and these messages.  What remains is
  delta(eps) = (1/n) E(Z_1 + ... + Z_n)+, Z = p (R0 - e^eps R1) / max(R0, R1) with probability
  (1 + b)/p under the law max(R0, R1) / (1 + b), and 0 otherwise.  Z is linear in R1/R0 <= 1, and
  in R0/R1 <= 1, both in [1/p, 1]: moving mass to the ends, with means kept, gives in convex order
  no less, namely the law l Z' + (1 - l) W with l = b (p + 1)/(p - 1) <= 1 and
      Z' = p - e^eps or 1 - p e^eps with probability 1/(p + 1) each, and 0 otherwise,
      W  = p (1 - e^eps) with probability 1/p, and 0 otherwise.
  All means are 1 - e^eps.  For 0 <= eps <= epsilon0, E(s - W)+ <= E(s - Z')+ for every s: both
  are linear between p (1 - e^eps) and 0, with values 0 <= (p - 1)/(p + 1) and
  e^eps - 1 <= (p e^eps - 1)/(p + 1) at the ends (the latter says e^eps <= p); to the left W gives
  0, to the right Jensen's inequality decides.  So Z is at most Z' in convex order, sums of
  independent copies keep that, and (1/n) E(Z'_1 + ... + Z'_n)+ is the pair above.

For C + 1 = m messages the likelihood ratio grows with the first count a, exceeds e^eps from
t = floor(m (p e^eps - 1) / ((p - 1)(1 + e^eps))) + 1 on, and with b(m, k) = C(m, k) / 2^m

    delta_m = (p - e^eps)/(p + 1) b(m-1, t-1) - (e^eps - 1) sum_{k >= t} b(m-1, k).

delta is its mean over m.  The sums for neighbouring m follow from each other by Pascal's rule.
delta_m falls as m grows (an average of m terms is a reverse martingale, in the representation
above), so the mass of rare m is counted at the smallest m it may stand for.

Source: Feldman, McMillan, Talwar 2021, arXiv 2012.12803, and 2023, arXiv 2208.04591; the proof
for the shared randomizer is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from ... import validate
from ...arrays import FloatArray
from ...errors import Unsupported
from ...guarantee import Step
from ..sums import UNIT_ROUNDOFF
from .binomials import log_binomial, log_half_binomial, reach
from .profile import Profile

MAX_CLONES_USERS: Final = 10**8
"""More users are counted as so many: more users hide a message no worse."""

MAX_CLONES_EPSILON: Final = 700.0
"""Above this local epsilon there is no clone worth counting."""

CLONES_DELTA_UNDERFLOW: Final = 1e-300
"""Added to every delta, for what underflows."""


def clones_profile(epsilon0: float, users: int, *, adaptive: bool = False) -> Profile:
    """Return the clones bound on delta of `users` shuffled epsilon0-LDP messages.

    The 2023 pair, or, where randomizers may depend on earlier messages (`adaptive`), the 2021
    pair.  `epsilon0` is 0 or above, in nats; relation: replace-one, against who sees the shuffled
    messages; users who collude with the observer do not count among `users`.

    >>> round(math.exp(clones_profile(1.0, 10_000).log_delta(0.0432062)) * 1e6, 3)
    1.0
    """
    return fmt21_profile(epsilon0, users) if adaptive else fmt23_profile(epsilon0, users)


def fmt21_profile(epsilon0: float, users: int) -> Profile:
    """Return the bound with C ~ Bin(n - 1, e^-epsilon0): any epsilon0-LDP randomizer.

    It covers users who are permuted first, the randomizer at each position being chosen from the
    messages before it.  It does not cover users with randomizers of their own whose messages are
    shuffled afterwards: an alphabet of one's own is a name.  Units and relation as for
    `clones_profile`.  Source: Feldman, McMillan, Talwar 2021, arXiv 2012.12803.
    """
    epsilon0, users = _checked(epsilon0, users)
    step = Step(
        "shuffling",
        f"Clones: each of {users - 1:,} other messages hides this one with probability "
        f"e^-{epsilon0:.6g}.",
        "Feldman, McMillan, Talwar 2021, arXiv 2012.12803",
        (
            f"every message is {epsilon0:.6g}-LDP, whatever came before it",
            "users are permuted before they randomize, or all use one randomizer",
            "users who collude with the observer are not counted",
            "neighbours: replace-one",
        ),
    )
    return _profile(epsilon0, users, True, step)


def fmt23_profile(
    epsilon0: float, users: int, *, adaptive: bool = False, shared: bool = True
) -> Profile:
    """Return the bound with C ~ Bin(n - 1, 2/(e^epsilon0 + 1)): one shared randomizer.

    Raises `Unsupported` where the randomizer is `adaptive` or not `shared` by all users: there the
    published proof fails and ours does not apply.  Units and relation as for `clones_profile`.

    Source: Feldman, McMillan, Talwar 2023, arXiv 2208.04591; proven at the top of this file.
    """
    epsilon0, users = _checked(epsilon0, users)
    require_shared(adaptive=adaptive, shared=shared)
    step = Step(
        "shuffling",
        f"Clones: each of {users - 1:,} other messages hides this one with probability "
        f"2/(e^{epsilon0:.6g} + 1).",
        "Feldman, McMillan, Talwar 2023, arXiv 2208.04591; for one shared randomizer proven in "
        "amplification/shuffling/clones.py",
        (
            f"every message is {epsilon0:.6g}-LDP, from one randomizer that all users share",
            "no message depends on another",
            "users who collude with the observer are not counted",
            "neighbours: replace-one",
        ),
    )
    return _profile(epsilon0, users, False, step)


def require_shared(*, adaptive: bool, shared: bool) -> None:
    """Raise `Unsupported` unless all users share one randomizer that looks at no message."""
    if adaptive:
        raise Unsupported(
            "The 2023 clones bound does not hold for adaptive randomizers.",
            "Its proof needs one randomizer that looks at no other message: Lemma 3.5 of arXiv "
            "2208.04591 has an erratum, and only the shared, non-adaptive case is proven here.",
            "The 2021 bound holds: clones_profile(epsilon0, users, adaptive=True).",
        )
    if not shared:
        raise Unsupported(
            "The 2023 clones bound does not hold for users with randomizers of their own.",
            "Its proof needs one randomizer that all users share; messages from alphabets of "
            "their own name their users, shuffled or not.",
            "If users are permuted before they randomize, and the randomizer belongs to the "
            "position, the 2021 bound holds: clones_profile(epsilon0, users, adaptive=True). "
            "Otherwise only the local epsilon is proven.",
        )


def _checked(epsilon0: object, users: object) -> tuple[float, int]:
    return validate.non_negative(epsilon0=epsilon0), validate.count(users=users)


def _profile(epsilon0: float, users: int, adaptive: bool, step: Step) -> Profile:
    clones = _ClonesPair(epsilon0, min(users, MAX_CLONES_USERS), adaptive)
    return Profile(cache(clones.log_delta), epsilon0, (step,))


@dataclass(frozen=True)
class _ClonesPair:
    """One of the two pairs; `adaptive` says that it is that of 2021."""

    epsilon0: float
    users: int
    adaptive: bool

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound on log delta at `epsilon` >= 0; -inf from epsilon0 on."""
        if epsilon >= self.epsilon0:
            return -math.inf
        # A larger local epsilon and fewer clones are worse, so both are rounded that way.
        local = self.epsilon0 * (1.0 + 4.0 * UNIT_ROUNDOFF)
        local_delta = -math.expm1(epsilon - local) / (1.0 + math.exp(-local)) * (1.0 + 1e-15)
        if self.users == 1 or local > MAX_CLONES_EPSILON:
            return min(math.log(local_delta), 0.0)
        messages, weights, p_fewer, p_more = self._clone_counts(epsilon, local)
        deltas = _deltas(messages, epsilon, local, local_delta)
        # Mean over m; fewer messages count as one alone, more as the most that were summed.
        total = float((weights * deltas).sum())
        total += p_fewer * local_delta + p_more * float(deltas[-1]) + CLONES_DELTA_UNDERFLOW
        return min(math.log(total) + 1e-14, math.log(local_delta), 0.0)

    def _clone_counts(
        self, epsilon: float, local: float
    ) -> tuple[FloatArray, FloatArray, float, float]:
        """Return consecutive m, their probabilities, and those of fewer and of more messages."""
        trials = self.users - 1
        shrink = 1.0 - 8.0 * UNIT_ROUNDOFF
        # Success rounded down (fewer clones), failure up: delta falls with the number of clones.
        if self.adaptive:
            success, failure = math.exp(-local) * shrink, -math.expm1(-local)
        else:
            success = 2.0 * math.exp(-local) / (1.0 + math.exp(-local)) * shrink
            failure = math.tanh(0.5 * local)
        failure = failure + 8.0 * UNIT_ROUNDOFF * (success + 1e-300)
        mean, variance = trials * success, trials * success * failure
        share, _ = _threshold(epsilon, local)
        # delta is about what the mean number of messages gives, so tails are cut well below.
        off = 2.0 * share - 1.0
        depth = min(50.0 + (mean + 1.0) * off * off, 740.0)
        low = max(math.floor(mean - reach(variance, depth)), 0)
        high = min(math.ceil(mean + reach(variance, 60.0)), trials)
        counts = np.arange(low, high + 1, dtype=np.float64)
        logs = log_binomial(counts, trials, success, failure)
        p_fewer = math.exp(-depth) if low > 0 else 0.0
        p_more = math.exp(-60.0) if high < trials else 0.0
        return counts + 1.0, np.exp(logs), p_fewer, p_more


def _threshold(epsilon: float, local: float) -> tuple[float, float]:
    """Return the share of m beyond which the ratio exceeds e^epsilon, and e^epsilon - 1."""
    share = -math.expm1(-local - epsilon) / -math.expm1(-local) / (1.0 + math.exp(-epsilon))
    return min(share, 1.0), math.expm1(epsilon)


def _deltas(m: FloatArray, epsilon: float, local: float, local_delta: float) -> FloatArray:
    """Return upper bounds on delta_m for consecutive m.

    The threshold is off by one only where the term there vanishes up to rounding: `tie`.  Errors
    of the tail sums accumulate along the walk, from the largest m (and smallest sum) on.
    """
    share, over = _threshold(epsilon, local)
    # First count whose likelihood ratio exceeds e^eps, for every m at once.
    t = np.minimum(np.floor(share * m) + 1.0, m)
    log_at = log_half_binomial(m - 1.0, t - 1.0)
    at = np.exp(log_at) * (1.0 + UNIT_ROUNDOFF * (40.0 + 16.0 * np.abs(log_at)))
    # b(m-2, t-1), from b(m-1, t-1): what one step of the walk adds or takes.
    below = at[1:] * 2.0 * (m[1:] - t[1:]) / np.maximum(m[1:] - 1.0, 1.0)
    tail_steps = np.where(t[:-1] < t[1:], 0.5 * below, -0.5 * below)
    start = _tail(int(m[-1]) - 1, int(t[-1]))
    # Tail sums for all m by Pascal's rule, from the largest m down.
    tails = np.cumsum(np.concatenate(([start], tail_steps[::-1])))
    relative = UNIT_ROUNDOFF * (100.0 + 40.0 * float(np.abs(log_at).max()))
    steps = np.concatenate(([start], 0.5 * below[::-1]))
    off = np.cumsum(relative * steps + UNIT_ROUNDOFF * np.abs(tails)) * (1.0 + 1e-9)
    lower = np.maximum(tails - off, 0.0)[::-1]
    if np.any((np.diff(t) < 0.0) | (np.diff(t) > 1.0)):  # by rounding, next to a share of 1
        lower = np.zeros_like(lower)
    tie = 64.0 * UNIT_ROUNDOFF * (2.0 + over) * at
    # delta_m: what is gained at the threshold, less (e^eps - 1) times a tail rounded down.
    values = local_delta * at + tie - over * lower * (1.0 - 8.0 * UNIT_ROUNDOFF)
    rounding = 8.0 * UNIT_ROUNDOFF * (local_delta * at + over * lower)
    return np.clip(values + rounding, 0.0, local_delta)


def _tail(trials: int, least: int) -> float:
    """Return about sum_{k >= least} b(trials, k), no more than it; what is far out is left out."""
    # Ten deviations: what is left out only makes the tail smaller, which is the safe side.
    last = min(trials, least + 50 + 10 * math.isqrt(trials))
    k = np.arange(least, last + 1, dtype=np.float64)
    if k.size == 0:
        return 0.0
    return float(np.exp(log_half_binomial(np.full(k.size, float(trials)), k)).sum())
