"""Closed forms for shuffled messages: what can be written down, and exactly where it holds.

Each function answers for `users` messages that pass a shuffler, one from each user, under
replace-one and against who sees the shuffled messages; epsilons are in nats.  Outside its range
a form is refused, with the condition that fails; the numerical bounds (`blanket_profile`,
`clones_profile`) hold everywhere and are tighter wherever both do.

**Hoeffding and Bennett forms** of the blanket bound.  With n users, a = e^eps - 1, and
M ~ Bin(n, g) copies of L = (mu_0 - e^eps mu_1) / omega under omega, E L = -a,

    delta(eps) <= (1/(g n)) E(L_1 + ... + L_M)+.

If L lies in an interval of length r, P(S_m > s) <= exp(-2 (s + m a)^2 / (m r^2)) and, as
(s + m a)^2 >= m^2 a^2 + 2 s m a, integrating over s > 0 gives
E(S_m)+ <= r^2/(4a) e^(-m c), c = 2 a^2/r^2: the Hoeffding form

    delta <= r^2/(4 a g n) (1 - g (1 - e^-c))^n.

If L <= b and E L^2 <= v, then E e^(tL) <= exp(-t a + (v/b^2)(e^(tb) - 1 - tb)).  At
t = log(1 + u)/b, u = ab/v, the exponent is -c = -(v/b^2) ((1+u) log(1+u) - u), and the integral of
e^(-ts) is 1/t: the Bennett form

    delta <= (1/(t g n)) (1 - g (1 - e^-c))^n.

(Code in circulation divides by a M once more, which falls below exact values; it is not here.)
For a message known only to be epsilon0-LDP, L is that of binary randomized response: the sums of
the clones bound are its sums (`clones`), with g = 2/(p + 1), or 1/p where adaptive.

**The clones forms.**  With L = log(4/delta): C >= (n - 1) q / 2 fails with probability at most
e^(-(n-1) q / 8), and given C, A > C/2 + sqrt(C L / 2) with at most delta/4 (Hoeffding).  For
m = C + 1 messages and first count m/2 + d the likelihood ratio is 1 + 2 (p-1) d / ((p+1) m/2 -
(p-1) d), d <= sqrt(C L / 2) + 1/2.  If d <= m/4 it is at most 1 + 8 (p-1)/((p+1)) d/m, and with
m >= n q/2 that is 1 + (p-1)/(p+1) (8 sqrt(p L/n) + 8 p/n) for q = 1/p, and
1 + (p-1) (4 sqrt(2 L/((p+1) n)) + 4/n) for q = 2/(p+1): the published forms.  Both conditions hold
where (n - 1) q / 2 >= 8 L + 2: then (x - 1)^2 >= 8 L x for x = C, hence sqrt(x L/2) + 1/2 <=
(x + 1)/4, and e^(-(n-1) q/8) <= delta/2.  This range is slightly narrower than the published ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ... import validate
from ...errors import Unsupported
from ..sums import UNIT_ROUNDOFF
from .clones import require_shared
from .profile import Profile, smallest_epsilon
from .randomizers import LaplaceRandomizer, Randomizer, ResponseRandomizer

CLOSED_FORM_OUTWARD_FACTOR: Final = 1.0 + 1e-13
"""Covers the rounding of a form with a few dozen operations."""

MAX_CLOSED_FORM_EPSILON: Final = 100.0
"""Above this local epsilon no form is below it, and its terms overflow."""

_NUMERIC: Final = (
    "The numerical bounds hold here: clones_profile(epsilon0, users), or blanket_profile."
)


def efmrtt19_epsilon(epsilon0: float, users: int, delta: float) -> float:
    """Return 12 epsilon0 sqrt(log(1/delta) / n): any epsilon0-LDP randomizer, also adaptive.

    Range: epsilon0 < 1/2, n >= 1000, delta < 1/100; else `Unsupported`.

    Source: Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta 2019, arXiv 1811.12469.
    (It also follows from the 2021 form: where that holds it is below 6 epsilon0 sqrt(...), and
    elsewhere the root is above 1/12.)

    >>> round(efmrtt19_epsilon(0.4, 10_000, 1e-6), 4)
    0.1784
    """
    epsilon0, users, delta = _checked(epsilon0, users, delta)
    _require(epsilon0 < 0.5, "The 2019 form", f"epsilon0 < 1/2; it is {epsilon0:g}")
    _require(users >= 1000, "The 2019 form", f"at least 1,000 users; they are {users:,}")
    _require(delta < 0.01, "The 2019 form", f"delta < 1/100; it is {delta:g}")
    return min(
        12.0 * epsilon0 * math.sqrt(-math.log(delta) / users) * CLOSED_FORM_OUTWARD_FACTOR, epsilon0
    )


def bbgn19_response_epsilon(epsilon0: float, categories: int, users: int, delta: float) -> float:
    """Return sqrt(14 log(2/delta) (p + k - 1)/(n - 1)): k-ary randomized response, p = e^epsilon0.

    Range: the result is at most 1, and at least 27 (p + k - 1)/(n - 1); else `Unsupported`.

    Source: Balle, Bell, Gascon, Nissim 2019, arXiv 1903.02837.

    >>> round(bbgn19_response_epsilon(1.0, 2, 10_000, 1e-6), 4)
    0.2748
    """
    epsilon0, users, delta = _checked(epsilon0, users, delta)
    categories = validate.count_from(2, categories=categories)
    name = "The closed form for randomized response"
    _require(users >= 2, name, "at least 2 users")
    _require(epsilon0 < MAX_CLOSED_FORM_EPSILON, name, f"a smaller epsilon0; it is {epsilon0:g}")
    odds = (math.exp(epsilon0) + categories - 1.0) / (users - 1.0)
    epsilon = math.sqrt(14.0 * math.log(2.0 / delta) * odds) * CLOSED_FORM_OUTWARD_FACTOR
    _require(epsilon <= 1.0, name, f"an epsilon of at most 1; it is {epsilon:.4g}")
    least = 27.0 * odds
    _require(
        epsilon >= least * CLOSED_FORM_OUTWARD_FACTOR,
        name,
        f"an epsilon of at least 27 (p + k - 1)/(n - 1) = {least:.3g}",
    )
    return min(epsilon, epsilon0)


def fmt21_epsilon(epsilon0: float, users: int, delta: float) -> float:
    """Return log(1 + (p-1)/(p+1) (8 sqrt(p L/n) + 8 p/n)), p = e^epsilon0, L = log(4/delta).

    Any epsilon0-LDP randomizer, also adaptive as for `fmt21_profile`.  Range:
    epsilon0 <= log((n - 1)/(16 L + 4)); else `Unsupported`.

    Source: Feldman, McMillan, Talwar 2021, Theorem 3.1, arXiv 2012.12803; range derived above.

    >>> round(fmt21_epsilon(1.0, 10_000, 1e-6), 4)
    0.214
    """
    epsilon0, users, delta = _checked(epsilon0, users, delta)
    tail = math.log(4.0 / delta)
    _require_range(epsilon0, (users - 1.0) / (16.0 * tail + 4.0), "The 2021 clones form")
    p = math.exp(epsilon0)
    gain = 8.0 * math.sqrt(p * tail / users) + 8.0 * p / users
    return min(math.log1p(math.tanh(0.5 * epsilon0) * gain) * CLOSED_FORM_OUTWARD_FACTOR, epsilon0)


def fmt23_epsilon(
    epsilon0: float, users: int, delta: float, *, adaptive: bool = False, shared: bool = True
) -> float:
    """Return log(1 + (p-1) (4 sqrt(2 L/((p+1) n)) + 4/n)), p = e^epsilon0, L = log(4/delta).

    One epsilon0-LDP randomizer that all users share and that looks at no other message, as for
    `fmt23_profile`.  Range: epsilon0 <= log((n - 1)/(8 L + 2) - 1).  Raises `Unsupported`
    outside it, and for `adaptive` randomizers or those that are not `shared`.

    Source: Feldman, McMillan, Talwar 2023, arXiv 2208.04591; conditions and range derived here.

    >>> round(fmt23_epsilon(1.0, 10_000, 1e-6), 4)
    0.18
    """
    epsilon0, users, delta = _checked(epsilon0, users, delta)
    require_shared(adaptive=adaptive, shared=shared)
    tail = math.log(4.0 / delta)
    _require_range(epsilon0, (users - 1.0) / (8.0 * tail + 2.0) - 1.0, "The 2023 clones form")
    p = math.exp(epsilon0)
    gain = 4.0 * math.sqrt(2.0 * tail / ((p + 1.0) * users)) + 4.0 / users
    return min(math.log1p(math.expm1(epsilon0) * gain) * CLOSED_FORM_OUTWARD_FACTOR, epsilon0)


def hoeffding_log_delta(
    randomizer: Randomizer | float, users: int, epsilon: float, *, adaptive: bool = False
) -> float:
    """Return log of the Hoeffding form at `epsilon` above 0, rounded up; at most 0.

    `randomizer` is a `LaplaceRandomizer` or `ResponseRandomizer`, or the epsilon0 of any shared
    randomizer (any at all where `adaptive`, as for `fmt21_profile`).  Raises `Unsupported` for
    Gaussian noise, whose L has no bound.  Source: derived above from the blanket bound.
    """
    return _log_delta(randomizer, users, epsilon, adaptive, _hoeffding)


def bennett_log_delta(
    randomizer: Randomizer | float, users: int, epsilon: float, *, adaptive: bool = False
) -> float:
    """Return log of the Bennett form at `epsilon` above 0, rounded up; at most 0.

    Arguments and errors as for `hoeffding_log_delta`.  Source: derived above.
    """
    return _log_delta(randomizer, users, epsilon, adaptive, _bennett)


def hoeffding_epsilon(
    randomizer: Randomizer | float, users: int, delta: float, *, adaptive: bool = False
) -> float:
    """Return an epsilon at which the Hoeffding form is at most `delta`; see `hoeffding_log_delta`.

    >>> round(hoeffding_epsilon(LaplaceRandomizer(1.0), 10_000, 1e-6), 4)
    0.054
    """
    return _epsilon(randomizer, users, delta, adaptive, _hoeffding)


def bennett_epsilon(
    randomizer: Randomizer | float, users: int, delta: float, *, adaptive: bool = False
) -> float:
    """Return an epsilon at which the Bennett form is at most `delta`; see `bennett_log_delta`.

    >>> round(bennett_epsilon(LaplaceRandomizer(1.0), 10_000, 1e-6), 4)
    0.045
    """
    return _epsilon(randomizer, users, delta, adaptive, _bennett)


def _checked(epsilon0: object, users: object, delta: object) -> tuple[float, int, float]:
    return (
        validate.non_negative(epsilon0=epsilon0),
        validate.count(users=users),
        validate.open_probability(delta=delta),
    )


def _require(holds: bool, name: str, condition: str) -> None:
    if not holds:
        raise Unsupported(f"{name} does not hold here.", f"It needs {condition}.", _NUMERIC)


def _require_range(epsilon0: float, largest_odds: float, name: str) -> None:
    if largest_odds < 1.0:
        _require(False, name, "more users, for this delta, whatever epsilon0 is")
    largest = math.log(largest_odds)
    _require(
        epsilon0 <= largest,
        name,
        f"epsilon0 <= {largest:.4g} for this many users and delta; it is {epsilon0:g}",
    )


@dataclass(frozen=True)
class _ExcessMoments:
    """What the forms need of L at one epsilon: its blanket's mass, and L's range and moments.

    `mass` is rounded down; `largest`, `spread` (of the range) and `square` (mean of L^2) up;
    `deficit` (minus the mean of L) down.
    """

    mass: float
    deficit: float
    largest: float
    spread: float
    square: float


_BoundedRandomizer: TypeAlias = LaplaceRandomizer | ResponseRandomizer
_Form: TypeAlias = Callable[[_ExcessMoments, int], float]


def _excess(randomizer: _BoundedRandomizer, epsilon: float, adaptive: bool) -> _ExcessMoments:
    """Return L's constants for the worst pair of values; `epsilon` is below epsilon0."""
    deficit, grown = math.expm1(epsilon), math.exp(epsilon)
    if isinstance(randomizer, LaplaceRandomizer):
        mass = math.exp(-0.5 * randomizer.epsilon0)
        largest = -math.expm1(epsilon - randomizer.epsilon0) / mass
        spread = (grown + 1.0) * 2.0 * math.sinh(0.5 * randomizer.epsilon0)
        # With r_x = mu_x / omega: E r_0^2 = 1 + s and E r_0 r_1 = 1 - t, neither by cancelling.
        rise, fall = math.expm1(0.5 * randomizer.epsilon0), math.expm1(-0.5 * randomizer.epsilon0)
        s, t = rise**2 * (3.0 + 2.0 * rise) / (3.0 * (1.0 + rise) ** 2), fall**2
        square = deficit**2 * (1.0 + s) + 2.0 * grown * (s + t)
    else:
        k, rest = float(randomizer.categories), math.expm1(randomizer.epsilon0)
        mass = k / (rest + k)
        scaled = rest * mass  # (1 - g) k
        largest = scaled - mass * deficit
        spread = scaled * (grown + 1.0)
        square = mass * (2.0 - mass) * deficit**2 + scaled**2 / k * (1.0 + grown * grown)
        if adaptive:
            mass = math.exp(-randomizer.epsilon0)
    # Each constant to the side on which both forms grow.
    up, down = 1.0 + 64.0 * UNIT_ROUNDOFF, 1.0 - 64.0 * UNIT_ROUNDOFF
    return _ExcessMoments(mass * down, deficit * down, largest * up, spread * up, square * up)


def _hoeffding(excess: _ExcessMoments, users: int) -> float:
    # c = 2 a^2/r^2 of the Hoeffding form.
    rate = 2.0 * (excess.deficit / excess.spread) ** 2
    log_front = 2.0 * math.log(excess.spread) - math.log(4.0 * excess.deficit)
    return log_front + _log_mean(excess, users, rate)


def _bennett(excess: _ExcessMoments, users: int) -> float:
    if excess.largest <= 0.0:
        return -math.inf
    # v/b^2 and u = a b/v of the Bennett form.
    scaled = excess.square / excess.largest**2
    ratio = excess.deficit * excess.largest / excess.square
    log_front = math.log(excess.largest / math.log1p(ratio))
    return log_front + _log_mean(excess, users, scaled * _phi(ratio))


def _log_mean(excess: _ExcessMoments, users: int, rate: float) -> float:
    """Return log of (1/(g n)) (1 - g (1 - e^-rate))^n."""
    # Down, so that (1 - g (1 - e^-c))^n is never below its exact value.
    rate *= 1.0 - 1e-13
    shrunk = users * math.log1p(excess.mass * math.expm1(-rate)) * (1.0 - 1e-13)
    return shrunk - math.log(excess.mass) - math.log(users)


def _phi(u: float) -> float:
    """Return (1 + u) log(1 + u) - u for u > 0, no more than it, without cancelling."""
    if u > 0.1:
        return ((1.0 + u) * math.log1p(u) - u) * (1.0 - 1e-13)
    # u^2/2 - u^3/6 + u^4/12 - ..., which alternates: an even number of terms is too little.
    terms = [(-u) ** k / (k * (k - 1)) for k in range(2, 18)]
    return math.fsum(terms) * (1.0 - 1e-14)


def _bounded(randomizer: Randomizer | float, adaptive: bool) -> _BoundedRandomizer:
    """Return a randomizer whose L is bounded; for a stated epsilon0 the one that bounds all."""
    if isinstance(randomizer, (int, float)):
        return ResponseRandomizer(validate.non_negative(epsilon0=randomizer), 2)
    if adaptive:
        raise Unsupported(
            "The blanket forms do not hold for adaptive randomizers.",
            "Their blanket is that of one randomizer which all users share.",
            "Give the local epsilon instead of the randomizer.",
        )
    if isinstance(randomizer, (LaplaceRandomizer, ResponseRandomizer)):
        return randomizer
    raise Unsupported(
        f"The Hoeffding and Bennett forms do not take {randomizer.description}.",
        "They need a largest value of L, and here L is unbounded.",
        "Use blanket_profile, which leaves out a tail and adds its probability.",
    )


def _log_delta(
    randomizer: Randomizer | float, users: int, epsilon: float, adaptive: bool, form: _Form
) -> float:
    bounded = _bounded(randomizer, adaptive)
    epsilon, users = validate.positive(epsilon=epsilon), validate.count(users=users)
    if epsilon >= bounded.epsilon0:
        return -math.inf
    if bounded.epsilon0 > MAX_CLOSED_FORM_EPSILON:
        return 0.0
    log_bound = form(_excess(bounded, epsilon, adaptive), users)
    return min(log_bound + 1e-13 * (1.0 + abs(log_bound)), 0.0)


def _epsilon(
    randomizer: Randomizer | float, users: int, delta: float, adaptive: bool, form: _Form
) -> float:
    bounded = _bounded(randomizer, adaptive)
    delta = validate.open_probability(delta=delta)

    def log_delta(epsilon: float) -> float:
        return _log_delta(randomizer, users, epsilon, adaptive, form) if epsilon > 0.0 else 0.0

    if bounded.epsilon0 == 0.0:
        return 0.0
    return smallest_epsilon(Profile(log_delta, bounded.epsilon0, ()), delta)
